//! What the link wants done, and what it is told came of it.

use model::ReleaseId;

/// Names a call from when it is begun until it is answered or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A row of the outbox.
pub type Row = u64;

/// A stage that goes on, of which the parent is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldStage {
    /// The one that this manager has there.
    pub id: String,
    pub release: ReleaseId,
    pub offer: String,
    /// Index in the strategy.
    pub stage: u8,
    pub name: String,
    /// Stages have failed below and keep their shares, for the how manyth time.
    pub failures: Option<u32>,
}

/// A call to the parent. Each carries the id that this manager has there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Poll(Poll),
    /// Makes an offer a release here: its text and its functions are fetched, then it is submitted.
    Take {
        id: String,
        offer: String,
        /// How often it was tried before: tells how much nonsense is to be believed.
        attempt: u32,
    },
    /// Sends the result that this row of the outbox stands for.
    Result {
        id: String,
        row: Row,
    },
    /// Tells that every child waits for the end of a stage, or that it has failed below and keeps its shares: a result `SuccessWaiting`
    /// with preliminary numbers.
    Ready(ToldStage),
    /// Tells what was measured so far of a stage that goes on: a result `InProgress`.
    Interim(ToldStage),
    /// Asks whether a stage may end.
    EndStage {
        id: String,
        offer: String,
        name: String,
        /// Stages that are passed over here: an answer that names others is news.
        skipped: Vec<String>,
        /// Failures of stages that keep their shares: what becomes of them?
        failures: Option<u32>,
        wait_ms: Option<u64>,
    },
}

/// `POST /poll`. What is below this manager is for the driver to add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Poll {
    /// `None`: it wants an id.
    pub id: Option<String>,
    /// `None`: an answer is wanted at once.
    pub wait_ms: Option<u64>,
    /// This manager and those above it, nearest first.
    pub rm_ids: Vec<String>,
    /// Offers that are held here because the parent said so.
    pub held: Vec<String>,
    /// The parent is a Choirmaster, and understands more than the plain protocol.
    pub understood: bool,
    /// What it said that it understands.
    pub features: Vec<String>,
}

/// What the parent asks; the body is JSON that the driver understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub id: String,
    pub kind: String,
    /// The answer has to be there within so many milliseconds.
    pub within_ms: u64,
    pub body: String,
}

/// The answer to a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollResponse {
    pub id: String,
    pub offer: Option<String>,
    /// The parent and those above it, nearest first; empty: a plain parent.
    pub rm_ids: Vec<String>,
    /// Offers whose release is paused there.
    pub hold: Vec<String>,
    /// What the parent understands beyond the plain protocol.
    pub features: Vec<String>,
    pub questions: Vec<Question>,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Polled(PollResponse),
    /// The offer is a release here, or nothing is left to be done of it.
    Taken,
    /// The parent has the result, or that a stage waits.
    Reported,
    EndStage {
        end: bool,
        undo: bool,
        /// Stages that are to be passed over.
        skip: Vec<String>,
        /// It is decided to go on from the failures of which it was asked.
        accepted: bool,
    },
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No answer, half of one, nonsense, or a 5xx: it may go better later.
    Passing(String),
    /// A status of 4xx.
    Refused { status: u16, text: String },
}

/// What is to be done now, in the order in which it is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Call(CallId, Call),
    /// Nobody waits for the answer to this call any more.
    GiveUp(CallId),
    /// Store who this manager is at its parent, then say so with [`super::Link::note_enrolled`].
    Enroll(String),
    /// Store that an offer is to be taken over, then say so with [`super::Link::note_taking`].
    Note {
        offer: String,
    },
    /// Rows of the outbox that are done with.
    Done(Vec<Row>),
    /// The parent ended a stage.
    End {
        release: ReleaseId,
        stage: u8,
        undo: bool,
    },
    /// The parent wants a stage to be passed over.
    Skip {
        release: ReleaseId,
        stage: String,
    },
    /// It is decided above to go on from the failures so far.
    Accept {
        release: ReleaseId,
        failures: u32,
    },
    /// The parent paused the release of an offer, or goes on with it.
    Hold {
        release: ReleaseId,
        hold: bool,
    },
    /// Answer what the parent asks; nothing depends on it here.
    Answer(Vec<Question>),
    /// The parent refuses for good what is said of a release, so it will never be ended there.
    Disown {
        release: ReleaseId,
        why: String,
    },
    /// Who is above, nearest first.
    Lineage(Vec<String>),
    Say(Notice),
}

/// What an operator should read in the log, each once per change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something that was in trouble works, or works for the first time.
    Works(Errand),
    /// An errand failed, and is tried again.
    Fails {
        errand: Errand,
        why: String,
    },
    Registered {
        id: String,
    },
    /// The parent knows this manager no longer.
    Forgotten {
        id: String,
    },
    ResultRefused {
        offer: String,
        status: u16,
        text: String,
    },
    ResultGivenUp {
        offer: String,
        status: u16,
        text: String,
    },
    /// The parent doesn't wait for a stage, or knows of no such stage.
    NotAwaited {
        offer: String,
        stage: String,
        status: u16,
        text: String,
    },
    /// This manager is above its own parent.
    Cycle,
    /// More managers lie above each other than are allowed.
    TooDeep {
        above: usize,
    },
    /// It was a cycle, or too deep, and is none any more.
    Straight,
}

/// What a manager does at its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    Poll,
    Offers,
    Results,
    Signals,
}
