//! The sections. `config/choirmaster.yml` says what each key means to an operator.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::PathBuf,
    time::Duration,
};

use super::{
    section::{Field, Section},
    value::{Bytes, LogFormat, Secret},
};
use crate::{engine::TaskSettings, functions, release::settings::Settings as Rules};

/// Where it listens unless told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9991));

/// Connections at once, unless configured otherwise.
pub const DEFAULT_MAX_CONNECTIONS: usize = 50_000;

/// Longest duration that can be set, in milliseconds: ten years.
const MAX_TIME_MS: u64 = 3650 * 24 * 60 * 60 * 1000;

/// Shortest deadline that can be set, in milliseconds. Below a few polls of an agent it would fire always.
const MIN_DEADLINE_MS: u64 = 1_000;

/// Most bytes an archive may be allowed to have: everything of it is held in memory at least once.
const MAX_ARCHIVE_BYTES: u64 = 4 << 30;

/// Smallest size of an archive that can be set, and smallest store.
const MIN_BYTES: u64 = 1 << 10;
const MIN_STORE_BYTES: u64 = 1 << 20;
const MAX_STORE_BYTES: u64 = 1 << 44;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    pub listen: SocketAddr,
    /// The calls of children alone, on an address of their own.
    pub child_listen: Option<SocketAddr>,
    pub data: PathBuf,
    pub standby: bool,
}

impl Default for Serve {
    fn default() -> Self {
        Self { listen: DEFAULT_LISTEN, child_listen: None, data: PathBuf::from("data"), standby: false }
    }
}

impl Section for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("listen", &mut self.listen),
            Field::new("child_listen", &mut self.child_listen),
            Field::new("data", &mut self.data),
            Field::new("standby", &mut self.standby),
        ]
    }
}

/// Postgres URLs may hold a password, so the URL is a secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Store {
    pub url: Option<Secret>,
    pub url_file: Option<PathBuf>,
    pub max_size: Option<Bytes>,
}

impl Section for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("url", &mut self.url),
            Field::new("url_file", &mut self.url_file),
            Field::within("max_size", &mut self.max_size, MIN_STORE_BYTES, MAX_STORE_BYTES),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions {
    /// The folder that contains `fns/`.
    pub root: PathBuf,
    pub max_upload: Bytes,
    pub max_entries: usize,
    pub max_file: Bytes,
    pub max_unpacked: Bytes,
    pub max_ratio: u64,
}

impl Default for Functions {
    fn default() -> Self {
        let limits = functions::Limits::default();
        Self {
            root: PathBuf::from("."),
            max_upload: Bytes(limits.upload_bytes),
            max_entries: limits.entries,
            max_file: Bytes(limits.file_bytes),
            max_unpacked: Bytes(limits.unpacked_bytes),
            max_ratio: limits.ratio,
        }
    }
}

impl Section for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("root", &mut self.root),
            Field::within("max_upload", &mut self.max_upload, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_entries", &mut self.max_entries, 1, 1_000_000),
            Field::within("max_file", &mut self.max_file, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_unpacked", &mut self.max_unpacked, MIN_BYTES, MAX_ARCHIVE_BYTES),
            Field::within("max_ratio", &mut self.max_ratio, 2, 2_000),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        if self.max_file.0 <= self.max_unpacked.0 {
            return Vec::new();
        }
        vec![("max_file", "is more than max_unpacked, the limit of all files together".to_owned())]
    }
}

impl Functions {
    pub fn limits(&self) -> functions::Limits {
        functions::Limits {
            upload_bytes: self.max_upload.0,
            entries: self.max_entries,
            file_bytes: self.max_file.0,
            unpacked_bytes: self.max_unpacked.0,
            ratio: self.max_ratio,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_children: usize,
    pub max_open_releases: usize,
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            max_children: rules.max_children,
            max_open_releases: rules.max_open_releases,
            max_connections: DEFAULT_MAX_CONNECTIONS,
        }
    }
}

impl Section for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("max_children", &mut self.max_children, 1, 10_000_000),
            Field::within("max_open_releases", &mut self.max_open_releases, 1, 100_000),
            Field::within("max_connections", &mut self.max_connections, 1, 1_000_000),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    pub offer: Duration,
    pub setup_grace: Duration,
    pub stage: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let rules = Rules::default();
        Self { offer: rules.offer_deadline, setup_grace: rules.setup_grace, stage: rules.stage_deadline }
    }
}

impl Section for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("offer", &mut self.offer, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("setup_grace", &mut self.setup_grace, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("stage", &mut self.stage, MIN_DEADLINE_MS, MAX_TIME_MS),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub retention: Duration,
}

impl Default for Audit {
    fn default() -> Self {
        Self { retention: TaskSettings::default().audit_retention }
    }
}

impl Section for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::within("retention", &mut self.retention, 60 * 60 * 1000, MAX_TIME_MS)]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// As `tracing` reads it: `info`, or `info,choirmaster::engine=debug`.
    pub level: String,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Human }
    }
}

impl Section for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("level", &mut self.level), Field::new("format", &mut self.format)]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        match tracing_subscriber::EnvFilter::try_new(&self.level) {
            Ok(_) => Vec::new(),
            Err(error) => {
                let hint = "it looks like info, debug or info,choirmaster::engine=debug";
                vec![("level", format!("{:?} can't be read: {error}; {hint}", self.level))]
            }
        }
    }
}

/// Who may do what. A token comes from a variable or a file, so that it stands in no file that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    pub operator_token: Option<Secret>,
    pub operator_token_file: Option<PathBuf>,
}

impl Auth {
    pub fn has_operator_token(&self) -> bool {
        self.operator_token.is_some() || self.operator_token_file.is_some()
    }
}

impl Section for Auth {
    fn name(&self) -> &'static str {
        "auth"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("operator_token", &mut self.operator_token),
            Field::new("operator_token_file", &mut self.operator_token_file),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        if self.operator_token.is_some() && self.operator_token_file.is_some() {
            vec![("operator_token_file", "and operator_token are both set: keep one".to_owned())]
        } else {
            Vec::new()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
}

impl Section for Tls {
    fn name(&self) -> &'static str {
        "tls"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("certificate", &mut self.certificate),
            Field::new("key", &mut self.key),
            Field::new("client_ca", &mut self.client_ca),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        match (&self.certificate, &self.key, &self.client_ca) {
            (Some(_), None, _) => {
                vec![("key", "is missing: tls.certificate needs its private key".to_owned())]
            }
            (None, Some(_), _) => vec![("certificate", "is missing: tls.key belongs to one".to_owned())],
            (None, None, Some(_)) => {
                vec![("client_ca", "needs tls.certificate and tls.key beside it".to_owned())]
            }
            _ => Vec::new(),
        }
    }
}
