//! From the configuration to who may call, and how: tokens and TLS.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::TlsAcceptor;

use crate::{
    app::Tls,
    config::{self, Config},
    http::auth::{Settings, Token},
};

/// The name in the audit trail of whoever has the configured token.
const OPERATOR: &str = "operator";

/// Shortest token of an operator, in bytes. Shorter ones can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// Who may call. A token is needed as soon as there is one, on whatever address.
pub fn auth(config: &config::Auth) -> anyhow::Result<Settings> {
    let token = match (&config.operator_token, &config.operator_token_file) {
        (Some(token), _) => Some(token.reveal().to_owned()),
        (None, Some(file)) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("auth.operator_token_file {} can't be read", file.display()))?;
            Some(text.trim().to_owned())
        }
        (None, None) => None,
    };
    let Some(token) = token else { return Ok(Settings::default()) };
    if token.len() < MIN_TOKEN_BYTES {
        anyhow::bail!("the operator's token has fewer than {MIN_TOKEN_BYTES} bytes and could be guessed");
    }
    Ok(Settings {
        operators: vec![(OPERATOR.to_owned(), Token::new(&token))],
        operator_required: true,
        ..Settings::default()
    })
}

/// TLS of the main address and of the children's. Certificates of clients are asked for where children call.
pub fn tls(config: &Config) -> anyhow::Result<(Option<Tls>, Option<Tls>)> {
    let config::Tls { certificate: Some(certificate), key: Some(key), client_ca } = &config.tls else {
        return Ok((None, None));
    };
    let with_clients = acceptor(certificate, key, client_ca.as_ref())?;
    if config.serve.child_listen.is_none() {
        return Ok((Some(with_clients), None));
    }
    Ok((Some(acceptor(certificate, key, None)?), Some(with_clients)))
}

fn acceptor(certificate: &Path, key: &Path, client_ca: Option<&PathBuf>) -> anyhow::Result<Tls> {
    let chain = certificates(certificate).context("tls.certificate")?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("tls.key {} can't be read", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("TLS")?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(file).context("tls.client_ca")? {
                roots.add(root).with_context(|| format!("tls.client_ca {}", file.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .context("tls.client_ca")?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).context("tls.certificate and tls.key")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.with_context(|| format!("{} can't be read", file.display()))?;
    if found.is_empty() {
        anyhow::bail!("{} holds no certificate", file.display());
    }
    Ok(found)
}
