//! What the processes of one proxy say to each other, and how a listening socket goes from one to another.
//!
//! There are a *supervisor*, which keeps the listening sockets and starts what serves, and *serving* processes: one that takes
//! connections, and perhaps some that handed over and finish what they have. Each word is a length in four bytes, the most
//! significant first, and JSON; descriptors go along with the word that names them (`SCM_RIGHTS`). The first word of either side
//! says which forms of this it knows, so that neighbouring builds understand each other; a word that one of them doesn't know is
//! [`Word::Unknown`] to it.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf as _, BytesMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};
use tokio::{io::Interest, net::UnixStream, time::timeout};

use crate::{
    control::form::{AddressStatus, LeavingStatus, TableNumber},
    flow::FlowForm,
    form::{ListenForm, TableForm},
    listens::ListenFault,
    sockets::{MAX_SOCKETS, SocketName},
};
use call_metrics::{Cursor, HandoverSnapshot, Tail};

/// The most bytes of a word.
const MAX_WORD: usize = 256 * 1024 * 1024;

/// The most descriptors of a word: all sockets, and a lock.
pub(crate) const MAX_DESCRIPTORS: usize = MAX_SOCKETS + 1;

/// How much is read at once.
const ROOM: usize = 64 * 1024;

/// How long a process of the same proxy may take to take a word, or to answer one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The forms of these words that a program knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forms {
    newest: u32,
    oldest: u32,
}

impl Forms {
    pub(crate) const OURS: Self = Self { newest: 2, oldest: 1 };

    /// Those of a process that doesn't say any.
    pub(crate) const FIRST: Self = Self { newest: 1, oldest: 1 };

    /// Whether they have the words about lists of addresses.
    pub(crate) fn have_lists(self) -> bool {
        self.newest >= 2
    }

    /// The newest form that both know.
    pub(crate) fn agree(self, theirs: Self) -> Result<u32, HandoverError> {
        let form = self.newest.min(theirs.newest);
        if form >= self.oldest.max(theirs.oldest) {
            return Ok(form);
        }
        Err(HandoverError::Forms { ours: self.to_string(), theirs: theirs.to_string() })
    }
}

