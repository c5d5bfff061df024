//! What travels between agents, managers and operators.

use std::collections::BTreeMap;

use domain::{
    parent::CallId,
    release::command::{Command, Refusal, Reply},
};

/// Who makes a call and waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A process that is gone gets no answer.
    Agent {
        index: usize,
        process: u32,
    },
    /// An own agent.
    Whole {
        index: usize,
        process: u32,
    },
    /// A manager that calls its parent.
    Link {
        manager: usize,
        life: u32,
        call: CallId,
    },
    /// The link of a manager, which tells its own engine something.
    Own {
        manager: usize,
        call: CallId,
    },
    Operator,
    /// Nobody listens to the answer of a duplicate.
    Nobody,
}

/// How long a call may wait, and for what besides an offer or a signal.
#[derive(Debug, Clone)]
pub struct Patience {
    pub wait_ms: u64,
    /// Offers that are held by whoever calls; it is told at once that this is not as it should be.
    pub held: Vec<String>,
    /// Stages of which whoever calls knows that they are passed over; it is told of others at once.
    pub skipped: Vec<String>,
    /// The shares of stages that whoever calls was told; it is told of others at once.
    pub shares: BTreeMap<String, u16>,
}

#[derive(Debug, Clone)]
pub enum Request {
    Heart(Box<Command>),
    /// A poll or a question whose answer may wait.
    Patient(Box<Command>, Patience),
    /// The archive needs a manager that is up, and nothing of its domain.
    Functions,
}

/// What goes with an answer to a manager.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Who answers and those above it, nearest first.
    pub above: Vec<String>,
    /// Offers whose release is paused there.
    pub hold: Vec<String>,
}

#[derive(Debug, Clone)]
pub enum Response {
    Heart(Box<Result<Reply, Refusal>>),
    Functions,
    /// Nonsense, or a refusal with this status, from whoever stands between a manager and its parent.
    Garbled(Option<u16>),
    /// The call, its answer or the manager was lost: the caller sees a broken connection.
    Lost,
}
