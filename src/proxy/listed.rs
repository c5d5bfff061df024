//! The sockets of addresses that were opened beside those of the configuration, and the list of these on disk.
//!
//! Invariants:
//!
//! 1. A list is in the file, and the file's name in its folder, before any of it is in force. All of it is then, or nothing; but for an
//!    address of the list before that couldn't be opened, which no other one waits for.
//! 2. After a restart, what is in the list is opened again. An address that can't be is no reason not to serve: it stays in the list,
//!    and is tried again.
//! 3. One process writes the file: the owner of the sockets. It changes one list at a time.
//! 4. A socket that was lent stays, whatever lists have: what they open of it are copies.

use std::{
    fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
};

use crate::{
    form::ListenForm,
    listens::{self, Difference, ListenFault, differ},
    shared::{self, Sharing},
    sockets::{Listen, MAX_ADDRESSES, Open, Socket},
    whole_file,
};

const NAME: &str = "listen.json";
const NAME_OF_DAMAGED: &str = "listen.json.damaged";

/// The most bytes that are read: far more than a list has.
const MAX_BYTES: u64 = 1024 * 1024;

/// A list that can be put in force, with the sockets that it opens.
#[derive(Debug)]
pub(crate) struct Change {
    /// Where it is to be kept; nothing where it is kept already.
    file: Option<PathBuf>,
    form: ListenForm,
    opened: Vec<Open>,
    close: Vec<Listen>,
}

/// A list in force, and the sockets that are open because of it.
#[derive(Debug)]
pub(crate) struct Listed {
    file: PathBuf,
    form: ListenForm,
    open: Vec<Open>,
    /// Sockets that were lent; none: lists may have no address that another program has.
    lent: Option<Vec<Open>>,
}

