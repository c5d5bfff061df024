//! What `HAProxy` does for a service by its operator's configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::adopt::{AdoptError, Adopted};
use traffic::desired::{Protocol, Target};

/// A section, with the words of its lines.
#[derive(Debug, Default)]
struct Section<'c> {
    kind: &'c str,
    name: &'c str,
    lines: Vec<Vec<&'c str>>,
}

/// Lines that are taken over, or mean nothing for one service.
const PLAIN: [&str; 5] = ["bind", "mode", "server", "default_backend", "use_backend"];

/// By this the light one of two servers gets what the other has no room for, whatever its weight.
const UNWEIGHTED: &str = "leastconn";

/// The service of this name, which is a `frontend`, a `listen` or a `backend`, of the operator's configuration.
///
/// # Errors
///
/// No such service, one without targets, or by an algorithm that has no weights.
pub fn adopt(config: &str, name: &str) -> Result<Adopted, AdoptError> {
    let sections = sections(config);
    let takes = |one: &&Section<'_>| matches!(one.kind, "frontend" | "listen");
    let found = sections.iter().filter(takes).find(|one| one.name == name);
    // By its backend: who takes the calls that go there.
    let found = found.or_else(|| {
        sections.iter().filter(takes).find(|one| backends(one).any(|(backend, _)| backend == name))
    });
    let Some(front) = found else {
        let known = sections.iter().filter(takes).map(|one| one.name.to_owned()).collect();
        return Err(AdoptError::Unknown { name: name.to_owned(), known });
    };
    let mut beside = Vec::new();
    let mut targets: Vec<Target> = Vec::new();
    let mut to = vec![front];
    for (backend, is_default) in backends(front) {
        to.extend(sections.iter().find(|one| one.kind == "backend" && one.name == backend));
        if !is_default {
            beside.push(format!("use_backend {backend} for some calls; the targets of all are listed"));
        }
    }
    for section in &to {
        for line in &section.lines {
            match line[..] {
                ["server", _, at, ref settings @ ..] => {
                    targets.extend(at.parse::<Target>().ok().filter(|target| !targets.contains(target)));
                    if !settings.is_empty() {
                        beside.push(format!("server {at} {}", settings.join(" ")));
                    }
                }
                ["balance", "roundrobin", ..] => {}
                [word, ..] if !PLAIN.contains(&word) => {
                    beside.push(format!("{}, in {}", line.join(" "), section.name));
                }
                _ => {}
            }
        }
    }
    if targets.is_empty() {
        return Err(AdoptError::NoTargets { name: name.to_owned() });
    }
    let defaults = sections.iter().rev().find(|one| one.kind == "defaults");
    let shares_out = |one: &&Section<'_>| one.lines.iter().any(|line| line[0] == "server");
    let mut algorithms =
        to.iter().copied().filter(shares_out).map(|one| balance_of(one).or(defaults.and_then(balance_of)));
    if algorithms.any(|algorithm| algorithm == Some(UNWEIGHTED)) {
        let algorithm = format!("balance {UNWEIGHTED}");
        return Err(AdoptError::Algorithm { name: name.to_owned(), algorithm });
    }
    let inherited = sections.iter().rev().filter(|one| one.kind == "defaults").find_map(mode_of);
    let protocol = match mode_of(front).or(inherited) {
        Some("http") => Protocol::Http,
        Some(_) | None => Protocol::Tcp,
    };
    let is_secured = binds(front).any(|line| line.contains(&"ssl"));
    let protocol = if is_secured && protocol == Protocol::Http { Protocol::Https } else { protocol };
    Ok(Adopted {
        name: name.to_owned(),
        listens: listens(front),
        protocol,
        hosts: Vec::new(),
        path: None,
        targets,
        beside,
    })
}

/// Whether a runtime socket of level admin is set at this path.
#[must_use]
pub fn has_socket(config: &str, path: &str) -> bool {
    let is_it = |line: &Vec<&str>| {
        line.starts_with(&["stats", "socket", path]) && line.windows(2).any(|pair| pair == ["level", "admin"])
    };
    sections(config).iter().flat_map(|section| &section.lines).any(is_it)
}

fn sections(config: &str) -> Vec<Section<'_>> {
    const KINDS: [&str; 6] = ["global", "defaults", "frontend", "backend", "listen", "ring"];
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in config.lines() {
        let words: Vec<&str> =
            line.split_ascii_whitespace().take_while(|word| !word.starts_with('#')).collect();
        match words[..] {
            [] => {}
            [kind, ref rest @ ..] if KINDS.contains(&kind) && !line.starts_with([' ', '\t']) => {
                let name = rest.first().copied().unwrap_or_default();
                sections.push(Section { kind, name, lines: Vec::new() });
            }
            _ => sections.last_mut().into_iter().for_each(|last| last.lines.push(words.clone())),
        }
    }
    sections
}

/// The backends of a section that takes calls, with whether it is for all others.
fn backends<'s>(section: &'s Section<'_>) -> impl Iterator<Item = (&'s str, bool)> {
    let of = |line: &'s Vec<&str>| match line[..] {
        ["default_backend", name, ..] => Some((name, true)),
        ["use_backend", name, ..] => Some((name, false)),
        _ => None,
    };
    let found: BTreeMap<&str, bool> = section.lines.iter().filter_map(of).collect();
    found.into_iter()
}

fn mode_of<'c>(section: &Section<'c>) -> Option<&'c str> {
    last_of(section, "mode")
}

fn balance_of<'c>(section: &Section<'c>) -> Option<&'c str> {
    last_of(section, "balance")
}

fn last_of<'c>(section: &Section<'c>, word: &str) -> Option<&'c str> {
    let line = section.lines.iter().rev().find(|line| line[0] == word)?;
    line.get(1).copied()
}

fn binds<'s, 'c>(section: &'s Section<'c>) -> impl Iterator<Item = &'s Vec<&'c str>> {
    section.lines.iter().filter(|line| line[0] == "bind")
}

/// Where the sections of a configuration listen: each address, none of which are all, with its port.
#[must_use]
pub fn listens_of_others(config: &str) -> BTreeSet<(Option<IpAddr>, u16)> {
    sections(config).iter().flat_map(listens).collect()
}

fn listens(section: &Section<'_>) -> BTreeSet<(Option<IpAddr>, u16)> {
    let addresses = binds(section).filter_map(|line| line.get(1)).flat_map(|word| word.split(','));
    let of = |word: &str| {
        let (address, port) = word.rsplit_once(':')?;
        let address = address.trim_matches(['[', ']']).parse().ok();
        Some((address, port.parse().ok()?))
    };
    addresses.filter_map(of).collect()
}
