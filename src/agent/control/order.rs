use tokio::sync::oneshot;

use super::form::{Added, NewFunction, Removed, Status, Undo, Undone, Which};

/// Where an answer goes. Whoever asked may have left, and then it goes nowhere.
pub type Answering<A> = oneshot::Sender<Result<A, Refused>>;

/// What is asked of whoever drives the agent. Each has to be answered; one that is dropped unanswered reads as an agent that ends.
#[derive(Debug)]
pub enum Order {
    Status(oneshot::Sender<Status>),
    Undo {
        undo: Undo,
        answer: Answering<Undone>,
    },
    /// The name is one that the proxy can route.
    Add {
        name: String,
        function: NewFunction,
        answer: Answering<Added>,
    },
    /// `waits`: until no version of it runs any more; else until it gets no calls.
    Remove {
        name: String,
        waits: bool,
        answer: Answering<Removed>,
    },
    /// A service is led no more.
    Retire {
        name: String,
        answer: Answering<Removed>,
    },
    /// The log of a version, of which at most so many bytes are wanted, the newest. Without `which` it is the new one where there is
    /// one.
    Log {
        name: String,
        which: Option<Which>,
        at_most: usize,
        answer: Answering<Vec<u8>>,
    },
    /// What versions wrote that failed in a release and have ended.
    FailedLogs {
        release: String,
        answer: Answering<Vec<u8>>,
    },
}

/// Why an order isn't carried out. The texts are for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No function of this name is served; these are.
    #[error("no function {name:?} is served here")]
    Unknown { name: String, known: Vec<String> },
    /// It stands against what is in hand, as this sentence tells.
    #[error("{0}")]
    Busy(String),
    /// It can't be carried out whoever asks: this sentence tells what is wrong with it.
    #[error("{0}")]
    Wrong(String),
    /// Something failed that may go well another time.
    #[error("{0}")]
    Failed(String),
}

/// Edits after which a name is another one.
const MAX_EDITS: usize = 3;
/// Names that are listed where none is alike.
const LISTED: usize = 8;

impl Refused {
    /// What is answered, with what to do.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Unknown { name, known } => format!("{self}; {}", hint(name, known)),
            Self::Busy(_) | Self::Wrong(_) | Self::Failed(_) => self.to_string(),
        }
    }
}

/// The name that is most like it, or what there is.
fn hint(name: &str, known: &[String]) -> String {
    let alike = known.iter().map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    match alike {
        Some((edits, known)) if edits <= MAX_EDITS && edits <= known.len() / 2 => {
            format!("did you mean {known}?")
        }
        Some(_) => {
            let more = if known.len() > LISTED { ", …" } else { "" };
            format!("there are {}{more}", known[..known.len().min(LISTED)].join(", "))
        }
        None => "there is none yet: choirmaster agent functions add NAME FOLDER".to_owned(),
    }
}
