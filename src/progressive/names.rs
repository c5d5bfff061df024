//! By which names a release refers to what is registered: annotations of its strategy, so that whoever submits one as text can say
//! the same.

use std::collections::BTreeMap;

use language::Strategy;
use model::{MAX_RELEASE_ID_LEN, ReleaseId};

use super::{Kind, Uuid};

const ENVIRONMENT: &str = "environment";
const VERSION: &str = "version/";
const GROUP: &str = "target-group/";

/// What a release refers to by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    pub environment: Option<String>,
    /// By variation.
    pub versions: BTreeMap<String, String>,
    /// By variation.
    pub groups: BTreeMap<String, String>,
}

impl Names {
    #[must_use]
    pub fn of(strategy: &Strategy) -> Self {
        let below = |prefix: &str| {
            let all = strategy.annotations.iter();
            all.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone())))
                .collect()
        };
        Self {
            environment: strategy.annotations.get(ENVIRONMENT).cloned(),
            versions: below(VERSION),
            groups: below(GROUP),
        }
    }

    /// As annotations.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let keyed = |prefix: &'static str, names: &BTreeMap<String, String>| {
            let pair = |(variation, name): (&String, &String)| (format!("{prefix}{variation}"), name.clone());
            names.iter().map(pair).collect::<Vec<_>>()
        };
        let environment = self.environment.iter().map(|name| (ENVIRONMENT.to_owned(), name.clone()));
        environment.chain(keyed(VERSION, &self.versions)).chain(keyed(GROUP, &self.groups)).collect()
    }

    /// Whether a release refers to what is registered under this name.
    #[must_use]
    pub fn uses(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Environment => self.environment.as_deref() == Some(name),
            Kind::Version => self.versions.values().any(|used| used == name),
            Kind::TargetGroup => self.groups.values().any(|used| used == name),
            Kind::Tenant | Kind::User | Kind::Release | Kind::Stage | Kind::Strategy => false,
        }
    }
}

/// The id of the release that people call so, of at most so many bytes: the same for the same name, and another for each other.
#[must_use]
pub fn release_id(name: &str, longest: usize) -> Option<ReleaseId> {
    let longest = longest.min(MAX_RELEASE_ID_LEN);
    let may_stand = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-');
    let plain: String = name.chars().map(|c| if may_stand(c) { c } else { '-' }).collect();
    if plain == name && name.len() <= longest {
        return ReleaseId::parse(name).ok();
    }
    let digest = Uuid::of(Kind::Release, &[name]).to_string();
    let digest = digest.get(..8)?;
    let start: String =
        plain.trim_matches('-').chars().take(longest.saturating_sub(digest.len() + 1)).collect();
    ReleaseId::parse(&if start.is_empty() { digest.to_owned() } else { format!("{start}-{digest}") }).ok()
}
