//! The program: everything is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // TLS asks the process which cryptography it uses; a second answer (there is none) would be ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    choirmaster::cli::main().await
}
