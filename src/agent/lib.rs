//! What stands beside a node: runs versions of functions there, and leads releases of them.

pub mod control;
pub mod proxy_process;
mod run;
pub mod runtime;
pub mod settings;

pub use self::{
    run::{RunError, run},
    settings::Settings,
};
