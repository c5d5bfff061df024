//! The shim by itself, as the program has it behind `choirmaster agent shim`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    choirmaster_agent::runtime::process::shim::main(&arguments)
}
