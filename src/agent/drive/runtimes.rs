//! What runs versions here, by the settings.

use std::sync::Arc;

use crate::{
    runtime::{Fault, Runtime, RuntimeError, process},
    settings::Settings,
};

/// Opens the runtimes that are enabled, in their order.
pub fn open(settings: &Settings) -> Result<Vec<Arc<dyn Runtime>>, RuntimeError> {
    settings.runtimes.enabled.iter().map(|name| one(name, settings)).collect()
}

fn one(name: &str, settings: &Settings) -> Result<Arc<dyn Runtime>, RuntimeError> {
    match name {
        "process" => {
            let folder = settings.state.join("run");
            let chosen = process::Settings::new(folder)
                .map_err(|source| Fault::Io { doing: "finding this program".to_owned(), source })?;
            let chosen = process::Settings { ports: settings.runtimes.ports, ..chosen };
            Ok(Arc::new(process::ProcessRuntime::open(chosen)?))
        }
        other => Err(Fault::Unknown(other.to_owned()).into()),
    }
}
