//! TLS of all sides: one certificate, and one cipher suite, so that all of them do the same work.

use std::{fs, path::Path, sync::Arc};

use anyhow::Context as _;
use proxy::{Tls, TlsFiles};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The name that the certificate is for.
const NAME: &str = "bench";

/// Writes `cert.pem`, `key.pem` and, for who wants both in one file, `both.pem`.
pub fn write_certificate(folder: &Path) -> anyhow::Result<()> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    fs::write(folder.join("both.pem"), format!("{certificate}{key}"))?;
    fs::write(folder.join("cert.pem"), certificate)?;
    fs::write(folder.join("key.pem"), key)?;
    Ok(())
}

/// The proxy's side of it.
pub fn for_proxy(folder: &Path) -> anyhow::Result<Arc<Tls>> {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    Ok(Tls::load(TlsFiles { certificate, key, client_ca: None })?)
}

/// What callers know of it.
#[derive(Clone)]
pub struct Trust(TlsConnector);

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("cert.pem"))?)?;
        let suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider = CryptoProvider { cipher_suites: suites, ..ring::default_provider() };
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub async fn connect(&self, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
        self.0.connect(ServerName::try_from(NAME)?, stream).await.context("the handshake failed")
    }
}
