//! What travels between an agent, a manager and an operator.

use choirmaster::release::command::{Command, Refusal, Reply};

/// Who makes a call and waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A process that is gone gets no answer.
    Agent {
        index: usize,
        process: u32,
    },
    Operator,
    /// Nobody listens to the answer of a duplicate.
    Nobody,
}

#[derive(Debug, Clone)]
pub enum Request {
    Heart(Box<Command>),
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
