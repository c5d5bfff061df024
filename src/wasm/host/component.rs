//! A component: compiled, and looked at before anybody calls it.

use std::{fs, path::Path};

use wasmtime::{
    Config, Engine,
    component::{Component, Linker},
};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use super::{
    call::State,
    fault::{Fault, Text},
};

/// Bytes of stack that an instance has for its own functions, and all that it has with those of the host.
const STACK: usize = 512 * 1024;
const WHOLE_STACK: usize = 1024 * 1024;
/// What a core module begins with: the magic of both, and a version of its own.
const CORE_MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";

/// What compiles and runs components here.
pub(super) fn engine() -> Result<Engine, Fault> {
    let mut config = Config::new();
    config.epoch_interruption(true).max_wasm_stack(STACK).async_stack_size(WHOLE_STACK);
    Engine::new(&config).map_err(|error| Fault::Instance(Text::of(&error)))
}

/// Compiles a component, and links it with what it is given. Blocks meanwhile.
pub(super) fn load(engine: &Engine, file: &Path) -> Result<ProxyPre<State>, Fault> {
    let bytes = fs::read(file).map_err(Fault::io(format!("reading {}", file.display())))?;
    if bytes.starts_with(&CORE_MODULE) {
        return Err(Fault::CoreModule(file.to_owned()));
    }
    let component = Component::new(engine, &bytes).map_err(|error| Fault::Invalid(Text::of(&error)))?;
    let linker = linker(engine).map_err(|error| Fault::Instance(Text::of(&error)))?;
    let linked = linker.instantiate_pre(&component).map_err(|error| Fault::Imports(Text::of(&error)))?;
    ProxyPre::new(linked).map_err(|error| Fault::Exports(Text::of(&error)))
}

/// All that WASI 0.2 has, of which what leads out of the host answers that there is nothing.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    Ok(linker)
}
