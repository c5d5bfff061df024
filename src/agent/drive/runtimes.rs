//! What runs versions here, by the settings.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::effects::read_secret;
use crate::{
    runtime::{
        Fault, Runtime, RuntimeError, form, oci,
        process::{self, EndedRun, ProcessRuntime, cgroup::Cgroups},
        tinyfaas::TinyFaas,
        wasm,
        webhook::{self, Secret, Webhook},
    },
    settings::{FrontSettings, OciSettings, Settings, WebhookSettings},
};

/// Folders below the agent's in which versions run as processes of this machine.
const FOLDERS: [&str; 3] = ["run", "oci", "wasm"];

/// Runtimes that run versions elsewhere.
const ELSEWHERE: [&str; 2] = ["tinyfaas", "webhook"];

/// Opens the runtimes that are enabled, in their order. What one keeps lies in a folder of its own below the agent's.
pub fn open(settings: &Settings) -> Result<Vec<Arc<dyn Runtime>>, RuntimeError> {
    match settings.front {
        // A router of somebody else's leads services alone.
        FrontSettings::Router(_) => Ok(Vec::new()),
        FrontSettings::Proxy(_) => settings.runtimes.enabled.iter().map(|name| one(name, settings)).collect(),
    }
}

/// What became of a version that was to end: its name, and why it didn't.
#[derive(Debug)]
pub struct EndedVersion {
    pub name: String,
    pub failed: Option<String>,
}

/// Ends all versions of an agent that has ended: what runs here, whatever is enabled by now, and what runtimes that are enabled run
/// elsewhere. Gives what ended, and why something could not be asked to.
pub async fn end_all(settings: &Settings) -> (Vec<EndedVersion>, Vec<String>) {
    let (mut versions, mut failed) = (Vec::new(), Vec::new());
    for folder in
        FOLDERS.map(|folder| settings.state.join(folder)).into_iter().filter(|folder| folder.is_dir())
    {
        match end_here(folder, settings.versions.grace).await {
            Ok(ended) => versions.extend(ended),
            Err(error) => failed.push(error.to_string()),
        }
    }
    for name in settings.runtimes.enabled.iter().filter(|name| ELSEWHERE.contains(&name.as_str())) {
        match end_elsewhere(name, settings).await {
            Ok(ended) => versions.extend(ended),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    (versions, failed)
}

async fn end_here(folder: PathBuf, grace: Duration) -> Result<Vec<EndedVersion>, RuntimeError> {
    // What is to end has its control groups; none are made.
    let of_folder = process::Settings::new(folder).map_err(Fault::io("finding this program"))?;
    let runtime = ProcessRuntime::open(process::Settings { cgroups: Cgroups::Off, ..of_folder })?;
    let ended = runtime.end_all(grace).await?.into_iter();
    let version = |one: EndedRun| EndedVersion {
        name: one.digits,
        failed: one.ended.err().map(|fault| fault.to_string()),
    };
    Ok(ended.map(version).collect())
}

async fn end_elsewhere(name: &str, settings: &Settings) -> Result<Vec<EndedVersion>, RuntimeError> {
    let runtime = one(name, settings)?;
    let mut ended = Vec::new();
    for running in runtime.list().await? {
        let stopped = runtime.stop(&running.version, settings.versions.grace).await;
        ended.push(EndedVersion {
            name: running.version.to_string(),
            failed: stopped.err().map(|error| error.to_string()),
        });
    }
    Ok(ended)
}

fn one(name: &str, settings: &Settings) -> Result<Arc<dyn Runtime>, RuntimeError> {
    let runtimes = &settings.runtimes;
    Ok(match name {
        "process" => Arc::new(ProcessRuntime::open(processes(settings, "run", runtimes.ports)?)?),
        "oci" => Arc::new(oci::open(containers(settings)?)?),
        "tinyfaas" => Arc::new(TinyFaas::open(runtimes.tinyfaas.clone())?),
        "wasm" => {
            let process = processes(settings, "wasm", runtimes.ports)?;
            Arc::new(wasm::open(wasm::Settings::new(process, runtimes.wasm.clone()))?)
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
    let OciSettings { program: _, podman_runtime: _, rootfs, image, binds, ports } = &settings.runtimes.oci;
    binds.iter().try_for_each(|bind| is_folder("oci.binds", bind))?;
    let root = match (rootfs, image.as_str()) {
        (Some(rootfs), _) => {
            is_folder("oci.rootfs", rootfs)?;
            Some(oci::Root::Folder(rootfs.clone()))
        }
        (None, "") => None,
        (None, image) => Some(oci::Root::Image(image.to_owned())),
    };
    let base = root.map(|root| oci::Base { root, binds: binds.clone() });
    let program = container_program(&settings.runtimes.oci)?;
    if base.is_none() && matches!(program, oci::Program::Runc(_)) {
        return Err(missing("oci.rootfs"));
    }
    Ok(oci::Settings { process: processes(settings, "oci", *ports)?, program, base })
}

/// What starts containers: what is named, or else what is here and can run what they are made of.
fn container_program(set: &OciSettings) -> Result<oci::Program, Fault> {
    let fault = |why: &str| Fault::Setting { name: "oci.program", why: why.to_owned() };
    let found = match set.program.as_str() {
        "" if set.rootfs.is_none() => ("podman", process::on_path("podman")),
        "" => match process::on_path("runc") {
            Some(runc) => ("runc", Some(runc)),
            None => ("podman", process::on_path("podman")),
        },
        "runc" => ("runc", process::on_path("runc")),
        "podman" => ("podman", process::on_path("podman")),
        path => {
            // Whoever starts it has neither this process's path nor its folder.
            let file = Path::new(path).canonicalize();
            let file = file.map_err(|error| not_usable("oci.program", path.as_ref(), &error.to_string()))?;
            if !file.is_file() {
                return Err(not_usable("oci.program", &file, "it is no program"));
            }
            (if is_podman(path) { "podman" } else { "runc" }, Some(file))
        }
    };
    match found {
        ("podman", Some(file)) => {
            let runtime = Some(set.podman_runtime.clone()).filter(|runtime| !runtime.is_empty());
            Ok(oci::Program::Podman(file, runtime))
        }
        (_, Some(file)) => Ok(oci::Program::Runc(file)),
        ("podman", None) if set.rootfs.is_some() && set.program.is_empty() => {
            Err(fault("there is neither `runc` nor `podman` on the path: install one, or name it"))
        }
        (name, None) => {
            Err(fault(&format!("there is no program `{name}` on the path: install it, or name its file")))
        }
    }
}

fn is_podman(path: &str) -> bool {
    Path::new(path).file_name().is_some_and(|name| name.to_string_lossy().starts_with("podman"))
}

fn called(settings: &Settings) -> Result<webhook::Settings, Fault> {
    let WebhookSettings { url, secret_file, agent, sends_content, runners, time_limit } =
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
        time_limit,
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
