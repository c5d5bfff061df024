//! What an operator sets of a proxy: defaults, under `config/proxy.yml`, under `CHOIRMASTER_PROXY_*` variables, under flags.
//!
//! A value goes in as `section.key` and a text whatever its source, and all faults are reported at once. An unknown key is never
//! ignored. `config/proxy.yml` lists every key with its default, which a test compares.

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use proxy::{Limits, Measuring, TlsFiles};

use super::value::Slot;

/// Where the file is looked for, below the working directory, when none is named.
pub const DEFAULT_FILE: &str = "config/proxy.yml";

pub const DEFAULT_CONTROL: &str = "data/proxy.sock";

/// Before the name of a variable: `limits.idle` is `CHOIRMASTER_PROXY_LIMITS_IDLE`.
const PREFIX: &str = "CHOIRMASTER_PROXY_";

/// The variable of the file's name, which is no key.
const FILE_VARIABLE: &str = "CHOIRMASTER_PROXY_CONFIG";

/// The sections of the file, and their keys with plain values.
type Sections = Option<IndexMap<String, Option<IndexMap<String, Option<String>>>>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: Vec<SocketAddr>,
    /// Where metrics are read.
    pub metrics: Vec<SocketAddr>,
    /// Where callers speak TLS, with these files.
    pub tls_listen: Vec<SocketAddr>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    pub control: PathBuf,
    pub state: PathBuf,
    /// 0: one for each core.
    pub threads: usize,
    pub stop_within: Duration,
    pub upgrade_within: Duration,
    pub limits: Limits,
    pub measuring: Measuring,
    pub log_level: String,
    pub log_json: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8000))],
            metrics: Vec::new(),
            tls_listen: Vec::new(),
            certificate: None,
            key: None,
            client_ca: None,
            control: DEFAULT_CONTROL.into(),
            state: "data/proxy".into(),
            threads: 0,
            // Idle connections end by then, and a call that came last has a moment more.
            stop_within: Limits::default().idle + Duration::from_secs(5),
            upgrade_within: Duration::from_hours(1),
            limits: Limits::default(),
            measuring: Measuring::default(),
            log_level: "info".to_owned(),
            log_json: false,
        }
    }
}

/// Every fault of the settings: where it stands, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration of the proxy can't be used\n  {}", .0.join("\n  "))]
pub struct SettingsError(Vec<String>);

/// A flag of the command line: its name as written, the key it sets, and the value.
#[derive(Debug, Clone)]
pub struct Flag {
    pub name: &'static str,
    pub key: String,
    pub value: String,
}

