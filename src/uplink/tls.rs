//! TLS, with authorities and a certificate of one's own.

use std::{fs, path::Path};

use reqwest::{Certificate, ClientBuilder, Identity};

use super::{LinkError, Settings, error::innermost};

/// Adds whom to believe, and who calls. An address without TLS needs no authorities, not even those of this machine.
pub(super) fn with(
    builder: ClientBuilder,
    settings: &Settings,
    is_plain: bool,
) -> Result<ClientBuilder, LinkError> {
    let builder = match &settings.ca_file {
        Some(file) => builder.tls_certs_only(authorities(file)?),
        None if is_plain => builder.tls_certs_only([]),
        None => builder,
    };
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(builder),
        (Some(certificate), Some(key)) => Ok(builder.identity(identity(certificate, key)?)),
        (Some(_), None) => Err(wrong("key", "is missing: the certificate needs its private key")),
        (None, Some(_)) => Err(wrong("certificate", "is missing: the key belongs to one")),
    }
}

fn authorities(file: &Path) -> Result<Vec<Certificate>, LinkError> {
    let pem = read("ca_file", file)?;
    let list = Certificate::from_pem_bundle(&pem)
        .map_err(|error| wrong("ca_file", &format!("{}: {}", file.display(), innermost(&error))))?;
    if list.is_empty() {
        return Err(wrong("ca_file", &format!("{} holds no certificate", file.display())));
    }
    Ok(list)
}

fn identity(certificate: &Path, key: &Path) -> Result<Identity, LinkError> {
    let mut both = read("certificate", certificate)?;
    both.push(b'\n');
    both.extend_from_slice(&read("key", key)?);
    // What is wrong is told without what is in the files: one of them is secret.
    Identity::from_pem(&both).map_err(|_| {
        let (certificate, key) = (certificate.display(), key.display());
        wrong(
            "certificate",
            &format!("{certificate} and {key} are no certificate with its private key (PEM)"),
        )
    })
}

fn read(key: &str, file: &Path) -> Result<Vec<u8>, LinkError> {
    fs::read(file).map_err(|error| wrong(key, &format!("{} can't be read: {error}", file.display())))
}

fn wrong(key: &str, why: &str) -> LinkError {
    LinkError::Settings(format!("{key} {why}"))
}
