//! TLS for callers: certificates that are read again when their files change. There is one for all callers, or one for each host that they
//! may name: then the folders say which hosts there are, and nothing is looked for while somebody waits for a handshake.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{ResolvesServerCert, ResolvesServerCertUsingSni, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer, pem::PemObject};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The most bytes of a file.
const MOST_BYTES: u64 = 1024 * 1024;

/// What stands in a path for the host that a caller names.
const HOST: &str = "{host}";
/// The most hosts that have certificates of their own.
const MOST_HOSTS: usize = 1_000;

/// Where certificates are kept, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those between it and one that callers know. With `{host}` in this and in `key` there is one for each host:
    /// those for which there is such a file, whose names are in small letters. Callers who name another host, or none, are refused. A host
    /// whose files are of no use keeps what it had, or else has none; that holds up no other one.
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
    #[error("{{host}} stands in one of {0} and {1} alone: each host has both, or neither")]
    OneForEach(PathBuf, PathBuf),
    #[error("there is no {0} of any host")]
    NoHost(PathBuf),
    #[error("{0} names files of more than {MOST_HOSTS} hosts")]
    Hosts(PathBuf),
    #[error("{certificate} is no certificate of {host}: {why}")]
    Host { certificate: PathBuf, host: String, why: rustls::Error },
}

/// A certificate and its key.
struct Pair {
    /// Who names it is shown it; none: everybody is.
    host: Option<String>,
    certificate: PathBuf,
    key: PathBuf,
}

/// What callers are shown.
struct Shown {
    resolver: Arc<dyn ResolvesServerCert>,
    by_host: ByHost,
    faults: Vec<TlsFault>,
}

/// Speaks TLS with callers.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    seen: Mutex<Seen>,
}

/// What is known of the files since they were last read.
#[derive(Debug)]
struct Seen {
    /// What they looked like.
    looks: Looks,
    by_host: ByHost,
}

/// Which certificate each host is shown; nothing where one is for all.
type ByHost = BTreeMap<String, CertifiedKey>;

/// What came of reading the files.
struct Loaded {
    config: ServerConfig,
    by_host: ByHost,
    /// Why files of some hosts were passed over.
    faults: Vec<TlsFault>,
}

/// What shows that a file changed.
type Look = (u64, u64, SystemTime);

/// Which files there were, and what each looked like.
type Looks = Vec<(PathBuf, Option<Look>)>;

impl Tls {
    /// Reads the files, and again whenever one of them changes, as long as this is held. Files that are of no use then change
    /// nothing, but for a line in the log.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsFault> {
        let looks = files.looks();
        let Loaded { config, by_host, faults } = files.read(&ByHost::new())?;
        warn_of(&faults);
        let seen = Mutex::new(Seen { looks, by_host });
        let config = RwLock::new(Arc::new(config));
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
        if seen.looks == looks {
            return;
        }
        seen.looks = looks;
        match self.files.read(&seen.by_host) {
            Ok(Loaded { config, by_host, faults }) => {
                warn_of(&faults);
                seen.by_host = by_host;
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                tracing::info!(certificate = %self.files.certificate.display(), "certificates were read again");
            }
            Err(fault) => tracing::warn!(%fault, "the certificates before go on serving"),
        }
    }
}

