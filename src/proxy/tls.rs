//! TLS for callers: certificates that are read again when their files change.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The most bytes of a file.
const MOST_BYTES: u64 = 1024 * 1024;

/// Where certificates are kept, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those between it and one that callers know.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Where this is given, only callers are served who show a certificate that one of these signed.
    pub client_ca: Option<PathBuf>,
}

/// Why files are of no use. Names no content.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("{0} has more than {MOST_BYTES} bytes, which no certificate needs")]
    Large(PathBuf),
    #[error("{0} holds no certificate in PEM")]
    NoCertificate(PathBuf),
    #[error("{0} holds no private key in PEM")]
    NoKey(PathBuf),
    #[error("{certificate} and {key} can't be used together: {why}")]
    Pair { certificate: PathBuf, key: PathBuf, why: rustls::Error },
    #[error("{0} can't be used to check callers: {1}")]
    Authority(PathBuf, String),
}

/// Speaks TLS with callers.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    /// What the files looked like when they were last read.
    seen: Mutex<Vec<Option<Look>>>,
}

/// What shows that a file changed.
type Look = (u64, u64, SystemTime);

impl Tls {
    /// Reads the files, and again whenever one of them changes, as long as this is held. Files that are of no use then change
    /// nothing, but for a line in the log.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsFault> {
        let seen = Mutex::new(files.looks());
        let config = RwLock::new(Arc::new(files.read()?));
        let tls = Arc::new(Self { files, config, seen });
        let watched = Arc::downgrade(&tls);
        let thread = std::thread::Builder::new().name("proxy-tls".to_owned());
        if let Err(error) = thread.spawn(move || watch(&watched)) {
            tracing::warn!(%error, "certificates are not read again when they change: no thread could be started");
        }
        Ok(tls)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn look_again(&self) {
        let looks = self.files.looks();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == looks {
            return;
        }
        *seen = looks;
        match self.files.read() {
            Ok(config) => {
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                tracing::info!(certificate = %self.files.certificate.display(), "certificates were read again");
            }
            Err(fault) => tracing::warn!(%fault, "the certificates before go on serving"),
        }
    }
}

fn watch(tls: &Weak<Tls>) {
    loop {
        std::thread::sleep(LOOK);
        match tls.upgrade() {
            Some(tls) => tls.look_again(),
            None => return,
        }
    }
}

impl TlsFiles {
    /// Whether they can be used, before anything is.
    pub fn check(&self) -> Result<(), TlsFault> {
        self.read().map(drop)
    }

    fn looks(&self) -> Vec<Option<Look>> {
        let paths = [&self.certificate, &self.key].into_iter().chain(&self.client_ca);
        let look = |path: &PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.modified().ok()?))
        };
        paths.map(look).collect()
    }

    fn read(&self) -> Result<ServerConfig, TlsFault> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&content(&self.key)?)
            .map_err(|_| TlsFault::NoKey(self.key.clone()))?;
        let pair = |why| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            TlsFault::Pair { certificate, key, why }
        };
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(pair)?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let fault = |why: String| TlsFault::Authority(path.clone(), why);
                let mut roots = RootCertStore::empty();
                for certificate in self::certificates(path)? {
                    roots.add(certificate).map_err(|why| fault(why.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().map_err(|why| fault(why.to_string()))?)
            }
        };
        let mut config = config.with_single_cert(certificates, key).map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let content = content(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(_) => Err(TlsFault::NoCertificate(path.to_owned())),
    }
}

fn content(path: &Path) -> Result<Vec<u8>, TlsFault> {
    let read = |error| TlsFault::Read(path.to_owned(), error);
    if fs::metadata(path).map_err(read)?.len() > MOST_BYTES {
        return Err(TlsFault::Large(path.to_owned()));
    }
    fs::read(path).map_err(read)
}
