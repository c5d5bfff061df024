//! Which program of a kind of router a test runs.

use std::{fmt::Debug, path::PathBuf, process::Command, sync::OnceLock};

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
        static LINE: OnceLock<String> = OnceLock::new();
        LINE.get_or_init(|| {
            let said = Command::new(Self::of("nginx")).arg("-V").output().expect("nginx is installed").stderr;
            let said = String::from_utf8(said).unwrap();
            let mut words = said.split_ascii_whitespace();
            if !words.clone().any(|word| word == "--with-stream=dynamic") {
                return String::new();
            }
            let folder = words.find_map(|word| word.strip_prefix("--modules-path=")).unwrap_or("modules");
            format!("load_module {folder}/ngx_stream_module.so;\n")
        })
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
