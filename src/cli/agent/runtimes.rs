//! What is set of the runtimes of an agent: their keys, and what an enabled one needs.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agent::{
    runtime::{
        self,
        process::cgroup::Cgroups,
        tinyfaas::Form,
        wasm::{self, form::Destination},
    },
    settings::{OciSettings, Runtimes, WebhookSettings},
};

use crate::cli::settings::value::{Parsed, SettingTarget, parts};

/// The most containers of a version at tinyFaaS.
const MAX_THREADS: u64 = 1_000;

/// The most calls of a version that is a component at once, and the most memory of one.
const MAX_CALLS: u64 = 100_000;
const CALL_MEMORY: (u64, u64) = (1 << 16, 1 << 32);
/// How long one may compute or take.
const CALL_TIME: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(24));

/// How long a call of somebody else's may take.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_hours(1));

/// Every key and its place, in the order of the documentation.
pub fn keys(runtimes: &mut Runtimes) -> Vec<(&'static str, SettingTarget<'_>)> {
    let Runtimes { enabled, ports, cgroups, tinyfaas, webhook, oci, wasm } = runtimes;
    let WebhookSettings { url, secret_file, agent, sends_content, runners, time_limit } = webhook;
    vec![
        ("runtimes.enabled", SettingTarget::Parsed(enabled)),
        ("runtimes.ports", SettingTarget::Parsed(ports)),
        ("process.cgroups", SettingTarget::Parsed(cgroups)),
        ("tinyfaas.management", SettingTarget::Parsed(&mut tinyfaas.management)),
        ("tinyfaas.calls", SettingTarget::Parsed(&mut tinyfaas.calls)),
        ("tinyfaas.prefix", SettingTarget::Parsed(&mut tinyfaas.prefix)),
        ("tinyfaas.threads", SettingTarget::Number(&mut tinyfaas.threads, (1, MAX_THREADS))),
        ("tinyfaas.forms", SettingTarget::Parsed(&mut tinyfaas.forms)),
        ("tinyfaas.patience", SettingTarget::Time(&mut tinyfaas.time_limit, PATIENCE)),
        ("webhook.url", SettingTarget::Parsed(url)),
        ("webhook.secret_file", SettingTarget::Parsed(secret_file)),
        ("webhook.agent", SettingTarget::Parsed(agent)),
        ("webhook.sends_content", SettingTarget::Parsed(sends_content)),
        ("webhook.runners", SettingTarget::Parsed(runners)),
        ("webhook.patience", SettingTarget::Time(time_limit, PATIENCE)),
        ("oci.program", SettingTarget::Parsed(&mut oci.program)),
        ("oci.podman_runtime", SettingTarget::Parsed(&mut oci.podman_runtime)),
        ("oci.rootfs", SettingTarget::Parsed(&mut oci.rootfs)),
        ("oci.image", SettingTarget::Parsed(&mut oci.image)),
        ("oci.binds", SettingTarget::Parsed(&mut oci.binds)),
        ("oci.ports", SettingTarget::Parsed(&mut oci.ports)),
        ("wasm.memory", SettingTarget::Size(&mut wasm.memory, CALL_MEMORY)),
        ("wasm.calls", SettingTarget::Number(&mut wasm.calls, (1, MAX_CALLS))),
        ("wasm.compute", SettingTarget::Time(&mut wasm.compute, CALL_TIME)),
        ("wasm.time", SettingTarget::Time(&mut wasm.time, CALL_TIME)),
        ("wasm.outgoing", SettingTarget::Parsed(&mut wasm.outgoing)),
    ]
}

/// Whether all that is enabled exists and has what it needs. `name` is the agent's. What is set of others is not looked at.
pub fn check(runtimes: &Runtimes, name: &str, faults: &mut Vec<String>) {
    let enabled = &runtimes.enabled;
    for (at, one) in enabled.iter().enumerate() {
        if enabled[..at].contains(one) {
            faults.push(format!("runtimes.enabled: {one} is there twice"));
            continue;
        }
        match one.as_str() {
            "tinyfaas" if runtimes.tinyfaas.forms.is_empty() => {
                faults.push("tinyfaas.forms: name at least one, as in python".to_owned());
            }
            "wasm" if !wasm::IS_BUILT_IN => {
                faults.push(format!("runtimes.enabled: wasm: {}", wasm::NOT_BUILT_IN));
            }
            "process" | "tinyfaas" | "wasm" => {}
            "webhook" => check_webhook(&runtimes.webhook, name, faults),
            "oci" => check_oci(&runtimes.oci, enabled, runtimes.ports, faults),
            other => faults.push(format!("runtimes.enabled: {}", runtime::unknown(other))),
        }
    }
}

