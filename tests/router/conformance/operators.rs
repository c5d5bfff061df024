//! What the operator's own configuration serves stays as it is, whatever becomes of ours.

use std::{net::SocketAddr, sync::Arc};

use rcgen::{CertifiedKey, KeyPair};
use router::RouterError;
use rustls::{ClientConfig, RootCertStore};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{Real, done, state::with_shares};
use crate::world::{
    backend::Backend,
    place::free_port,
    wants::{service, wanted},
};

/// What an operator usually serves, without TLS and with it.
pub struct Sites {
    pub port: u16,
    pub tls_port: u16,
    pub identity: CertifiedKey<KeyPair>,
}

impl Sites {
    fn new() -> Self {
        let names = ["one.example", "two.example", "nobody.example"].map(str::to_owned);
        let identity = rcgen::generate_simple_self_signed(names).unwrap();
        Self { port: free_port(), tls_port: free_port(), identity }
    }

    /// Everything that the sites answer, byte by byte but for the time of day.
    async fn answers<R: Real>(&self, real: &R) -> Vec<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.identity.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
        let mut answers = Vec::new();
        for host in ["one.example", "two.example", "nobody.example"] {
            for path in ["/", "/static/x", "/static/none", "/api/name"] {
                let call = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
                let plain = connect(real.at(self.port)).await;
                answers.push(format!("http://{host}{path}: {}", answer(plain, &call).await));
                let secured = tls.connect(host.try_into().unwrap(), connect(real.at(self.tls_port)).await);
                answers
                    .push(format!("https://{host}{path}: {}", answer(secured.await.unwrap(), &call).await));
            }
        }
        answers
    }
}

async fn connect(at: SocketAddr) -> TcpStream {
    TcpStream::connect(at).await.expect("the operator's sites are served")
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, call: &str) -> String {
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    answer.split_inclusive('\n').filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect()
}

pub async fn what_the_operator_serves_is_the_same_before_and_after<R: Real>() {
    let mut real = R::start().await;
    let sites = Sites::new();
    let port = sites.port;
    let backend = Backend::start("theirs").await;
    real.serve_sites(&sites, &backend.target.to_string());
    real.start_again().await;
    let before = sites.answers(&real).await;
    let files = (real.of_others(), real.on_disk());
    let is_served = |all: &[String], what: &str| all.iter().any(|one| one.contains(what));
    assert!(is_served(&before, "static file") && is_served(&before, "theirs"), "{before:#?}");
    let backends = Backend::start_all(["A", "B"]).await;
    let [theirs, free] = [port, free_port()].map(|port| {
        let mut spec = service("checkout", port, &backends, &[9_000, 1_000]);
        spec.hash = R::HASH;
        spec
    });
    let mut generation = 0;
    let mut next = || {
        generation += 1;
        generation
    };

    // A first release on a port of the operator's is refused, and rolled back by writing nothing.
    let router = real.open();
    let refused = router.apply(&wanted(next(), &[&theirs])).await.unwrap_err();
    assert!(matches!(refused, RouterError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains(&port.to_string()), "{refused}");
    let rolled_back = done(&router, &wanted(next(), &[])).await;
    assert!(!rolled_back.was_reloaded);
    assert_eq!(sites.answers(&real).await, before);
    assert_eq!((real.of_others(), real.on_disk()), files);
    drop(router);

    // Also after a change that was interrupted anywhere.
    let mut steps = 0;
    loop {
        let Some(dying) = real.open_dying(steps) else { break };
        let interrupted = dying.apply(&wanted(next(), &[&free])).await;
        drop(dying);
        let router = real.open();
        let refused = router.apply(&wanted(next(), &[&theirs])).await.unwrap_err();
        assert!(matches!(refused, RouterError::Refused { .. }), "killed after {steps} steps: {refused}");
        assert_eq!(sites.answers(&real).await, before, "killed after {steps} steps");
        done(&router, &wanted(next(), &[])).await;
        assert_eq!(sites.answers(&real).await, before, "killed after {steps} steps");
        if interrupted.is_ok() {
            break;
        }
        steps += 1 + steps / 3;
    }

    // And beside a release on another port, from its first share to its end.
    let router = real.open();
    done(&router, &wanted(next(), &[&free])).await;
    assert_eq!(sites.answers(&real).await, before);
    assert!(router.apply(&wanted(next(), &[&theirs])).await.is_err());
    done(&router, &wanted(next(), &[&with_shares(&free, &[10_000, 0])])).await;
    assert_eq!(sites.answers(&real).await, before);
    done(&router, &wanted(next(), &[])).await;
    assert_eq!(sites.answers(&real).await, before);
    assert_eq!(real.of_others(), files.0);
}

pub async fn a_port_that_the_operator_has_written_down_and_not_loaded_yet_is_theirs<R: Real>() {
    let mut real = R::start().await;
    let sites = Sites::new();
    let port = sites.port;
    let backend = Backend::start("theirs").await;
    real.serve_sites(&sites, &backend.target.to_string());
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", port, &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    let router = real.open();
    let refused = router.apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(matches!(refused, RouterError::Refused { .. }), "{refused}");
    drop(router);
    real.start_again().await;
    assert!(sites.answers(&real).await.iter().any(|one| one.contains("static file")));
}
