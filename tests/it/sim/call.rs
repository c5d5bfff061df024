//! What travels between agents, managers and operators.

use choirmaster::{
    link::CallId,
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

#[derive(Debug, Clone)]
pub enum Request {
    Heart(Box<Command>),
    /// A poll or a question whose answer may wait for so many milliseconds.
    Patient(Box<Command>, u64),
    /// The archive needs a manager that is up, and nothing of its heart.
    Functions,
}

#[derive(Debug, Clone)]
pub enum Response {
    Heart(Box<Result<Reply, Refusal>>),
    Functions,
    /// The call, its answer or the manager was lost: the caller sees a broken connection.
    Lost,
}
