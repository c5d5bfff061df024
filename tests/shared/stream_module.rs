//! The stream module of the nginx of the system's packages.

use std::{process::Command, sync::OnceLock};

/// The line of its main configuration by which it has that module; empty where it is built in.
pub fn line() -> &'static str {
    static LINE: OnceLock<String> = OnceLock::new();
    LINE.get_or_init(|| {
        let said = Command::new("nginx").arg("-V").output().expect("nginx is installed").stderr;
        let said = String::from_utf8(said).unwrap();
        let mut words = said.split_ascii_whitespace();
        if !words.clone().any(|word| word == "--with-stream=dynamic") {
            return String::new();
        }
        let folder = words.find_map(|word| word.strip_prefix("--modules-path=")).unwrap_or("modules");
        format!("load_module {folder}/ngx_stream_module.so;\n")
    })
}
