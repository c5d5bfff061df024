//! What the table in `docs/routers.md` says of the proxy is what it does, and what the code says of it.

use std::{fs, net::SocketAddr, sync::Arc};

use agent::{
    data_plane::table_form,
    state_machine::{
        ManagedService,
        table::{Served, Table},
    },
};
use bytes::Bytes;
use proxy::{
    Kind, Limits, Listen, Proxy, Tls, TlsFiles,
    control::{
        self,
        client::{Client, ClientError},
        control_handler::ControlHandler,
        form::{Applied, Status, TableNumber},
    },
};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener},
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;
use traffic::{
    HashFunction, MeasuredBy, RouterKind,
    desired::{DesiredConfig, Protocol},
};

#[path = "../shared/abilities.rs"]
mod tried;

/// A proxy that listens for each protocol at a port of its own, asked over its control socket as an agent asks it.
struct Embedded {
    client: Client,
    at: [SocketAddr; 4],
    roots: RootCertStore,
    serving: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Embedded {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["here.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let [named, keyed] = ["tls.crt", "tls.key"].map(|file| folder.path().join(file));
        fs::write(&named, certificate.pem()).unwrap();
        fs::write(&keyed, key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let tls = Tls::load(TlsFiles { certificate: named, key: keyed, client_ca: None }).unwrap();

        let proxy = Proxy::start(1, Limits::default()).unwrap();
        let [http, https, tcp] = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = [
            proxy.listen(&http).unwrap(),
            proxy.listen_tls(&https, &tls).unwrap(),
            proxy.listen_tcp(&tcp).unwrap(),
            proxy.listen_udp(&udp).unwrap(),
        ];
        let kinds = [Kind::Plain, Kind::Tls, Kind::Tcp, Kind::Udp];
        let listen = kinds.into_iter().zip(at).map(|(kind, address)| Listen { kind, address }).collect();
        let state = folder.path().join("proxy");
        fs::create_dir(&state).unwrap();
        let handler = Arc::new(ControlHandler::new(proxy, &state, listen, "0.0.0-test").unwrap());
        let socket = folder.path().join("proxy.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        handler.open();
        let serving = tokio::spawn(control::serve(listener, handler));
        Self { client: Client::new(socket), at, roots, serving, _folder: folder }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl tried::Router for Embedded {
    const HASH: HashFunction = HashFunction::Murmur2;

    fn at(&self, protocol: Protocol) -> SocketAddr {
        self.at[protocol as usize]
    }

    async fn does(&self, wanted: &DesiredConfig) -> Result<bool, String> {
        let number = TableNumber { epoch: wanted.number.epoch, generation: wanted.number.generation };
        let led = |service: &traffic::desired::Service| ManagedService {
            service: service.clone(),
            retry: None,
            proxy_protocol: None,
            drain: None,
            split: "r/s".to_owned(),
        };
        let services = wanted.services().iter().map(led).collect();
        let table = Table { number, served: Served { functions: Vec::new(), services } };
        let body = Bytes::from(serde_json::to_vec(&table_form(&table)).unwrap());
        match self.client.put::<Applied>("/table", body).await {
            Ok(applied) => {
                assert_eq!(applied.table, number);
                Ok(false)
            }
            Err(ClientError::Refused { refusal, .. }) => Err(refusal.error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn going_on(&self, service: &str, variation: &str) -> Option<u64> {
        let status: Status = self.client.get("/status").await.unwrap();
        let service = status.services.into_iter().find(|one| one.name == service)?;
        let of = service.variations.into_iter().find(|one| one.name == variation)?;
        Some(of.in_flight.into())
    }

    async fn over_tls(&self, at: SocketAddr, call: &str) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        let stream = TcpStream::connect(at).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect("here.example".try_into().unwrap(), stream).await.unwrap();
        stream.write_all(call.as_bytes()).await.unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).await.unwrap();
        String::from_utf8(came).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_can_do_what_the_page_and_the_code_say() {
    let found = tried::try_all(&Embedded::start()).await;
    let can = RouterKind::Embedded.abilities();
    assert_eq!((&*found.protocols, found.rule, found.routes), (can.protocols, can.rule, can.routes));
    assert_eq!(found.counts_connections, can.counts_connections);
    let sticky =
        [("cookie", can.sticky.cookie), ("header", can.sticky.header), ("address", can.sticky.address)];
    assert!(sticky.iter().all(|(by, can)| found.sticky.contains(by) == *can), "{found:?} {can:?}");
    // That it counts so is tried in the tests of the proxy.
    assert_eq!(can.measured, MeasuredBy::Counters);
    tried::check("the proxy", &found.cells("its counters, times in µs"));
}
