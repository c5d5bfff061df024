//! Certificates, and callers over TLS.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use rcgen::{CertifiedKey, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// One that callers know, for these hosts.
pub struct Identity(CertifiedKey<KeyPair>);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    pub fn of(hosts: &[&str]) -> Self {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        Self(rcgen::generate_simple_self_signed(hosts).unwrap())
    }

    pub fn write(&self, certificate: &Path, key: &Path) {
        fs::write(certificate, self.0.cert.pem()).unwrap();
        fs::write(key, self.0.signing_key.serialize_pem()).unwrap();
    }

    /// Both in one.
    pub fn pem(&self) -> String {
        self.0.cert.pem() + &self.0.signing_key.serialize_pem()
    }

    /// The answer to a call to a host, which has to show this certificate.
    pub async fn call(&self, at: SocketAddr, host: &str, call: &str) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
        let stream = TcpStream::connect(at).await.unwrap();
        let mut stream =
            tls.connect(host.to_owned().try_into().unwrap(), stream).await.expect("its certificate");
        stream.write_all(call.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Not everybody says goodbye.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    pub async fn get(&self, at: SocketAddr, host: &str, path: &str) -> String {
        let call = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = self.call(at, host, &call).await;
        answer.split_once("\r\n\r\n").map_or(answer.clone(), |(_, body)| body.to_owned())
    }
}
