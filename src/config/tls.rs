//! TLS, for an address.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::{
    Fault,
    section::{Field, Section},
};

/// PEM files; without a certificate the address speaks plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    name: &'static str,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Only callers with a certificate of this authority are served.
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    /// The settings of a section of this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name, certificate: None, key: None, client_ca: None }
    }

    /// Reads the files; `None` where TLS is not configured.
    pub fn server(&self) -> Result<Option<Arc<ServerConfig>>, Fault> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else { return Ok(None) };
        let chain = self.certificates("certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| self.fault("key", format!("{}: {error}", key.display())))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut built = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.fault("certificate", error.to_string()))?
            .with_client_cert_verifier(self.callers()?)
            .with_single_cert(chain, key)
            .map_err(|error| self.fault("certificate", format!("does not go with its key: {error}")))?;
        built.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Arc::new(built)))
    }

    /// Who may call.
    fn callers(&self) -> Result<Arc<dyn ClientCertVerifier>, Fault> {
        let Some(authority) = &self.client_ca else { return Ok(Arc::new(NoClientAuth)) };
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates("client_ca", authority)? {
            roots.add(certificate).map_err(|error| self.fault("client_ca", error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| self.fault("client_ca", error.to_string()))?;
        Ok(verifier)
    }

    fn certificates(&self, key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
        let wrong = |why: String| self.fault(key, format!("{}: {why}", file.display()));
        let list = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(error.to_string()))?;
        if list.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(list) }
    }

    fn fault(&self, key: &str, message: String) -> Fault {
        Fault { place: format!("{}.{key}", self.name), message }
    }
}

impl Section for Tls {
    fn name(&self) -> &'static str {
        self.name
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("certificate", &mut self.certificate),
            Field::new("key", &mut self.key),
            Field::new("client_ca", &mut self.client_ca),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        let wrong = |key, why: &str| vec![(key, why.to_owned())];
        match (&self.certificate, &self.key, &self.client_ca) {
            (Some(_), None, _) => wrong("key", "is missing: the certificate needs its private key"),
            (None, Some(_), _) => wrong("certificate", "is missing: the key belongs to one"),
            (None, None, Some(_)) => wrong("client_ca", "needs certificate and key beside it"),
            _ => Vec::new(),
        }
    }
}
