//! The course of a release as a whole: submitted, started, paused, resumed, taken back, tried again, ended, removed.

mod apply;
mod bases;
mod change;
mod command;
mod decide;
mod membership;
mod participants;
mod ports;
mod roll_back;
mod routers_first;
mod submission;
mod submit;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::{
    check_retried, check_retry, decide, goes_on_as_another, is_abortable, pause, resumed, retry,
};
pub use membership::Membership;
pub use participants::membership;
pub(super) use participants::{is_in_place, lacks_of};
pub use ports::{shared_ports, taken_over, without_port};
pub(super) use roll_back::roll_back;
pub(super) use routers_first::routers_back;
pub use submission::{Adoption, Submission};
