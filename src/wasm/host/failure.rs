use std::{fmt, time::Duration};

use hyper::StatusCode;
use wasmtime::Error;
use wasmtime_wasi::I32Exit;

use super::{super::form::Bounds, fault::Text};

/// Why an instance did not do what it was made for.
#[derive(Debug)]
pub(super) enum Failure {
    /// It took longer than a call may.
    Time(Duration),
    /// It computed for longer than a call may.
    Compute(Duration),
    /// It needed more memory than a call has, or than was left.
    Memory(u64),
    /// It ended by itself, with this status.
    Exit(i32),
    Trap(Text),
    /// It ended without an answer.
    NoAnswer,
}

/// What ends an instance that computes for too long.
#[derive(Debug, thiserror::Error)]
#[error("it computed for too long")]
pub(super) struct Computed;

impl Failure {
    /// Of an instance that ended with an error. `was_refused`: it had asked for memory that it didn't get.
    pub(super) fn of(error: &Error, was_refused: bool, bounds: &Bounds) -> Self {
        if let Some(I32Exit(code)) = error.downcast_ref() {
            Self::Exit(*code)
        } else if error.is::<Computed>() {
            Self::Compute(bounds.compute)
        } else if was_refused {
            Self::Memory(bounds.memory)
        } else {
            Self::Trap(Text::of(error))
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Time(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Compute(_) | Self::Memory(_) | Self::Exit(_) | Self::Trap(_) | Self::NoAnswer => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// What a caller is told. The version's log tells more.
    pub(super) fn public(&self) -> String {
        match self {
            Self::Time(_) | Self::Compute(_) | Self::Memory(_) | Self::Exit(_) | Self::NoAnswer => {
                self.to_string()
            }
            Self::Trap(_) => "the function failed: its log says where".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(limit) => {
                write!(f, "the function took longer than the {} s that a call has", limit.as_secs_f64())
            }
            Self::Compute(limit) => {
                write!(
                    f,
                    "the function computed for longer than the {} s that a call has",
                    limit.as_secs_f64()
                )
            }
            Self::Memory(limit) => {
                write!(
                    f,
                    "the function needed more memory than the {limit} bytes that a call has, or than was left"
                )
            }
            Self::Exit(code) => write!(f, "the function ended with status {code} and without an answer"),
            Self::Trap(text) => write!(f, "the function failed: {text}"),
            Self::NoAnswer => f.write_str("the function gave no answer"),
        }
    }
}
