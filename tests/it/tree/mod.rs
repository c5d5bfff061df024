//! A tree of managers in one process, with simulated agents at its leaves.

mod above;
mod eligible;
mod kept;
pub mod levels;
mod offers;
mod placed;
mod plain;
mod processes;
mod questions;
mod releases;
pub mod rough;
mod service_area;
mod shown;
mod unreadable;