impl Listed {
    /// The list in a folder, of which nothing is open. A damaged one is put aside, and counts for none.
    pub(crate) fn load(state: &Path) -> io::Result<Self> {
        let file = state.join(NAME);
        let bytes = match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
            Ok(about) if about.len() > MAX_BYTES => Some(Err(format!("it has more than {MAX_BYTES} bytes"))),
            Ok(_) => Some(Ok(fs::read(&file)?)),
        };
        let found = bytes.map(|bytes| bytes.and_then(|bytes| read(&bytes)));
        let form = match found.transpose() {
            Ok(form) => form.unwrap_or_default(),
            Err(why) => {
                let aside = state.join(NAME_OF_DAMAGED);
                fs::rename(&file, &aside)?;
                tracing::error!(
                    "the list of addresses on disk can't be used: {why}. It was put aside as {}; it is listened on the addresses of \
                     the configuration alone until there is another list",
                    aside.display()
                );
                ListenForm::default()
            }
        };
        Ok(Self { file, form, open: Vec::new(), lent: None })
    }

    /// The list in force.
    pub(crate) fn form(&self) -> &ListenForm {
        &self.form
    }

    /// The sockets that are open because of it.
    pub(crate) fn open(&self) -> &[Open] {
        &self.open
    }

    /// Lists may have addresses that other programs have as well: by these sockets, or beside theirs.
    pub(crate) fn share(&mut self, lent: Vec<Open>) {
        self.lent = Some(lent);
    }

    /// All sockets that there are but for those of the configuration.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Open> + Clone {
        self.open.iter().chain(self.lent.iter().flatten())
    }

    /// Those of the proxy's own beside other programs.
    pub(crate) fn joined(&self) -> impl Iterator<Item = &TcpListener> {
        let is_joined = move |open: &&Open| {
            open.listen().is_some_and(|listen| listens::sharing(&self.form, listen) == Sharing::Joined)
        };
        self.open.iter().filter(is_joined).filter_map(|open| match &open.socket {
            Socket::Tcp(socket) => Some(socket),
            Socket::Udp(_) => None,
        })
    }

    /// Whether anything of the list isn't open.
    pub(crate) fn misses(&self, configured: &[Listen]) -> bool {
        !listens::missing(&self.form, &[configured, &self.listens()].concat()).is_empty()
    }

    /// On which it is listened because of it.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        self.open.iter().filter_map(Open::listen).collect()
    }

    /// Goes on by the list that was in force, wherever that was kept.
    pub(crate) fn follow(&mut self, form: ListenForm) {
        if form == self.form {
            return;
        }
        if let Err(error) = keep(&self.file, &form) {
            tracing::error!(%error, "the list of addresses can't be kept on disk");
        }
        self.form = form;
    }

    /// Takes those out of other sockets that are of the list, and not of the configuration: at most so many.
    pub(crate) fn adopt(&mut self, there: &mut Vec<Open>, configured: &[Listen], most: usize) {
        for form in listens::missing(&self.form, configured) {
            if self.open.len() == most {
                return;
            }
            let wanted = Listen::from(form);
            let is_it = |open: &Open| {
                open.asked == wanted.address.to_string() && open.kind.is_udp() == wanted.kind.is_udp()
            };
            if let Some(at) = there.iter().position(is_it) {
                let open = there.remove(at);
                self.open.push(Open { kind: wanted.kind, ..open });
            }
        }
    }

    /// Opens what is in the list and not open. Gives whether anything was opened, and what can't be.
    pub(crate) fn open_missing(&mut self, configured: &[Listen]) -> (bool, Vec<ListenFault>) {
        let there = [configured, &self.listens()].concat();
        let (mut opened, mut faults) = (false, Vec::new());
        for form in listens::missing(&self.form, &there) {
            // The configuration may have more addresses than it had when the list was put in force.
            if configured.len() + self.held().count() >= MAX_ADDRESSES {
                faults.push(ListenFault::invalid(format!(
                    "can't listen on {}: a proxy listens on at most {MAX_ADDRESSES} addresses, and its configuration has {}",
                    Listen::from(form),
                    configured.len()
                )));
                continue;
            }
            let listen = Listen::from(form);
            match self.open_at(listen, listens::sharing(&self.form, listen)) {
                Ok(open) => {
                    self.open.push(open);
                    opened = true;
                }
                Err(fault) => faults.push(fault),
            }
        }
        (opened, faults)
    }

    /// Opens what a list has and what isn't open. The same list again opens what couldn't be opened after a restart; of another one, that
    /// keeps nothing else from being opened. Nothing else changes until the list is kept ([`Change::kept`]) and put in force
    /// ([`Listed::put_in_force`]).
    pub(crate) fn prepare(&self, wanted: ListenForm, configured: &[Listen]) -> Result<Change, ListenFault> {
        let wanted = listens::in_order(wanted);
        let lent = self.lent.as_ref().map_or(0, Vec::len);
        listens::check(&self.form, (configured, lent), &wanted)?;
        let of_list = listens::missing(&wanted, configured);
        let of_list: Vec<Listen> = of_list.into_iter().map(Listen::from).collect();
        self.check_open(&wanted)?;
        let Difference { open, close } = differ(&self.listens(), &of_list);
        let number = |form: &ListenForm| (form.epoch, form.generation);
        let (is_same, listed) = (number(&wanted) == number(&self.form), listens::addresses(&self.form));
        let mut opened = Vec::new();
        for listen in open {
            match self.opened(listen, listens::sharing(&wanted, listen)) {
                Ok(open) => opened.push(open),
                Err(_) if !is_same && listed.contains(&listen) => {}
                Err(fault) => return Err(fault),
            }
        }
        let file = (wanted != self.form).then(|| self.file.clone());
        Ok(Change { file, form: wanted, opened, close })
    }

    /// Puts a list in force that is kept, and gives the sockets that are no more.
    pub(crate) fn put_in_force(&mut self, Change { form, opened, close, .. }: Change) -> Vec<Open> {
        self.form = form;
        let is_closed = |open: &mut Open| open.listen().is_none_or(|listen| close.contains(&listen));
        let closed = self.open.extract_if(.., is_closed).collect();
        self.open.extend(opened);
        closed
    }

    /// Refuses to go over from one kind of socket to another at an address: either of them is open there.
    fn check_open(&self, wanted: &ListenForm) -> Result<(), ListenFault> {
        for listen in listens::addresses(wanted) {
            let is_open = self.listens().iter().any(|open| open.is_at(&listen));
            if is_open && listens::sharing(&self.form, listen) != listens::sharing(wanted, listen) {
                return Err(ListenFault::invalid(format!(
                    "{listen} is open by another socket, be it shared or not: leave it out of a list first"
                )));
            }
        }
        Ok(())
    }

    /// A socket for an address: the one that is open there for something else, or a new one.
    fn opened(&self, listen: Listen, sharing: Sharing) -> Result<Open, ListenFault> {
        let there = self.open.iter().find(|open| open.listen().is_some_and(|other| other.is_at(&listen)));
        match there {
            Some(open) => {
                let copy = open.copy().map_err(|error| ListenFault::of_system(listen, &error))?;
                Ok(Open { kind: listen.kind, ..copy })
            }
            None => self.open_at(listen, sharing),
        }
    }

    /// A socket for an address at which none is open.
    fn open_at(&self, listen: Listen, sharing: Sharing) -> Result<Open, ListenFault> {
        let lent = match (sharing, &self.lent) {
            (Sharing::Alone, _) => {
                let bound = Socket::bind(listen).and_then(|socket| socket.deepen().map(|()| socket));
                return checked(listen, bound);
            }
            (Sharing::Lent | Sharing::Joined, None) => {
                return Err(ListenFault::conflict(format!(
                    "{listen} is another program's as well, and whoever holds this proxy's sockets may take none of these: set \
                     takeover.sockets in its configuration, and start it anew"
                )));
            }
            (Sharing::Joined, Some(_)) => return checked(listen, Socket::join(listen)),
            (Sharing::Lent, Some(lent)) => lent,
        };
        let found = lent.iter().find(|open| open.listen().is_some_and(|of| of.address == listen.address));
        let Some(open) = found else {
            return Err(ListenFault::conflict(format!(
                "no socket that listens on {} was lent to this proxy: name its unit in Sockets= of the proxy's, and start that anew",
                listen.address
            )));
        };
        let fault = |error: io::Error| ListenFault::of_system(listen, &error);
        if let Socket::Tcp(socket) = &open.socket
            && shared::socket::waits(socket).map_err(fault)?
        {
            return Err(ListenFault::conflict(format!(
                "whoever accepts on {} waits for a connection, and would be told that none waits: set NonBlocking=yes in the units of \
                 all who have that socket, this proxy's among them, and start them anew",
                listen.address
            )));
        }
        Ok(Open { kind: listen.kind, ..open.copy().map_err(fault)? })
    }

    /// Gives all sockets up. The list stays, for the next start.
    pub(crate) fn close(&mut self) {
        self.open.clear();
        self.lent = None;
    }
}

