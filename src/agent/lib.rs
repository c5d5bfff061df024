//! What stands beside a node: runs versions of functions there, and leads releases of them.

pub mod content;
pub mod control;
pub mod core;
mod drive;
pub mod front;
pub mod judge;
pub mod link;
mod lock;
pub mod measure;
mod process_end;
pub mod proxy_process;
pub mod runtime;
pub mod settings;

pub use self::{
    drive::{RunError, Within, run, run_within},
    settings::Settings,
};
