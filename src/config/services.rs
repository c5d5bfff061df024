//! What releases of services may name.

use std::path::{Path, PathBuf};

use super::{
    ConfigError, Fault,
    section::{Field, Section},
};
use crate::strategies;
use ab_releases::{Fault as Unfit, check_environment, check_group, check_version};
use language::RolloutTemplates;
use protocol::ab_releases::Registrations;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Services {
    /// A folder of YAML files; `None`: there are no strategies but those that every manager has.
    pub strategies: Option<PathBuf>,
    /// A file of environments, target groups and versions; `None`: all are registered by calls.
    pub environments: Option<PathBuf>,
}

impl Services {
    /// # Errors
    ///
    /// Every fault of every file.
    pub fn templates(&self) -> Result<RolloutTemplates, ConfigError> {
        let Some(folder) = &self.strategies else { return Ok(RolloutTemplates::default()) };
        strategies::read(folder).map_err(|unread| ConfigError {
            faults: unread.into_iter().map(|one| Fault { place: one.place, message: one.message }).collect(),
        })
    }

    /// # Errors
    ///
    /// What of the file can't be taken.
    pub fn registered(&self) -> Result<Registrations, ConfigError> {
        let Some(file) = &self.environments else { return Ok(Registrations::default()) };
        let found =
            read(file).map_err(|message| vec![message]).and_then(|found| check(&found).map(|()| found));
        found.map_err(|messages| ConfigError {
            faults: messages
                .into_iter()
                .map(|message| Fault { place: file.display().to_string(), message })
                .collect(),
        })
    }
}

fn read(file: &Path) -> Result<Registrations, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("can't be read: {error}"))?;
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    let found = serde_saphyr::from_str_with_options::<Option<Registrations>>(&text, options);
    found.map(Option::unwrap_or_default).map_err(|error| error.to_string())
}

/// Every field that can't be taken.
fn check(all: &Registrations) -> Result<(), Vec<String>> {
    let told = |what: &str, at: usize, fit: Result<(), Unfit>| {
        fit.err().map(|unfit| format!("{what}[{at}].{}: {}", unfit.field, unfit.why))
    };
    let environments = all.environments.iter().enumerate();
    let environments = environments.filter_map(|(at, one)| told("environments", at, check_environment(one)));
    let groups = all.target_groups.iter().enumerate();
    let groups = groups.filter_map(|(at, one)| told("target_groups", at, check_group(one)));
    let versions = all.versions.iter().enumerate();
    let versions = versions.filter_map(|(at, one)| told("versions", at, check_version(one)));
    let all: Vec<String> = environments.chain(groups).chain(versions).collect();
    if all.is_empty() { Ok(()) } else { Err(all) }
}

impl Section for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("strategies", &mut self.strategies),
            Field::new("environments", &mut self.environments),
        ]
    }
}