/// Says which hosts are passed over. It is said once for each change of the files.
fn warn_of(faults: &[TlsFault]) {
    for fault in faults {
        tracing::warn!(%fault, "the host is shown its certificate from before, or none; others are served");
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
        self.read(&ByHost::new()).map(drop)
    }

    fn looks(&self) -> Looks {
        let pairs = self.pairs().unwrap_or_default().into_iter();
        let paths = pairs.flat_map(|pair| [pair.certificate, pair.key]).chain(self.client_ca.clone());
        let look = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.modified().ok()?))
        };
        paths.map(|path| (path.clone(), look(&path))).collect()
    }

    /// `before`: what hosts are shown until now, and on where their files are of no use.
    fn read(&self, before: &ByHost) -> Result<Loaded, TlsFault> {
        let provider = Arc::new(ring::default_provider());
        let Shown { resolver, by_host, faults } = self.shown(&provider, before)?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|why| {
                let (certificate, key) = (self.certificate.clone(), self.key.clone());
                TlsFault::Pair { certificate, key, why }
            })?;
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
        let mut config = config.with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Loaded { config, by_host, faults })
    }

    /// What is shown to callers, by the host that they name.
    fn shown(&self, provider: &CryptoProvider, before: &ByHost) -> Result<Shown, TlsFault> {
        let mut resolver = ResolvesServerCertUsingSni::new();
        let (mut by_host, mut faults) = (ByHost::new(), Vec::new());
        for pair in self.pairs()? {
            let Some(host) = &pair.host else {
                let resolver = Arc::new(SingleCertAndKey::from(pair.read(provider)?));
                return Ok(Shown { resolver, by_host, faults });
            };
            let read = pair.read(provider).and_then(|certified| pair.add_to(&mut resolver, host, certified));
            let certified = match read {
                Ok(certified) => Some(certified),
                Err(fault) => {
                    faults.push(fault);
                    let before = before.get(host).cloned();
                    before.and_then(|before| pair.add_to(&mut resolver, host, before).ok())
                }
            };
            by_host.extend(certified.map(|certified| (host.clone(), certified)));
        }
        // None is left.
        if by_host.is_empty() && !faults.is_empty() {
            return Err(faults.swap_remove(0));
        }
        Ok(Shown { resolver: Arc::new(resolver), by_host, faults })
    }

    /// The files as they are there now: one pair for all, or one for each host.
    fn pairs(&self) -> Result<Vec<Pair>, TlsFault> {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let is_each = |path: &Path| path.to_str().is_some_and(|path| path.contains(HOST));
        match (is_each(&certificate), is_each(&key)) {
            (false, false) => Ok(vec![Pair { host: None, certificate, key }]),
            (true, true) => self.of_each_host(),
            (true, false) | (false, true) => Err(TlsFault::OneForEach(certificate, key)),
        }
    }

    fn of_each_host(&self) -> Result<Vec<Pair>, TlsFault> {
        let path = self.certificate.to_str().unwrap_or_default();
        let (before, after) = path.split_once(HOST).unwrap_or_default();
        let (folder, begin) = before.split_at(before.rfind('/').map_or(0, |at| at + 1));
        let end = after.split('/').next().unwrap_or_default();
        let folder = Path::new(if folder.is_empty() { "." } else { folder });
        let listed = fs::read_dir(folder).map_err(|error| TlsFault::Read(folder.to_owned(), error))?;
        let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let host = |name: String| Some(name.strip_prefix(begin)?.strip_suffix(end)?.to_owned());
        let is_host = |host: &String| {
            let is_small = host.bytes().all(|byte| !byte.is_ascii_uppercase());
            is_small && DnsName::try_from(host.as_str()).is_ok()
        };
        let of = |path: &Path, host: &str| PathBuf::from(path.to_string_lossy().replace(HOST, host));
        let pair = |host: String| Pair {
            certificate: of(&self.certificate, &host),
            key: of(&self.key, &host),
            host: Some(host),
        };
        // A folder of another purpose, or that of a host whose certificate is yet to come, holds nothing up.
        let pairs = names.filter_map(host).filter(is_host).map(pair).filter(|pair| pair.certificate.exists());
        let mut pairs: Vec<Pair> = pairs.take(MOST_HOSTS + 1).collect();
        match pairs.len() {
            0 => return Err(TlsFault::NoHost(self.certificate.clone())),
            1..=MOST_HOSTS => {}
            _ => return Err(TlsFault::Hosts(self.certificate.clone())),
        }
        pairs.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(pairs)
    }
}

impl Pair {
    /// Has it shown to those who name the host, and tells it again.
    fn add_to(
        &self,
        resolver: &mut ResolvesServerCertUsingSni,
        host: &str,
        certified: CertifiedKey,
    ) -> Result<CertifiedKey, TlsFault> {
        resolver.add(host, certified.clone()).map_err(|why| {
            let (certificate, host) = (self.certificate.clone(), host.to_owned());
            TlsFault::Host { certificate, host, why }
        })?;
        Ok(certified)
    }

    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFault> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&content(&self.key)?)
            .map_err(|_| TlsFault::NoKey(self.key.clone()))?;
        CertifiedKey::from_der(certificates, key, provider).map_err(|why| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            TlsFault::Pair { certificate, key, why }
        })
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
