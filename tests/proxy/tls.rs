use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use proxy::{Limits, Proxy, Tls, TlsFault, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    http2_world::{call, echo, over, request, until},
    world::{SOON, start, table, version},
};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";

/// Who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, in PEM.
    pub fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

pub fn write(folder: &Path, (certificate, key): &(String, String)) {
    for (name, content) in [("tls.crt", certificate), ("tls.key", key)] {
        let new = folder.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, folder.join(name)).unwrap();
    }
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), client_ca: None }
}

struct Secured {
    proxy: Proxy,
    at: SocketAddr,
    authority: Authority,
    folder: tempfile::TempDir,
}

/// A proxy that speaks TLS as `here.example`.
fn secured(limits: Limits, client_ca: Option<&Authority>) -> Secured {
    let authority = Authority::new("of the proxy");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &authority.sign("here.example"));
    let mut files = files(folder.path());
    if let Some(callers) = client_ca {
        let path = folder.path().join("callers.crt");
        fs::write(&path, callers.0.pem()).unwrap();
        files.client_ca = Some(path);
    }
    let tls = Tls::load(files).unwrap();
    let running = start(limits);
    let at = running.proxy.listen_tls(&std::net::TcpListener::bind("127.0.0.1:0").unwrap(), &tls).unwrap();
    Secured { proxy: running.proxy, at, authority, folder }
}

pub fn client(roots: RootCertStore, protocols: &[&str], identity: Option<(String, String)>) -> ClientConfig {
    use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config
}

pub async fn dial(at: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(at).await?;
    TlsConnector::from(Arc::new(config)).connect("here.example".try_into().unwrap(), stream).await
}