impl std::fmt::Display for Forms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    #[error(
        "the other process of this proxy knows the forms {theirs} of the hand-over, and this program knows {ours}: \
         upgrade by a build in between, or stop the proxy and start it anew"
    )]
    Forms { ours: String, theirs: String },
    #[error("another process of this proxy said {0}")]
    Unexpected(String),
    #[error("another process of this proxy refused: {0}")]
    Refused(String),
    #[error("another process of this proxy ended in between")]
    Ended,
    #[error("another process of this proxy doesn't answer")]
    Late,
    #[error(
        "the supervisor of this proxy is of an earlier version, and can't open addresses: start `choirmaster proxy` again, which takes \
         the sockets over"
    )]
    NoLists,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl HandoverError {
    /// Whether it says that the other process has ended.
    pub(crate) fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
        match self {
            Self::Ended => true,
            Self::Io(error) => matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected),
            Self::Forms { .. } | Self::Unexpected(_) | Self::Refused(_) | Self::Late | Self::NoLists => false,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum Word {
    /// Supervisor to a process that it started: serve on these.
    Serve {
        forms: Forms,
        sockets: Vec<SocketName>,
        /// The path of the control socket.
        #[serde(default)]
        control: Option<PathBuf>,
        /// The list of addresses in force.
        #[serde(default)]
        listen: ListenForm,
    },
    /// Supervisor to itself, as the program that is on disk now: go on with these, of which the last is the lock.
    Hold {
        forms: Forms,
        sockets: Vec<SocketName>,
        control: PathBuf,
        /// The pids of the processes that it started.
        children: Vec<u32>,
        /// Start another process: that was asked for meanwhile.
        start: bool,
        /// The list of addresses in force; none from a program that knows of none.
        #[serde(default)]
        listen: Option<ListenForm>,
    },
    /// Supervisor to a process: this link ends, and another supervisor is there at once. Answered with `Done`, behind which nothing more
    /// is said.
    Renewing,
    /// Supervisor to a process: it came to nothing, and this link goes on.
    Stays,
    /// To the supervisor: calls are taken, by the table that holds.
    Ready {
        pid: u32,
        #[serde(default)]
        forms: Option<Forms>,
    },
    /// To the supervisor: this process can't serve, and ends.
    CantServe {
        why: String,
    },
    /// To the supervisor: this process takes no further connection, since a signal ends it or another one took over. If none is coming,
    /// one is to be started.
    Leaving,
    /// To the supervisor: somebody asked for an upgrade, or for the end of it all.
    UpgradeWanted,
    StopWanted,
    /// Supervisor to a process: the upgrade did not come about.
    UpgradeFailed {
        why: String,
    },
    /// To the supervisor: listen on the addresses of this list beside those of the configuration, and on no others.
    Listen {
        listen: ListenForm,
    },
    /// Supervisor to a process: of all sockets that there are, take what comes in at those of this list, and at no others of the list
    /// before.
    Listening {
        listen: ListenForm,
        sockets: Vec<SocketName>,
    },
    /// The other answer to a list: all is as it was.
    NotListening {
        listen: ListenForm,
        fault: ListenFault,
    },
    /// Supervisor to a process: finish, and end.
    Stop,
    /// Supervisor to a process: end at once.
    End,

    /// A new supervisor to a serving process: this connection is the link now, and let me have the sockets.
    Take {
        forms: Forms,
    },
    /// The answer; one that has handed over has none.
    Taken {
        forms: Forms,
        pid: u32,
        serves: bool,
        sockets: Vec<SocketName>,
    },
    /// A new serving process to another: change the table no more, for I am about to take over.
    Freeze {
        forms: Forms,
    },
    Frozen {
        forms: Forms,
        table: TableForm,
    },
    /// The other answer: this process has handed over already, and finishes.
    Finishing {
        forms: Forms,
    },
    /// The process that took over takes connections: finish, and end. `counts`: it is about to ask for what was counted.
    Finish {
        #[serde(default)]
        counts: bool,
    },
    /// To a process that finishes, once: let me have all that you counted until now. Another one is asked in vain.
    TakeLedger,
    Ledger {
        #[serde(rename = "estate")]
        snapshot: Box<HandoverSnapshot>,
    },
    /// To a process that finishes: let me have your flows of UDP, which end there. Answered with as many words as are needed.
    TakeFlows,
    /// Some of them; their sockets go along in the same order.
    Flows {
        flows: Vec<FlowForm>,
        more: bool,
    },
    /// To a process that finishes: what did you count after this cursor? Answered when there is something, or after a while.
    CountsSince {
        cursor: Option<Cursor>,
    },
    Counted {
        #[serde(rename = "remainder")]
        tail: Box<Tail>,
    },
    /// To a process whose tail is taken whole. It has no answer.
    AllCounted,
    /// To a process that finishes: the table that holds.
    Table {
        table: TableForm,
    },
    /// To a process that finishes: what do you still have?
    Ask,
    Holds {
        table: TableNumber,
        connections: usize,
        leaving: Vec<LeavingStatus>,
        #[serde(default)]
        addresses: Vec<AddressStatus>,
    },
    Done,
    Refused {
        why: String,
    },
    #[serde(other)]
    Unknown,
}

impl Word {
    fn sockets(&self) -> usize {
        match self {
            Self::Serve { sockets, .. } | Self::Taken { sockets, .. } | Self::Listening { sockets, .. } => {
                sockets.len()
            }
            Self::Hold { sockets, .. } => sockets.len() + 1,
            Self::Flows { flows, .. } => flows.len(),
            _ => 0,
        }
    }

    pub(crate) fn unexpected(self) -> HandoverError {
        match self {
            Self::Refused { why } => HandoverError::Refused(why),
            word => HandoverError::Unexpected(format!("{word:?}").chars().take(200).collect()),
        }
    }
}

/// The end of a connection between two processes at which words come in.
#[derive(Debug)]
pub(crate) struct Listening {
    stream: Arc<UnixStream>,
    came: BytesMut,
    descriptors: VecDeque<OwnedFd>,
}

/// The end at which words go out.
#[derive(Debug)]
pub(crate) struct Speaking {
    stream: Arc<UnixStream>,
}

/// Says a word and gives the answer; none if the other process has ended.
pub(crate) async fn ask(
    (listening, speaking): (&mut Listening, &Speaking),
    word: &Word,
) -> Result<Option<(Word, Vec<OwnedFd>)>, HandoverError> {
    let answer = match speaking.say(word, &[]).await {
        Ok(()) => listening.answer().await,
        Err(error) => Err(error.into()),
    };
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_end() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn ends(stream: UnixStream) -> (Listening, Speaking) {
    let stream = Arc::new(stream);
    let listening =
        Listening { stream: Arc::clone(&stream), came: BytesMut::new(), descriptors: VecDeque::new() };
    (listening, Speaking { stream })
}

impl Speaking {
    /// Says a word, with the descriptors that it names.
    pub(crate) async fn say(&self, word: &Word, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let json = serde_json::to_vec(word)?;
        let mut frame = (json.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&json);
        let said = async {
            let mut written = self.write(&frame, descriptors).await?;
            while written < frame.len() {
                written += self.write(&frame[written..], &[]).await?;
            }
            Ok(())
        };
        timeout(PATIENCE, said).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn write(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let sending = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(io::Error::other(format!("more than {MAX_DESCRIPTORS} descriptors")));
            }
            let flags = SendFlags::NOSIGNAL;
            Ok(rustix::net::sendmsg(&*self.stream, &[IoSlice::new(bytes)], &mut control, flags)?)
        };
        self.stream.async_io(Interest::WRITABLE, sending).await
    }
}

impl Listening {
    /// The next word and its descriptors; none once the other end is closed.
    pub(crate) async fn next(&mut self) -> Result<Option<(Word, Vec<OwnedFd>)>, HandoverError> {
        loop {
            if let Some(word) = self.whole()? {
                let count = word.sockets();
                if count > self.descriptors.len() {
                    // The system leaves those out for which this process has no room. It may go on with the sockets that it has.
                    if matches!(word, Word::Listening { .. }) {
                        self.descriptors.clear();
                        return Ok(Some((word, Vec::new())));
                    }
                    return Err(HandoverError::Unexpected("of more sockets than it sent".to_owned()));
                }
                return Ok(Some((word, self.descriptors.drain(..count).collect())));
            }
            if self.read().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The answer to what was said before.
    pub(crate) async fn answer(&mut self) -> Result<(Word, Vec<OwnedFd>), HandoverError> {
        timeout(PATIENCE, self.next()).await.map_err(|_| HandoverError::Late)??.ok_or(HandoverError::Ended)
    }

    fn whole(&mut self) -> Result<Option<Word>, HandoverError> {
        let Some(length) = self.came.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_WORD {
            return Err(HandoverError::Unexpected(format!("a word of {length} bytes")));
        }
        if self.came.len() < 4 + length {
            return Ok(None);
        }
        self.came.advance(4);
        let json = self.came.split_to(length);
        serde_json::from_slice(&json).map(Some).map_err(|error| HandoverError::Unexpected(error.to_string()))
    }

    async fn read(&mut self) -> io::Result<usize> {
        let mut room = vec![0; ROOM];
        let receiving = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let got =
                rustix::net::recvmsg(&*self.stream, &mut [IoSliceMut::new(&mut room)], &mut control, flags)?;
            let mut descriptors = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            Ok((got.bytes, descriptors))
        };
        let (bytes, descriptors) = self.stream.async_io(Interest::READABLE, receiving).await?;
        self.came.extend_from_slice(&room[..bytes]);
        self.descriptors.extend(descriptors);
        Ok(bytes)
    }
}
