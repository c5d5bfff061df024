//! Which lists of addresses can be put in force beside those of the configuration, and what follows from one.

use std::{fmt, io};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    form::{AddressForm, AddressKind, ListenForm},
    shared::Sharing,
    sockets::{Listen, MAX_ADDRESSES},
};

/// What a list changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In the order of the list.
    pub open: Vec<Listen>,
    pub close: Vec<Listen>,
}

/// What is to be opened and closed so that all is open that is wanted, and nothing else. What is wanted of an address that is open for
/// something else is both.
#[must_use]
pub fn differ(now: &[Listen], wanted: &[Listen]) -> Difference {
    let without =
        |all: &[Listen], others: &[Listen]| all.iter().copied().filter(|one| !others.contains(one)).collect();
    Difference { open: without(wanted, now), close: without(now, wanted) }
}

/// Why a list isn't in force. Nothing of it is then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct ListenFault {
    pub class: ListenFaultClass,
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenFaultClass {
    /// The list can't be meant.
    Invalid,
    /// The system doesn't let this proxy listen there.
    Forbidden,
    /// Something stands in its way: another list, whoever has the address, or that there is no supervisor.
    Conflict,
    /// It can't be kept on disk, or no socket can be made.
    NoRoom,
    /// It can't be now: ask again. So is what a later program says of a list, and this one doesn't know.
    #[serde(other)]
    Busy,
}

impl ListenFault {
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self { class: ListenFaultClass::Invalid, why: why.into() }
    }

    pub(crate) fn conflict(why: impl Into<String>) -> Self {
        Self { class: ListenFaultClass::Conflict, why: why.into() }
    }

    pub(crate) fn busy() -> Self {
        let why = "another process is taking over, or another list is put in force: ask again".to_owned();
        Self { class: ListenFaultClass::Busy, why }
    }

    /// The list is in force, and not everywhere yet.
    pub(crate) fn not_yet(why: impl fmt::Display) -> Self {
        let why = format!("the list is in force, but it isn't listened on all of it yet: {why}; ask again");
        Self { class: ListenFaultClass::Busy, why }
    }

    pub(crate) fn not_kept(error: &io::Error) -> Self {
        let why = format!("the list can't be kept on disk, so the one before stays in force: {error}");
        Self { class: ListenFaultClass::NoRoom, why }
    }

    /// What the system said when an address was to be opened.
    #[must_use]
    pub fn of_system(listen: Listen, error: &io::Error) -> Self {
        let (class, why) = match Errno::from_io_error(error) {
            Some(Errno::ADDRINUSE) => (
                ListenFaultClass::Conflict,
                format!("can't listen on {listen}, which somebody else has: {error}"),
            ),
            Some(Errno::ACCESS | Errno::PERM) => (
                ListenFaultClass::Forbidden,
                format!(
                    "this proxy may not listen on {listen}: {error}; give it the right to (CAP_NET_BIND_SERVICE), or have \
                     systemd hand it the socket"
                ),
            ),
            Some(Errno::ADDRNOTAVAIL) => (
                ListenFaultClass::Forbidden,
                format!(
                    "this proxy may not listen on {listen}, which is no address of this machine: {error}"
                ),
            ),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                (ListenFaultClass::NoRoom, format!("there is no room to listen on {listen}: {error}"))
            }
            _ => (ListenFaultClass::Invalid, format!("can't listen on {listen}: {error}")),
        };
        Self { class, why }
    }
}

/// How lists are told apart.
fn number(form: &ListenForm) -> String {
    format!("{}.{}", form.epoch, form.generation)
}

/// Whether a list can follow the one in force, where the configuration has these addresses, and so many sockets were lent. Both are in
/// order.
pub(crate) fn check(
    in_force: &ListenForm,
    (configured, lent): (&[Listen], usize),
    wanted: &ListenForm,
) -> Result<(), ListenFault> {
    let numbers = |form: &ListenForm| (form.epoch, form.generation);
    if numbers(wanted) < numbers(in_force) {
        let (wanted, in_force) = (number(wanted), number(in_force));
        return Err(ListenFault::conflict(format!(
            "list {wanted} of addresses is older than the one in force, {in_force}"
        )));
    }
    // Also of the list in force: the configuration may have more addresses than it had then.
    let (own, others) = (configured.len() + lent, missing(wanted, configured).len());
    if own + others > MAX_ADDRESSES {
        return Err(ListenFault::invalid(format!(
            "{others} addresses beside {own} of the configuration; a proxy listens on at most {MAX_ADDRESSES}"
        )));
    }
    if numbers(wanted) == numbers(in_force) {
        if wanted == in_force {
            return Ok(());
        }
        if in_force.generation > 0 {
            return Err(ListenFault::conflict(format!(
                "list {} of addresses is in force with another content: a change needs a new generation",
                number(in_force)
            )));
        }
    }
    let all = addresses(wanted);
    for (at, listen) in all.iter().enumerate() {
        let why = if listen.address.port() == 0 {
            "names no port; any free one would be another after a restart"
        } else if all[..at].iter().any(|other| other.is_at(listen)) {
            "has an address that is in the list already"
        } else if configured.iter().any(|own| own.is_at(listen)) {
            "has an address that this proxy's configuration has: leave it out"
        } else {
            continue;
        };
        return Err(ListenFault::invalid(format!("{listen} {why}")));
    }
    check_shared(wanted)
}

/// Whether what other programs are to have as well is of the list, and once.
fn check_shared(wanted: &ListenForm) -> Result<(), ListenFault> {
    let shared: Vec<_> = wanted.lent.iter().chain(&wanted.joined).collect();
    for (at, address) in shared.iter().enumerate() {
        let is_of_it = |form: &AddressForm| form.address == **address && form.kind != AddressKind::Udp;
        let why = if !wanted.listen.iter().any(is_of_it) {
            "is no address of TCP in the list, and is to be shared"
        } else if shared[..at].contains(address) {
            "is to be shared in two ways"
        } else {
            continue;
        };
        return Err(ListenFault::invalid(format!("{address} {why}")));
    }
    Ok(())
}

/// Whose the socket is of an address, where it is of this list.
pub(crate) fn sharing(form: &ListenForm, listen: Listen) -> Sharing {
    if listen.kind.is_udp() {
        Sharing::Alone
    } else if form.lent.contains(&listen.address) {
        Sharing::Lent
    } else if form.joined.contains(&listen.address) {
        Sharing::Joined
    } else {
        Sharing::Alone
    }
}

/// The same list, in order: the order in which it was written says nothing.
pub(crate) fn in_order(mut form: ListenForm) -> ListenForm {
    form.listen.sort_unstable();
    form.lent.sort_unstable();
    form.joined.sort_unstable();
    form
}

/// The addresses of a list.
pub(crate) fn addresses(form: &ListenForm) -> Vec<Listen> {
    form.listen.iter().copied().map(Listen::from).collect()
}

/// Those of the list that aren't among others.
pub(crate) fn missing(form: &ListenForm, there: &[Listen]) -> Vec<AddressForm> {
    let is_missing = |one: &&AddressForm| !there.iter().any(|other| other.is_at(&Listen::from(**one)));
    form.listen.iter().filter(is_missing).copied().collect()
}
