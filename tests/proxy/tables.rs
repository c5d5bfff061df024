//! Tables that can't be, and services that have a port of their own.

use std::{net::TcpListener, sync::Arc};

use proxy::{
    Kind, Limits, Listen, Proxy, TlsFiles,
    control::{
        self,
        client::{Client, ClientError},
        control_handler::ControlHandler,
        form::Applied,
    },
    form::TableForm,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::{
    http2_world::{call, connect, over, request},
    ports::{free_address, free_port},
    tls::{Authority, client, dial, write},
    world::{Peer, version},
};

const ONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const TWO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";

/// A proxy that takes calls on some sockets, and one of them with TLS.
struct Listening {
    handler: Arc<ControlHandler>,
    client: Client,
    plain: Listen,
    own: Listen,
    tls: Listen,
    metrics: Listen,
    authority: Authority,
    _folder: TempDir,
}

impl Listening {
    fn start() -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the proxy"));
        write(folder.path(), &authority.sign("here.example"));
        let files = TlsFiles {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
            client_ca: None,
        };
        let proxy = Proxy::start(2, Limits::default()).unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = |kind, address| Listen { kind, address };
        let plain = listen(Kind::Plain, proxy.listen(&free()).unwrap());
        let own = listen(Kind::Plain, proxy.listen(&free()).unwrap());
        let loaded = proxy::Tls::load(files).unwrap();
        let tls = listen(Kind::Tls, proxy.listen_tls(&free(), &loaded).unwrap());
        let metrics = listen(Kind::Metrics, free_address());
        let listens = vec![plain, own, tls, metrics];
        let handler = Arc::new(
            ControlHandler::new(proxy, &folder.path().join("state"), listens, "0.0.0-test").unwrap(),
        );
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        handler.open();
        tokio::spawn(control::serve(listener, Arc::clone(&handler)));
        Self { handler, client: Client::new(path), plain, own, tls, metrics, authority, _folder: folder }
    }

    async fn put(&self, table: &Value) -> Result<Applied, (u16, String)> {
        match self.client.put("/table", table.to_string().into()).await {
            Ok(applied) => Ok(applied),
            Err(ClientError::Refused { status, refusal }) => Err((status, refusal.error)),
            Err(error) => panic!("{error}"),
        }
    }

    /// What a call of this path that comes to a port is answered with.
    async fn at(&self, listen: Listen, path: &str) -> String {
        let mut caller = Peer::connect(listen.address).await;
        caller.call(format!("GET {path} HTTP/1.1\r\nHost: one.example\r\n\r\n")).await.1
    }
}

#[tokio::test]
async fn service_port_gets_calls_of_any_protocol_host_and_path() {
    let of = Listening::start();
    let (one, two) = (version(ONE).await.to_string(), version(TWO).await.to_string());
    let ports = [of.own.address.port(), of.tls.address.port()];
    let table = json!({"format": 2, "generation": 1, "services": [
        {"name": "one", "hosts": ["one.example"], "variations": [{"name": "b", "targets": [one]}]},
        {"name": "two", "ports": ports, "variations": [{"name": "b", "targets": [two]}]},
    ]});
    of.put(&table).await.unwrap();
    assert_eq!(of.at(of.plain, "/x").await, "one");
    for path in ["/x", "/one", "/two/x?y", "/"] {
        assert_eq!(of.at(of.own, path).await, "two", "{path}");
    }
    let over_http2 = connect(of.own.address).await;
    assert_eq!(call(&over_http2, request("GET", "/one"), "").await.unwrap().text(), "two");
    let stream = dial(of.tls.address, client(of.authority.roots(), &["h2"], None)).await.unwrap();
    assert_eq!(call(&over(stream).await, request("GET", "/one"), "").await.unwrap().text(), "two");
    // Its port is the only way to it.
    let mut caller = Peer::connect(of.plain.address).await;
    assert!(caller.call("GET /two HTTP/1.1\r\nHost: h\r\n\r\n").await.0.starts_with("HTTP/1.1 404 "));

    // Who doesn't know ports refuses a table that has any; one without is of the form that it knows.
    let mut form: TableForm = of.client.get("/table").await.unwrap();
    assert_eq!((form.format, &form.services[1].ports[..]), (2, &ports[..]));
    form.generation = 2;
    form.services.pop();
    of.put(&serde_json::to_value(&form).unwrap()).await.unwrap();
    assert_eq!(of.client.get::<TableForm>("/table").await.unwrap().format, 1);
    assert_eq!(of.at(of.own, "/x").await, "one");
}

