//! What files say, ours and the operator's.

use std::collections::BTreeSet;

use super::{Folder, MARK, STATE, Structure, maps::services_of};

/// The structure of a section of ours.
#[must_use]
pub fn structure_of(section: &str, folder: &Folder) -> Option<Structure> {
    let end = format!("/{STATE}");
    section.split(['(', ')', ',']).filter_map(|word| word.strip_suffix(end.as_str())).find_map(|maps| {
        let structure = maps.rsplit('/').next()?.parse().ok()?;
        (folder.maps(&structure) == maps).then_some(structure)
    })
}

/// Where a section of ours listens, as it is written there.
#[must_use]
pub fn listens_of(section: &str) -> BTreeSet<&str> {
    let binds = section.lines().filter_map(|line| line.trim_start().strip_prefix("bind "));
    binds.filter_map(|words| words.split_ascii_whitespace().next()).collect()
}

/// The names of sections in a configuration that are marked as ours, and belong to none of the services that a file of the map
/// [`STATE`] names.
#[must_use]
pub fn strange_sections(config: &str, state: &str) -> Vec<String> {
    let services: BTreeSet<&str> = services_of(state).collect();
    let name = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_proxy = words.next().is_some_and(|word| ["frontend", "backend", "listen"].contains(&word));
        words.next().filter(|_| is_proxy).map(str::to_owned)
    };
    let is_strange = |name: &String| {
        name.strip_prefix(MARK).is_some_and(|rest| {
            let service = rest.split(':').next().unwrap_or_default();
            !service.is_empty() && !services.contains(service)
        })
    };
    config.lines().filter_map(name).filter(is_strange).collect()
}
