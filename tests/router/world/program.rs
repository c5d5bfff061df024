//! Which program of a kind of router a test runs.

use std::{fmt::Debug, path::PathBuf};

#[path = "../../shared/stream_module.rs"]
mod stream_module;

pub trait Program: Debug + Send + Sync + 'static {
    /// Of nginx those that the packages of systems have, `stub_status` among them.
    const HAS_ALL_MODULES: bool;

    /// Of nginx or `HAProxy`, as its program is called.
    fn of(name: &str) -> PathBuf;

    /// The line of nginx's main configuration by which it has its stream module; empty where that is built in.
    fn stream_module() -> &'static str {
        ""
    }
}

/// As the system's package has it.
#[derive(Debug)]
pub struct Packaged;

impl Program for Packaged {
    const HAS_ALL_MODULES: bool = true;

    fn of(name: &str) -> PathBuf {
        name.into()
    }

    fn stream_module() -> &'static str {
        stream_module::line()
    }
}

/// A later version, which `tests/run` gets.
#[derive(Debug)]
pub struct Later;

impl Program for Later {
    const HAS_ALL_MODULES: bool = false;

    fn of(name: &str) -> PathBuf {
        let variable = format!("CHOIRMASTER_TEST_{}", name.to_ascii_uppercase());
        let path = std::env::var_os(&variable);
        path.unwrap_or_else(|| panic!("{variable} is set by tests/run, which gets {name}")).into()
    }
}