impl Change {
    /// The same, once the list is on disk. What it opened is closed again where that can't be.
    pub(crate) async fn kept(self) -> Result<Self, ListenFault> {
        let Some(file) = self.file.clone() else { return Ok(self) };
        let form = self.form.clone();
        let kept = tokio::task::spawn_blocking(move || keep(&file, &form)).await;
        kept.map_err(io::Error::other).flatten().map_err(|error| ListenFault::not_kept(&error))?;
        Ok(self)
    }
}

/// A socket that was bound to an address, unless the system calls that otherwise.
fn checked(listen: Listen, bound: io::Result<Socket>) -> Result<Open, ListenFault> {
    let socket = bound.map_err(|error| ListenFault::of_system(listen, &error))?;
    let given = socket.local_addr().map_err(|error| ListenFault::of_system(listen, &error))?;
    if given != listen.address {
        // It would be looked for in vain among those that are open.
        return Err(ListenFault::invalid(format!(
            "the system calls {listen} by another address: name {given}"
        )));
    }
    Ok(Open { kind: listen.kind, asked: listen.address.to_string(), socket })
}

fn read(bytes: &[u8]) -> Result<ListenForm, String> {
    serde_json::from_slice(bytes).map(listens::in_order).map_err(|error| error.to_string())
}

/// Writes a list. Once this returns, it survives a loss of power.
fn keep(file: &Path, form: &ListenForm) -> io::Result<()> {
    whole_file::replace(file, &serde_json::to_vec(form)?)
}