async fn get<S: AsyncReadExt + AsyncWriteExt + Unpin>(stream: &mut S) -> String {
    stream.write_all(b"GET /a/b HTTP/1.1\r\nHost: here.example\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\nbase") {
        got.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(got).unwrap()
}

#[tokio::test]
async fn tls_callers_negotiate_protocol_and_version_sees_https() {
    let of = secured(Limits::default(), None);
    let at = echo().await;
    of.proxy.apply(&table(1, at, at, 0)).await.unwrap();
    let stream = dial(of.at, client(of.authority.roots(), &["h2", "http/1.1"], None)).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let answer = call(&over(stream).await, request("GET", "/a/b"), "").await.unwrap();
    assert!(answer.text().contains("\r\nx-forwarded-proto: https\r\n"), "{}", answer.text());

    for protocols in [&["http/1.1"][..], &[]] {
        let base = version(BASE).await;
        let generation = 2 + protocols.len() as u64;
        of.proxy.apply(&table(6 - generation, base, base, 0)).await.unwrap();
        let mut stream = dial(of.at, client(of.authority.roots(), protocols, None)).await.unwrap();
        for _ in 0..3 {
            assert!(get(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        }
    }
}

#[tokio::test]
async fn a_large_answer_arrives_whole_on_a_connection_that_goes_on() {
    let of = secured(Limits::default(), None);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 3000004\r\n\r\n{}base", "x".repeat(3_000_000));
    let base = version(answer.leak()).await;
    of.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let mut stream = dial(of.at, client(of.authority.roots(), &[], None)).await.unwrap();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: here.example\r\n\r\n").await.unwrap();
    let (mut got, mut room) = (Vec::new(), vec![0; 100_000]);
    while !got.ends_with(b"base") {
        let read = stream.read(&mut room).await.unwrap();
        assert!(read > 0, "it ended after {} bytes", got.len());
        got.extend_from_slice(&room[..read]);
    }
    assert_eq!(got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4 + 3_000_004, got.len());
    assert!(get_again(&mut stream).await);
}

/// Whether the connection brings a further call.
async fn get_again<S: AsyncReadExt + AsyncWriteExt + Unpin>(stream: &mut S) -> bool {
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: here.example\r\n\r\n").await.unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    &first == b"HTTP/1.1 200 OK"
}

async fn shown(of: &Secured) -> Vec<u8> {
    let mut roots = of.authority.roots();
    roots.add(Authority::new("nobody").0.der().clone()).unwrap();
    let stream = dial(of.at, client(roots, &[], None)).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn new_certificate_is_used_and_invalid_one_ignored() {
    let of = secured(Limits::default(), None);
    let base = version(BASE).await;
    of.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let mut before = dial(of.at, client(of.authority.roots(), &[], None)).await.unwrap();
    get(&mut before).await;
    let first = shown(&of).await;
    write(of.folder.path(), &of.authority.sign("here.example"));
    until("the new certificate is shown", async || shown(&of).await != first).await;
    // Who was there before goes on.
    get(&mut before).await;

    let second = shown(&of).await;
    fs::write(of.folder.path().join("tls.crt"), "no certificate").unwrap();
    for _ in 0..100 {
        assert_eq!(shown(&of).await, second);
    }
    write(of.folder.path(), &of.authority.sign("here.example"));
    until("the third certificate is shown", async || shown(&of).await != second).await;
}

/// Files of each host, below a folder of its name.
fn of_each_host(folder: &Path) -> TlsFiles {
    let each = |file: &str| folder.join("{host}").join(file);
    TlsFiles { certificate: each("tls.crt"), key: each("tls.key"), client_ca: None }
}

fn write_of(folder: &Path, host: &str, pair: &(String, String)) {
    let below = folder.join(host);
    fs::create_dir_all(&below).unwrap();
    write(&below, pair);
}

#[tokio::test]
async fn each_host_is_shown_its_own_certificate_and_others_none() {
    let authority = Authority::new("of the proxy");
    let folder = tempfile::tempdir().unwrap();
    for host in ["a.example", "b.example"] {
        write_of(folder.path(), host, &authority.sign(host));
    }
    // What is no host's folder, or will be, holds nothing up.
    fs::write(folder.path().join("README"), "each host has a folder").unwrap();
    fs::create_dir(folder.path().join("c.example")).unwrap();
    let tls = Tls::load(of_each_host(folder.path())).unwrap();
    let running = start(Limits::default());
    let base = version(BASE).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let at = running.proxy.listen_tls(&std::net::TcpListener::bind("127.0.0.1:0").unwrap(), &tls).unwrap();
    let dial = async |name: &'static str| {
        let config = client(authority.roots(), &[], None);
        let stream = TcpStream::connect(at).await?;
        let mut stream =
            TlsConnector::from(Arc::new(config)).connect(name.try_into().unwrap(), stream).await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        get(&mut stream).await;
        Ok::<_, std::io::Error>(shown)
    };
    // That a certificate is of the host is what the caller checks.
    let (a, b) = (dial("a.example").await.unwrap(), dial("b.example").await.unwrap());
    assert_ne!(a, b);
    for other in ["c.example", "127.0.0.1"] {
        dial(other).await.unwrap_err();
    }
    // One comes, one changes and one goes.
    write_of(folder.path(), "c.example", &authority.sign("c.example"));
    until("the new host is known", async || dial("c.example").await.is_ok()).await;
    write_of(folder.path(), "a.example", &authority.sign("a.example"));
    until("the new certificate is shown", async || dial("a.example").await.unwrap() != a).await;
    fs::remove_dir_all(folder.path().join("b.example")).unwrap();
    until("the host is gone", async || dial("b.example").await.is_err()).await;
    dial("c.example").await.unwrap();
}

#[tokio::test]
async fn a_host_whose_files_are_of_no_use_holds_up_no_other_one() {
    let authority = Authority::new("of the proxy");
    let folder = tempfile::tempdir().unwrap();
    write_of(folder.path(), "a.example", &authority.sign("a.example"));
    // certbot names a second certificate of a host so.
    write_of(folder.path(), "a.example-0001", &authority.sign("a.example"));
    write_of(folder.path(), "b.example", &authority.sign("b.example"));
    let key_of_b = folder.path().join("b.example/tls.key");
    fs::remove_file(&key_of_b).unwrap();
    let tls = Tls::load(of_each_host(folder.path())).unwrap();
    let running = start(Limits::default());
    let base = version(BASE).await;
    running.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let at = running.proxy.listen_tls(&std::net::TcpListener::bind("127.0.0.1:0").unwrap(), &tls).unwrap();
    let dial = async |name: &'static str| {
        let config = client(authority.roots(), &[], None);
        let stream = TcpStream::connect(at).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name.try_into().unwrap(), stream).await?;
        Ok::<_, std::io::Error>(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    };
    let a = dial("a.example").await.unwrap();
    dial("b.example").await.unwrap_err();
    // It is mended while it serves.
    write_of(folder.path(), "b.example", &authority.sign("b.example"));
    until("the host is known", async || dial("b.example").await.is_ok()).await;
    let b = dial("b.example").await.unwrap();
    // A renewal that leaves one host without a key leaves that its certificate, and the others are renewed.
    fs::remove_file(&key_of_b).unwrap();
    write_of(folder.path(), "a.example", &authority.sign("a.example"));
    until("the new certificate is shown", async || dial("a.example").await.unwrap() != a).await;
    assert_eq!(dial("b.example").await.unwrap(), b);
}

#[tokio::test]
async fn what_is_wrong_with_the_files_of_a_host_is_said_by_name() {
    let authority = Authority::new("of the proxy");
    let folder = tempfile::tempdir().unwrap();
    let files = of_each_host(folder.path());
    let fault = |files: &TlsFiles| Tls::load(files.clone()).unwrap_err();
    assert!(matches!(fault(&files), TlsFault::NoHost(_)));
    let gone = TlsFiles { certificate: folder.path().join("gone/{host}.crt"), ..files.clone() };
    assert!(matches!(fault(&gone), TlsFault::Read(path, _) if path.ends_with("gone")));
    let half = TlsFiles { key: folder.path().join("tls.key"), ..files.clone() };
    let said = fault(&half).to_string();
    assert!(said.starts_with("{host} stands in one of ") && said.ends_with("or neither"), "{said}");
    write_of(folder.path(), "b.example", &authority.sign("another.example"));
    let said = fault(&files).to_string();
    assert!(said.contains("b.example/tls.crt is no certificate of b.example"), "{said}");
    fs::remove_file(folder.path().join("b.example/tls.key")).unwrap();
    assert!(matches!(fault(&files), TlsFault::Read(path, _) if path.ends_with("b.example/tls.key")));
    // Another host's are of use.
    write_of(folder.path(), "a.example", &authority.sign("a.example"));
    assert!(Tls::load(files.clone()).is_ok());
    assert!(files.check().is_ok());
    // In a file of its name.
    let named = folder.path().join("named");
    fs::create_dir(&named).unwrap();
    write(&named, &authority.sign("a.example"));
    for file in ["crt", "key"] {
        fs::rename(named.join(format!("tls.{file}")), named.join(format!("of-a.example.{file}"))).unwrap();
    }
    let [certificate, key] = ["of-{host}.crt", "of-{host}.key"].map(|file| named.join(file));
    assert!(Tls::load(TlsFiles { certificate, key, client_ca: None }).is_ok());
}

#[tokio::test]
async fn callers_without_trusted_certificate_are_rejected_where_required() {
    let (callers, strangers) = (Authority::new("of callers"), Authority::new("of strangers"));
    let of = secured(Limits::default(), Some(&callers));
    let base = version(BASE).await;
    of.proxy.apply(&table(1, base, base, 0)).await.unwrap();
    let identities = [
        None,
        Some(strangers.sign("a caller")),
        Some(callers.sign("a caller")),
        Some(callers.sign("another")),
    ];
    for (at, identity) in identities.into_iter().enumerate() {
        let config = client(of.authority.roots(), &[], identity);
        let served = async {
            // With TLS 1.3 the caller hears of it when it reads.
            let mut stream = dial(of.at, config).await?;
            stream.write_all(b"GET /a HTTP/1.1\r\nHost: here.example\r\n\r\n").await?;
            stream.read_u8().await
        };
        assert_eq!(served.await.is_ok(), at >= 2, "case {at}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let of = secured(Limits { handshake: SOON, ..Limits::default() }, None);
    let mut silent = TcpStream::connect(of.at).await.unwrap();
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap(), 0);
    let mut plain = TcpStream::connect(of.at).await.unwrap();
    plain.write_all(b"GET /a HTTP/1.1\r\nHost: here.example\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP/"), "{said:?}");
    until("no connection is left", async || of.proxy.connections() == 0).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_files_is_said_by_name() {
    let authority = Authority::new("of the proxy");
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let fault = |files: &TlsFiles| Tls::load(files.clone()).unwrap_err();
    assert!(matches!(fault(&files), TlsFault::Read(path, _) if path.ends_with("tls.crt")));
    let (certificate, key) = authority.sign("here.example");
    fs::write(&files.certificate, &key).unwrap();
    assert!(matches!(fault(&files), TlsFault::NoCertificate(_)));
    fs::write(&files.certificate, &certificate).unwrap();
    fs::write(&files.key, &certificate).unwrap();
    assert!(matches!(fault(&files), TlsFault::NoKey(_)));
    fs::write(&files.key, authority.sign("here.example").1).unwrap();
    assert!(matches!(fault(&files), TlsFault::Pair { .. }));
    fs::write(&files.key, vec![b'x'; 2_000_000]).unwrap();
    let large = fault(&files).to_string();
    assert!(large.contains("tls.key") && !large.contains("xxx"), "{large}");
    fs::write(&files.key, key).unwrap();
    assert!(Tls::load(files).is_ok());
}
