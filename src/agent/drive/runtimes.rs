//! What runs versions here, by the settings.

use std::{path::Path, sync::Arc};

use super::tools::read_secret;
use crate::{
    runtime::{
        Fault, Runtime, RuntimeError, form,
        oci::{self, OciRuntime},
        process::{self, ProcessRuntime},
        tinyfaas::TinyFaas,
        wasm::{self, WasmRuntime},
        webhook::{self, Secret, Webhook},
    },
    settings::{Settings, WebhookSettings},
};

/// Opens the runtimes that are enabled, in their order. What one keeps lies in a folder of its own below the agent's.
pub fn open(settings: &Settings) -> Result<Vec<Arc<dyn Runtime>>, RuntimeError> {
    settings.runtimes.enabled.iter().map(|name| one(name, settings)).collect()
}

fn one(name: &str, settings: &Settings) -> Result<Arc<dyn Runtime>, RuntimeError> {
    let runtimes = &settings.runtimes;
    Ok(match name {
        "process" => Arc::new(ProcessRuntime::open(processes(settings, "run", runtimes.ports)?)?),
        "oci" => Arc::new(OciRuntime::open(containers(settings)?)?),
        "tinyfaas" => Arc::new(TinyFaas::open(runtimes.tinyfaas.clone())?),
        "wasm" => {
            let process = processes(settings, "wasm", runtimes.ports)?;
            Arc::new(WasmRuntime::open(wasm::Settings::new(process, runtimes.wasm.clone()))?)
        }
        "webhook" => Arc::new(Webhook::open(called(settings)?)?),
        other => return Err(Fault::Unknown(other.to_owned()).into()),
    })
}

fn processes(settings: &Settings, folder: &str, ports: (u16, u16)) -> Result<process::Settings, Fault> {
    let chosen =
        process::Settings::new(settings.state.join(folder)).map_err(Fault::io("finding this program"))?;
    Ok(process::Settings { ports, cgroups: settings.runtimes.cgroups.clone(), ..chosen })
}

fn containers(settings: &Settings) -> Result<oci::Settings, Fault> {
    let set = &settings.runtimes.oci;
    let rootfs = set.rootfs.clone().ok_or_else(|| missing("oci.rootfs"))?;
    is_folder("oci.rootfs", &rootfs)?;
    set.binds.iter().try_for_each(|bind| is_folder("oci.binds", bind))?;
    let base = oci::Base { rootfs, binds: set.binds.clone() };
    let process = processes(settings, "oci", set.ports)?;
    let Some(runc) = &set.runc else {
        let why = "there is no program `runc` on the path: install it, or name it".to_owned();
        return oci::Settings::find(process, base).ok_or(Fault::Setting { name: "oci.runc", why });
    };
    // Whoever starts it has neither this process's path nor its folder.
    let runc = runc.canonicalize().map_err(|error| not_usable("oci.runc", runc, &error.to_string()))?;
    if !runc.is_file() {
        return Err(not_usable("oci.runc", &runc, "it is no program"));
    }
    Ok(oci::Settings { process, runc, base })
}

fn called(settings: &Settings) -> Result<webhook::Settings, Fault> {
    let WebhookSettings { url, secret_file, agent, sends_content, runners, patience } =
        settings.runtimes.webhook.clone();
    if url.is_empty() {
        return Err(missing("webhook.url"));
    }
    let file = secret_file.ok_or_else(|| missing("webhook.secret_file"))?;
    let secret = read_secret(&file).map_err(|why| Fault::Setting { name: "webhook.secret_file", why })?;
    Ok(webhook::Settings {
        url,
        secret: Secret::new(secret.as_bytes()),
        agent: if agent.is_empty() { settings.name.clone() } else { agent },
        folder: settings.state.join("webhook"),
        sends_content,
        // As offers are read here, or none would be found by its form.
        runners: runners.iter().map(|runner| form(runner).to_owned()).collect(),
        patience,
    })
}

fn missing(name: &'static str) -> Fault {
    Fault::Setting { name, why: "it is needed for a runtime that is enabled, and not set".to_owned() }
}

fn not_usable(name: &'static str, path: &Path, why: &str) -> Fault {
    Fault::Setting { name, why: format!("{}: {why}", path.display()) }
}

fn is_folder(name: &'static str, path: &Path) -> Result<(), Fault> {
    let about = path.metadata().map_err(|error| not_usable(name, path, &error.to_string()))?;
    if about.is_dir() { Ok(()) } else { Err(not_usable(name, path, "it is no folder")) }
}
