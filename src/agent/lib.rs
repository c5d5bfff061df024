//! What stands beside a node: runs versions of functions there, and leads releases of them.

pub mod content;
pub mod control;
pub mod data_plane;
mod drive;
pub mod events;
pub mod judge;
pub mod link;
mod lock;
pub mod measure;
mod node;
mod process_end;
pub mod proxy_process;
pub mod runtime;
pub mod settings;
pub mod state_machine;
pub mod stop;
pub mod takeover;

pub use self::{
    drive::{RunError, Within, run, run_within},
    settings::Settings,
};
