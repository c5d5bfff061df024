//! TLS, with authorities and a certificate of one's own, from files that may be replaced while they are in use.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Read as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use reqwest::{Certificate, Client, ClientBuilder, Identity};
use tokio::task::spawn_blocking;

use super::{LinkError, Settings, error::innermost};

/// Largest file of certificates that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// What the files hold that are named in the settings.
#[derive(Default)]
struct Files {
    ca_file: Option<Vec<u8>>,
    /// Certificate and key, one after the other.
    identity: Option<Vec<u8>>,
}

/// What makes calls by the newest files that can be used.
pub(super) struct Renewed {
    settings: Settings,
    is_plain: bool,
    build: fn() -> ClientBuilder,
    current: Mutex<Current>,
}

struct Current {
    http: Client,
    /// By which what was read last is known again, whether it can be used or not.
    seen: u64,
}

impl Renewed {
    /// Reads the files; blocks meanwhile.
    pub fn new(settings: &Settings, is_plain: bool, build: fn() -> ClientBuilder) -> Result<Self, LinkError> {
        let files = read_all(settings);
        let seen = digest(&files);
        let http = client(build(), settings, is_plain, files?)?;
        Ok(Self { settings: settings.clone(), is_plain, build, current: Mutex::new(Current { http, seen }) })
    }

    /// What makes calls by what was read last.
    pub fn http(&self) -> Client {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).http.clone()
    }

    fn has_files(&self) -> bool {
        let Settings { url: _, ca_file, certificate, key } = &self.settings;
        ca_file.is_some() || certificate.is_some() || key.is_some()
    }

    /// The same as [`Self::http`], once the files were read again. Files that can't be used change nothing, and the log says so once.
    pub async fn renewed(self: std::sync::Arc<Self>) -> Client {
        if !self.has_files() {
            return self.http();
        }
        let this = std::sync::Arc::clone(&self);
        spawn_blocking(move || this.look()).await.unwrap_or_else(|_| self.http())
    }

    fn look(&self) -> Client {
        let files = read_all(&self.settings);
        let seen = digest(&files);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.seen != seen {
            current.seen = seen;
            match files.and_then(|files| client((self.build)(), &self.settings, self.is_plain, files)) {
                Ok(http) => {
                    current.http = http;
                    tracing::info!("the certificates for calls to the manager were read anew");
                }
                Err(error) => tracing::error!(
                    "the new certificates for calls to the manager can't be used, and those of before go on: {error}"
                ),
            }
        }
        current.http.clone()
    }
}

fn digest(files: &Result<Files, LinkError>) -> u64 {
    let mut hash = DefaultHasher::new();
    match files {
        Ok(Files { ca_file, identity }) => (ca_file, identity).hash(&mut hash),
        Err(error) => error.to_string().hash(&mut hash),
    }
    hash.finish()
}

fn client(
    builder: ClientBuilder,
    settings: &Settings,
    is_plain: bool,
    files: Files,
) -> Result<Client, LinkError> {
    with(builder, settings, is_plain, files)?
        .build()
        .map_err(|error| LinkError::Settings(innermost(&error.without_url())))
}

fn read_all(settings: &Settings) -> Result<Files, LinkError> {
    let ca_file = settings.ca_file.as_deref().map(|file| read("ca_file", file)).transpose()?;
    let identity = match (&settings.certificate, &settings.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            let mut both = read("certificate", certificate)?;
            both.push(b'\n');
            both.extend_from_slice(&read("key", key)?);
            Some(both)
        }
        (Some(_), None) => return Err(wrong("key", "is missing: the certificate needs its private key")),
        (None, Some(_)) => return Err(wrong("certificate", "is missing: the key belongs to one")),
    };
    Ok(Files { ca_file, identity })
}

/// Adds whom to believe, and who calls. An address without TLS needs no authorities, not even those of this machine.
fn with(
    builder: ClientBuilder,
    settings: &Settings,
    is_plain: bool,
    files: Files,
) -> Result<ClientBuilder, LinkError> {
    let Files { ca_file, identity: pem } = files;
    let builder = match (&settings.ca_file, ca_file) {
        (Some(file), Some(pem)) => builder.tls_certs_only(authorities(file, &pem)?),
        _ if is_plain => builder.tls_certs_only([]),
        _ => builder,
    };
    match (&settings.certificate, &settings.key, pem) {
        (Some(certificate), Some(key), Some(pem)) => Ok(builder.identity(identity(certificate, key, &pem)?)),
        _ => Ok(builder),
    }
}

fn authorities(file: &Path, pem: &[u8]) -> Result<Vec<Certificate>, LinkError> {
    let list = Certificate::from_pem_bundle(pem)
        .map_err(|error| wrong("ca_file", &format!("{}: {}", file.display(), innermost(&error))))?;
    if list.is_empty() {
        return Err(wrong("ca_file", &format!("{} holds no certificate", file.display())));
    }
    Ok(list)
}

fn identity(certificate: &Path, key: &Path, pem: &[u8]) -> Result<Identity, LinkError> {
    // What is wrong is told without what is in the files: one of them is secret.
    Identity::from_pem(pem).map_err(|_| {
        let (certificate, key) = (certificate.display(), key.display());
        wrong(
            "certificate",
            &format!("{certificate} and {key} are no certificate with its private key (PEM)"),
        )
    })
}

fn read(key: &str, file: &Path) -> Result<Vec<u8>, LinkError> {
    let unreadable =
        |error: std::io::Error| wrong(key, &format!("{} can't be read: {error}", file.display()));
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(unreadable)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(key, &format!("{} has more than {MAX_FILE_BYTES} bytes", file.display())));
    }
    Ok(bytes)
}

fn wrong(key: &str, why: &str) -> LinkError {
    LinkError::Settings(format!("{key} {why}"))
}