fn check_webhook(webhook: &WebhookSettings, name: &str, faults: &mut Vec<String>) {
    match reqwest::Url::parse(&webhook.url) {
        _ if webhook.url.is_empty() => {
            faults.push("webhook.url: the runtime webhook needs an address that it calls".to_owned());
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            faults.push("webhook.url: it holds a name or a password: calls are signed instead".to_owned());
        }
        Ok(_) => {}
        // It may hold a secret, and is not repeated.
        Err(_) => faults.push("webhook.url: an address looks like https://faas.example.org/agent".to_owned()),
    }
    if webhook.secret_file.is_none() {
        faults.push("webhook.secret_file: the runtime webhook needs a file with what signs calls".to_owned());
    }
    if webhook.runners.is_empty() {
        faults
            .push("webhook.runners: name the forms of functions that are run there, as in python".to_owned());
    }
    if webhook.agent.is_empty() && name.is_empty() {
        faults.push("webhook.agent: say what this agent is called there, or set agent.name".to_owned());
    }
}

fn check_oci(oci: &OciSettings, enabled: &[String], (first, last): (u16, u16), faults: &mut Vec<String>) {
    let program = Path::new(&oci.program).file_name().unwrap_or_default().to_string_lossy();
    match (program.as_ref(), &oci.rootfs, oci.image.as_str()) {
        (_, Some(_), image) if !image.is_empty() => {
            faults.push("oci.image: oci.rootfs is set too; containers have one of them".to_owned());
        }
        (program, None, image) if program.starts_with("podman") || (program.is_empty() && !image.is_empty()) => {}
        (_, None, _) => faults.push(
            "oci.rootfs: the runtime oci needs a root file system, unpacked in a folder, or podman (oci.program) \
             and its images"
                .to_owned(),
        ),
        (_, Some(_), _) => {}
    }
    if oci.image.starts_with('-') || oci.podman_runtime.contains(char::is_whitespace) {
        faults.push("oci.image, oci.podman_runtime: these are no names of an image and a program".to_owned());
    }
    if !oci.program.is_empty() && !program.starts_with("runc") && !program.starts_with("podman") {
        faults.push(format!("oci.program: {} is neither runc nor podman", oci.program));
    }
    if let Some(bind) = oci.binds.iter().find(|bind| !bind.is_absolute()) {
        faults.push(format!("oci.binds: {} does not begin with a slash", bind.display()));
    }
    let has_both = enabled.iter().any(|one| one == "process");
    if has_both && oci.ports.0 <= last && first <= oci.ports.1 {
        faults.push("oci.ports: some are those of runtimes.ports too".to_owned());
    }
}

impl Parsed for Vec<Form> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let read = |part: &str| {
            let form = Form::ALL.into_iter().find(|form| form.name() == runtime::form(part));
            form.ok_or_else(|| format!("tinyFaaS has no form {part:?}; it has {}", Form::ALL.to_vec().text()))
        };
        *self = parts(text).map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(|form| form.name()).collect::<Vec<_>>().join(", ")
    }
}

impl Parsed for Vec<Destination> {
    fn take(&mut self, text: &str) -> Result<(), String> {
        let read = |part: &str| part.parse::<Destination>().map_err(|error| error.to_string());
        *self = parts(text).map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn text(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// `auto`, `off`, or a folder.
impl Parsed for Cgroups {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "auto" => Self::Auto,
            "off" => Self::Off,
            path if path.starts_with('/') => Self::Below(PathBuf::from(path)),
            _ => {
                return Err(format!(
                    "{text:?} is neither auto nor off nor a folder, as in /sys/fs/cgroup/agent"
                ));
            }
        };
        Ok(())
    }

    fn text(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Below(folder) => folder.display().to_string(),
        }
    }
}
