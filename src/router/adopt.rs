//! What a router does for a service today by its operator's own configuration, and the lines by which it is led from then on.

use std::{collections::BTreeSet, fmt::Write as _, net::IpAddr};

use traffic::desired::{Listen, Protocol, Target};

/// A service as an operator's configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// As the configuration calls it.
    pub name: String,
    /// Where it takes calls; none of an address: all of them.
    pub listens: BTreeSet<(Option<IpAddr>, u16)>,
    pub protocol: Protocol,
    /// Whose calls it takes there; none: whatever host.
    pub hosts: Vec<String>,
    /// What their paths begin with; none: whatever path.
    pub path: Option<String>,
    /// Where its calls go.
    pub targets: Vec<Target>,
    /// What it has that a service that is led has not, or not so: a line each.
    pub beside: Vec<String>,
}

/// Why nothing can be told of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    #[error("its configuration can't be read: {0}")]
    Unreadable(String),
    #[error("its configuration has no service {name:?}; it has {}", list(known))]
    Unknown { name: String, known: Vec<String> },
    #[error("{name} is led already: `choirmaster service show {name}` says what stands")]
    Led { name: String },
    #[error(
        "{name} listens at {} alone, and services of this router at {}: set {setting} to that first, so that nobody else reaches it",
        listed(listens),
        listed(addresses)
    )]
    Wider { name: String, listens: Vec<IpAddr>, addresses: Vec<IpAddr>, setting: &'static str },
    #[error("{name} shares its calls out by {algorithm}, which keeps to no shares: take that out first")]
    Algorithm { name: String, algorithm: String },
    #[error("{name} leads to no target that has an address or a name with a port")]
    NoTargets { name: String },
}

/// The most names that are told.
const KNOWN: usize = 32;

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().take(KNOWN).cloned().collect::<Vec<_>>().join(", "),
    }
}

fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Adopted {
    /// Refuses what would be reached at more addresses than it is today. `addresses`: where services of the router listen, as its setting of
    /// this name says.
    ///
    /// # Errors
    ///
    /// [`AdoptError::Wider`].
    pub fn check_addresses(&self, addresses: &[IpAddr], setting: &'static str) -> Result<(), AdoptError> {
        let listens: Option<Vec<IpAddr>> = self.listens.iter().map(|(address, _)| *address).collect();
        let Some(mut listens) = listens.filter(|all| !all.iter().any(IpAddr::is_unspecified)) else {
            return Ok(());
        };
        listens.dedup();
        if addresses.iter().all(|address| listens.contains(address)) {
            return Ok(());
        }
        let (name, addresses) = (self.name.clone(), addresses.to_vec());
        Err(AdoptError::Wider { name, listens, addresses, setting })
    }

    /// The lines. `router`: what its own configuration needs, a line each; `replaced`: what is to be taken out of it, so that the ports
    /// are free.
    #[must_use]
    pub fn lines(&self, router: &[String], replaced: &str) -> String {
        let mut text = String::new();
        let mut line = |line: &str| {
            // Writing into a string can't fail.
            let _ = writeln!(text, "{line}");
        };
        line("# Into the router's own configuration:");
        for one in router {
            line(one);
        }
        line(&format!(
            "# Out of it, before a release of the lines below is submitted, which is refused while the ports are taken: {replaced}"
        ));
        line("# Into a strategy, whose first variation is what serves today:");
        line("services:");
        line(&format!("  - name: {}", name_of(&self.name)));
        let ports: BTreeSet<u16> = self.listens.iter().map(|(_, port)| *port).collect();
        let (hosts, path) = (&self.hosts, &self.path);
        let listen =
            |port| Listen { hosts: hosts.clone(), path: path.clone(), ..Listen::new(port, self.protocol) };
        line(&format!("    ports: {}", Listen::list(&ports.into_iter().map(listen).collect::<Vec<_>>())));
        let targets: Vec<String> = self.targets.iter().map(|target| format!("\"{target}\"")).collect();
        line("    variations:");
        line(&format!("      - {{name: stable, targets: [{}]}}", targets.join(", ")));
        line("      - {name: new, targets: [\"HOST:PORT\"]}   # what is to be released");
        for one in &self.beside {
            line(&format!("# Not taken over: {one}"));
        }
        text
    }
}

/// Whether one of these, each an address (none: all of them) with a port, takes connections of this address, or this one theirs.
#[must_use]
pub fn is_taken(listens: &BTreeSet<(Option<IpAddr>, u16)>, address: IpAddr, port: u16) -> bool {
    let is_any = |address: Option<IpAddr>| address.is_none_or(|address| address.is_unspecified());
    let mut there = listens.iter().filter(|(_, of)| *of == port);
    there.any(|(of, _)| is_any(*of) || address.is_unspecified() || *of == Some(address))
}

/// A name that a service may have, from one of a router's.
#[must_use]
pub fn name_of(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || "._-".contains(letter) => letter,
        _ => '-',
    });
    let name: String = letters.skip_while(|letter| !letter.is_ascii_alphanumeric()).take(63).collect();
    if name.is_empty() { "service".to_owned() } else { name }
}