impl Settings {
    /// Reads everything. A file that was named must be there.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self, SettingsError> {
        let (mut settings, mut faults) = (Self::default(), Vec::new());
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let place = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => settings.take_text(&text, &place, &mut faults),
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => faults.push(format!("{place}: can't be read: {error}")),
        }
        settings.take_variables(variables, &mut faults);
        for Flag { name, key, value } in flags {
            settings.set(key, value, name, &mut faults);
        }
        settings.check(&mut faults);
        if faults.is_empty() { Ok(settings) } else { Err(SettingsError(faults)) }
    }

    fn take_text(&mut self, text: &str, place: &str, faults: &mut Vec<String>) {
        let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
        let sections = match serde_saphyr::from_str_with_options::<Sections>(text, options) {
            Ok(sections) => sections.unwrap_or_default(),
            Err(error) => {
                return faults
                    .push(format!("{place}: not readable as sections of keys with plain values: {error}"));
            }
        };
        for (section, keys) in sections {
            for (key, value) in keys.unwrap_or_default() {
                let key = format!("{section}.{key}");
                match value {
                    Some(value) => self.set(&key, &value, place, faults),
                    None if self.keys().iter().any(|(known, _)| *known == key) => {}
                    None => self.set(&key, "", place, faults),
                }
            }
        }
    }

    fn take_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        faults: &mut Vec<String>,
    ) {
        let mut ours: Vec<(String, String)> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(PREFIX) && name != FILE_VARIABLE)
            .collect();
        ours.sort();
        for (name, value) in ours {
            let known = self.keys().iter().map(|&(key, _)| key).find(|key| variable(key) == name);
            match known {
                Some(key) => self.set(key, &value, &name, faults),
                None => faults.push(format!("{name}: no such variable; {DEFAULT_FILE} lists all keys")),
            }
        }
    }

    fn set(&mut self, key: &str, text: &str, place: &str, faults: &mut Vec<String>) {
        match self.keys().into_iter().find(|(known, _)| *known == key) {
            Some((_, slot)) => {
                if let Err(why) = slot.read(text) {
                    faults.push(format!("{place}: {key}: {why}"));
                }
            }
            None => {
                faults.push(format!("{place}: there is no key {key:?}; {DEFAULT_FILE} lists all of them"));
            }
        }
    }

    fn check(&self, faults: &mut Vec<String>) {
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log_level) {
            faults.push(format!("log.level: {:?} can't be read: {error}", self.log_level));
        }
        self.check_tls(faults);
        let mut seen = HashSet::new();
        for address in self.listen.iter().chain(&self.tls_listen).chain(&self.metrics) {
            if address.port() != 0 && !seen.insert(address) {
                faults.push(format!(
                    "{address} is to be listened on twice: in proxy.listen, tls.listen, proxy.metrics"
                ));
            }
        }
    }

    fn check_tls(&self, faults: &mut Vec<String>) {
        let files = [("tls.certificate", &self.certificate), ("tls.key", &self.key)];
        if self.tls_listen.is_empty() {
            let named = files.into_iter().chain([("tls.client_ca", &self.client_ca)]);
            let named = named.filter(|(_, path)| path.is_some());
            faults.extend(named.map(|(key, _)| format!("{key} is set, and tls.listen names no address")));
        } else {
            let missing = files.into_iter().filter(|(_, path)| path.is_none());
            faults
                .extend(missing.map(|(key, _)| format!("tls.listen names an address, and {key} isn't set")));
        }
    }

    /// What callers of TLS are shown, where any are to come.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(TlsFiles { certificate, key, client_ca: self.client_ca.clone() })
    }

    /// Every key with its value.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        self.clone().keys().into_iter().map(|(key, slot)| (key, slot.to_string())).collect()
    }

    /// Every key and its place, in the order of the documentation.
    fn keys(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        const SECOND: Duration = Duration::from_secs(1);
        const DAY: Duration = Duration::from_hours(24);
        const TIMES: (Duration, Duration) = (Duration::from_millis(10), DAY);
        let Limits {
            head_bytes,
            head_fields,
            head_time,
            idle,
            body_idle,
            tunnel_idle,
            connect,
            first_byte,
            connections,
            in_flight,
            queue,
            queue_time,
            streams,
            resets,
            handshake,
            kept_body,
            kept_bodies,
            pooled,
            pool,
        } = &mut self.limits;
        vec![
            ("proxy.listen", Slot::Addresses(&mut self.listen)),
            ("proxy.metrics", Slot::Addresses(&mut self.metrics)),
            ("proxy.control", Slot::Path(&mut self.control)),
            ("proxy.state", Slot::Path(&mut self.state)),
            ("proxy.threads", Slot::Count(&mut self.threads, (0, 1_024))),
            ("tls.listen", Slot::Addresses(&mut self.tls_listen)),
            ("tls.certificate", Slot::MaybePath(&mut self.certificate)),
            ("tls.key", Slot::MaybePath(&mut self.key)),
            ("tls.client_ca", Slot::MaybePath(&mut self.client_ca)),
            ("drain.stop", Slot::Time(&mut self.stop_within, (Duration::ZERO, DAY))),
            ("drain.upgrade", Slot::Time(&mut self.upgrade_within, (SECOND, 30 * DAY))),
            ("limits.connections", Slot::Count(connections, (1, 10_000_000))),
            ("limits.idle", Slot::Time(idle, TIMES)),
            ("limits.head_bytes", Slot::Size(head_bytes, (1_024, 1 << 20))),
            ("limits.head_fields", Slot::Count(head_fields, (8, 256))),
            ("limits.head_time", Slot::Time(head_time, TIMES)),
            ("limits.body_idle", Slot::Time(body_idle, TIMES)),
            ("limits.tunnel_idle", Slot::Time(tunnel_idle, TIMES)),
            ("limits.connect", Slot::Time(connect, TIMES)),
            ("limits.first_byte", Slot::Time(first_byte, TIMES)),
            ("limits.in_flight", Slot::Places(in_flight, (1, 1_000_000))),
            ("limits.queue", Slot::Places(queue, (0, 1_000_000))),
            ("limits.queue_time", Slot::Time(queue_time, TIMES)),
            ("limits.streams", Slot::Places(streams, (1, 100_000))),
            ("limits.resets", Slot::Places(resets, (1, 1_000_000))),
            ("limits.handshake", Slot::Time(handshake, TIMES)),
            ("limits.kept_body", Slot::Size(kept_body, (0, 1 << 30))),
            ("limits.kept_bodies", Slot::Size(kept_bodies, (0, 1 << 40))),
            ("limits.pool", Slot::Count(pool, (0, 100_000))),
            ("limits.pooled", Slot::Time(pooled, (Duration::ZERO, DAY))),
            ("counts.interval_seconds", Slot::Places(&mut self.measuring.interval_seconds, (1, 3_600))),
            ("log.level", Slot::Text(&mut self.log_level)),
            ("log.format", Slot::Json(&mut self.log_json)),
            ("log.access", Slot::Logged(&mut self.measuring.access_log.logged)),
            ("log.access_to", Slot::LogTarget(&mut self.measuring.access_log.to)),
        ]
    }
}

/// The variable of a key. Keys of the section `proxy` go without its name, which is in the prefix.
fn variable(key: &str) -> String {
    let key = key.strip_prefix("proxy.").unwrap_or(key);
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}