#[tokio::test]
async fn a_table_opens_no_ports_and_two_services_share_none() {
    let of = Listening::start();
    let at = version(ONE).await.to_string();
    let service = |name: &str, ports: Value| json!({"name": name, "ports": ports, "variations": [{"name": "b", "targets": [at]}]});
    let own = of.own.address.port();
    let nobodys = free_port();
    for port in [nobodys, of.metrics.address.port()] {
        let table = json!({"generation": 1, "services": [service("one", json!([own, port]))]});
        let (status, why) = of.put(&table).await.unwrap_err();
        let said = format!(
            "service \"one\": on port {port} no calls are taken; a table opens no ports, and those of"
        );
        assert_eq!(status, 422);
        assert!(why.starts_with(&said) && why.contains(&own.to_string()), "{why}");
    }
    let both =
        json!({"generation": 1, "services": [service("one", json!([own])), service("two", json!([own]))]});
    assert_eq!(of.put(&both).await.unwrap_err(), (422, format!("port {own} leads to two services")));
    let zero = json!({"generation": 1, "services": [service("one", json!([0]))]});
    assert!(of.put(&zero).await.unwrap_err().1.contains("from 1 to 65535"));
    let none = json!({"generation": 1, "services": [service("one", json!([70_000]))]});
    assert!(of.put(&none).await.unwrap_err().1.starts_with("this is no table: "));
    assert_eq!(of.handler.proxy().table().generation(), 0);
}

/// What is wrong with a service, and what is said of it.
#[tokio::test]
async fn each_fault_of_a_table_is_refused_by_name_and_changes_nothing() {
    let of = Listening::start();
    let at = version(ONE).await.to_string();
    let two = json!([{"name": "base", "targets": [at]}, {"name": "new", "targets": [at]}]);
    let with = |keys: Value| {
        let mut service = json!({"name": "a", "variations": two, "shares": [9_000, 1_000]});
        for (key, value) in keys.as_object().unwrap() {
            service[key] = value.clone();
        }
        json!({"generation": 8, "services": [service]})
    };
    let target =
        |target: &str| with(json!({"variations": [{"name": "base", "targets": [target]}], "shares": null}));
    let named = |name: &str| with(json!({"name": name}));
    let cases = [
        (with(json!({"shares": [9_000, 999]})), "9999 hundredths of a percent"),
        (with(json!({"shares": [9_000, 1_001]})), "10001 hundredths of a percent"),
        (with(json!({"shares": [10_000]})), "there are 1 shares for 2 variations"),
        (with(json!({"shares": [5_000, 2_500, 2_500]})), "there are 3 shares for 2 variations"),
        (with(json!({"shares": null})), "name either `shares` or `runs`"),
        (with(json!({"runs": [[0, 10_000, 0]]})), "name either `shares` or `runs`"),
        (with(json!({"shares": null, "runs": [[0, 10_000, 2]]})), "service \"a\": "),
        (with(json!({"shares": null, "runs": [[0, 9_000, 0]]})), "service \"a\": "),
        (with(json!({"shares": null, "runs": [[0, 9_000, 0], [8_000, 10_000, 1]]})), "service \"a\": "),
        (with(json!({"variations": []})), "it has 0 variations"),
        (with(json!({"variations": [two[0], two[0]]})), "two variations are called \"base\""),
        (
            with(json!({"variations": [two[0], {"name": "new", "targets": []}]})),
            "variation \"new\" has no target",
        ),
        (target("nowhere"), "\"nowhere\" is no target: write an address with a port"),
        (target("unix:relative.sock"), "\"unix:relative.sock\" is no target"),
        (target("127.0.0.1"), "\"127.0.0.1\" is no target"),
        (
            with(json!({"header": {"name": "X-V", "values": {"on": "newer"}}})),
            "the header rule names \"newer\"",
        ),
        (with(json!({"header": {"name": "X V", "values": {}}})), "\"X V\" is no name of a header"),
        (with(json!({"sticky": {"cookie": "a=b"}})), "\"a=b\" is no name of a header, cookie or host"),
        (with(json!({"hosts": ["a b"]})), "\"a b\" is no name of a header, cookie or host"),
        (with(json!({"salt": "x".repeat(201)})), "`salt` and `split` have at most 200 bytes"),
        (with(json!({"retry": "always"})), "this is no table: unknown variant `always`"),
        (named("../etc"), "service \"../etc\": a name is 1 to 200 characters"),
        (named(""), "service \"\": a name is 1 to 200 characters"),
        (
            json!({"format": 4, "generation": 8}),
            "the table has format 4, and this proxy knows up to 3: update the proxy",
        ),
        (json!({"generation": -1}), "this is no table: "),
        (json!({"services": []}), "this is no table: missing field `generation`"),
        (
            json!({"generation": 8, "services": [
                {"name": "a", "variations": [two[0]]}, {"name": "a", "variations": [two[0]]},
            ]}),
            "two services are called \"a\"",
        ),
        (
            json!({"generation": 8, "services": [
                {"name": "a", "hosts": ["h"], "variations": [two[0]]}, {"name": "b", "hosts": ["H"], "variations": [two[0]]},
            ]}),
            "the host \"h\" leads to two services",
        ),
    ];
    for (table, expected) in cases {
        let (status, why) = of.put(&table).await.unwrap_err();
        assert_eq!(status, 422, "{table}: {why}");
        assert!(why.contains(expected), "{table}: {why}");
        assert_eq!(of.handler.proxy().table().generation(), 0);
    }
    of.put(&with(json!({}))).await.unwrap();
    assert_eq!(of.at(of.plain, "/a").await, "one");
}
