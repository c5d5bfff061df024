//! The shim by itself, as the program has it behind `choirmaster agent shim`, and the host of components that it starts, as behind
//! `choirmaster agent wasm-host`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [role, rest @ ..] if role == "wasm-host" => agent::runtime::wasm::main(rest),
        _ => agent::runtime::process::shim::main(&arguments),
    }
}
