//! By which names a release refers to what is registered: annotations of its strategy, so that whoever submits one as text can say
//! the same.

use std::collections::BTreeMap;

use language::{MAX_ANNOTATION_BYTES, Strategy};
use model::{MAX_RELEASE_ID_LEN, ReleaseId};

use super::{Kind, Uuid};

pub(super) const ENVIRONMENT: &str = "environment";
const VERSION: &str = "version/";
const GROUP: &str = "target-group/";

/// The registered Release of which a release is a canary.
pub const REGISTERED_RELEASE: &str = "registered-release";

/// Of a release in which agents deploy something: which variation each version of its function is.
pub(super) const BASE: &str = "variation/base_version";
pub(super) const NEW: &str = "variation/new_version";

/// Of a release to agents: how the share of the new variation grows, by name or written out.
const ROLLOUT: &str = "rollout-strategy";

/// What a release refers to by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    pub environment: Option<String>,
    /// By variation.
    pub versions: BTreeMap<String, String>,
    /// By variation.
    pub groups: BTreeMap<String, String>,
    /// Where agents deploy something: the stable variation, and the one that they deploy.
    pub pair: Option<(String, String)>,
    /// Of a release to agents: how the share grows, as it may stand under `strategy:`.
    pub rollout: Option<String>,
    /// The registered Release of which it is a canary.
    pub release: Option<String>,
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
            pair: strategy.annotations.get(BASE).cloned().zip(strategy.annotations.get(NEW).cloned()),
            rollout: strategy.annotations.get(ROLLOUT).cloned(),
            release: strategy.annotations.get(REGISTERED_RELEASE).cloned(),
        }
    }

    /// As annotations; a canary has its own, and is none of this interface's releases.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let keyed = |prefix: &'static str, names: &BTreeMap<String, String>| {
            let pair = |(variation, name): (&String, &String)| (format!("{prefix}{variation}"), name.clone());
            names.iter().map(pair).collect::<Vec<_>>()
        };
        let environment = self.environment.iter().map(|name| (ENVIRONMENT.to_owned(), name.clone()));
        let pair = self
            .pair
            .iter()
            .flat_map(|(base, new)| [(BASE.to_owned(), base.clone()), (NEW.to_owned(), new.clone())]);
        let rollout = self.rollout.iter().filter(|text| text.len() <= MAX_ANNOTATION_BYTES);
        let rollout = rollout.map(|text| (ROLLOUT.to_owned(), text.clone()));
        let named = keyed(VERSION, &self.versions).into_iter().chain(keyed(GROUP, &self.groups));
        environment.chain(named).chain(pair).chain(rollout).collect()
    }

    /// Whether a release refers to what is registered under this name.
    #[must_use]
    pub fn uses(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Environment => self.environment.as_deref() == Some(name),
            Kind::Version => self.versions.values().any(|used| used == name),
            Kind::TargetGroup => self.groups.values().any(|used| used == name),
            // What a release adopts goes with it; what its annotations say holds nobody up.
            Kind::RegisteredRelease
            | Kind::Tenant
            | Kind::User
            | Kind::Release
            | Kind::Stage
            | Kind::Strategy => false,
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
