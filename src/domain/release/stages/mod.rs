//! What happens to a stage for all at once: it ends, it is passed over, and when it was.

mod apply;
mod change;
mod command;
mod decide;
mod skip;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;
pub(in crate::release) use skip::skipped;
pub(super) use skip::{again as skip_again, decide as skip};
