//! What can't be taken, each with the field and why.

use canary_releases::{Canary, Document, MAX_CONFIG_BYTES, read, translate, unknown_release};
use model::MAX_RELEASE_ID_LEN;
use serde_json::{Value, json};

use crate::{
    canary, checkout_2, release, shop,
    status::{both_2, two_services},
    with,
};

/// A place in a document, what stands there, and why that can't be taken.
type Row = (&'static str, Value, String);

/// Why a document is refused by itself.
fn refused(document: &Value) -> String {
    match read(document.to_string().as_bytes()) {
        Ok(found) => panic!("{found:?} is taken"),
        Err(fault) => fault.to_string(),
    }
}

/// A second service, a second part, and a version that differs in name alone.
pub(crate) fn larger_shop() -> Value {
    let mut of = with(
        shop(),
        "/spec/services/1",
        json!({"name": "pay", "path": "/api", "ports": [{"port": 8090, "protocol": "TCP"}]}),
    );
    for at in 0..2 {
        of = with(of, &format!("/spec/versions/{at}/targets/pay"), json!(["127.0.0.1:9201"]));
    }
    let targets = json!({"checkout": ["127.0.0.1:9101"], "pay": ["127.0.0.1:9201"]});
    with(of, "/spec/versions/2", json!({"version": 3, "targets": targets}))
}

/// Why a canary isn't one of that release.
fn unfit(document: &Value, of: &Value) -> String {
    translate(&canary(document), &release(of), MAX_RELEASE_ID_LEN).unwrap_err().to_string()
}

const SERVICE: &str = "/spec/services/0/service";
const PORTS: &str = "/spec/services/0/ports";
const PORT: &str = "/spec/services/0/ports/0/port";
const PROTOCOL: &str = "/spec/services/0/ports/0/protocol";
const CONFIG: &str = "/spec/services/0/ports/0/config";

/// What no canary may be, whatever its release is.
pub(crate) fn rows() -> Vec<Row> {
    let name = "`metadata.name`: it has 1 to 48 letters, digits and . _ ~ -";
    let path = "`spec.path`: \"api\" is no path of whole segments, as in /api; / is the release itself";
    let text = "`spec.config`: it is text: put it in quotes, or behind |";
    let none = "`spec.services[0].ports[0].config.weight`: there is none: write 0 to 100";
    let weight = |given: i64| {
        format!("`spec.services[0].ports[0].config.weight`: {given} is no weight: it is from 0 to 100")
    };
    let port = json!({"port": 8080, "config": {"weight": 10}});
    vec![
        ("/metadata/name", json!(""), name.to_owned()),
        ("/metadata/name", json!("a b"), name.to_owned()),
        ("/metadata/name", json!(".."), name.to_owned()),
        ("/metadata/name", json!("x".repeat(49)), name.to_owned()),
        ("/metadata/name", json!("a\n"), name.to_owned()),
        (
            "/metadata/name",
            json!("folder"),
            "`metadata.name`: calls about canaries name the watched folder so: take another name".to_owned(),
        ),
        (
            "/spec/release",
            json!("a b"),
            "`spec.release`: \"a b\" is no name: write 1 to 63 letters, digits and . _ -, of which the first is a letter or digit".to_owned(),
        ),
        ("/spec/path", json!("api"), path.to_owned()),
        ("/spec/config", json!({"replicas": 2}), text.to_owned()),
        ("/spec/config", json!(2), text.to_owned()),
        (
            "/spec/config",
            json!("a\u{1b}[31m"),
            "`spec.config`: it has no control characters but line breaks and tabs".to_owned(),
        ),
        (
            "/spec/config",
            json!("x".repeat(MAX_CONFIG_BYTES + 1)),
            "`spec.config`: it has at most 32768 bytes, this one has 32769".to_owned(),
        ),
        (
            "/spec/services",
            json!([]),
            "`spec.services`: without a service there is nothing to share: name one".to_owned(),
        ),
        (
            "/spec/services/1",
            json!({"service": "checkout", "ports": [port]}),
            "`spec.services[1].service`: service \"checkout\" is named twice".to_owned(),
        ),
        (
            "/spec/services",
            json!(vec![json!({"service": "checkout", "ports": [port]}); 65]),
            "`spec.services`: a canary has at most 64 services".to_owned(),
        ),
        (
            PORTS,
            json!([]),
            "`spec.services[0].ports`: a service has ports whose calls are shared: name one".to_owned(),
        ),
        (PORTS, json!(vec![port.clone(); 17]), "`spec.services[0].ports`: a service has at most 16 ports".to_owned()),
        (
            PORTS,
            json!([port, port]),
            "`spec.services[0].ports[1].port`: port 8080 is named twice".to_owned(),
        ),
        (CONFIG, json!({}), none.to_owned()),
        (CONFIG, json!({"weight": null}), none.to_owned()),
        (CONFIG, json!({"weight": 101}), weight(101)),
        (CONFIG, json!({"weight": -1}), weight(-1)),
        (CONFIG, json!({"weight": 266}), weight(266)),
        (
            "/spec/resources",
            json!({"requests": {"cpu": "500m"}}),
            "`spec.resources.requests`: nothing is set aside for anybody here: write what it may use at most as limits".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"claims": []}),
            "`spec.resources.claims`: nothing here holds it: only limits of cpu and memory are held".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"limits": "500m"}),
            "`spec.resources.limits`: it is a mapping, as in {cpu: 500m, memory: 128Mi}".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"limits": {"ephemeral-storage": "1Gi"}}),
            "`spec.resources.limits.ephemeral-storage`: no runtime holds it: only cpu and memory are held".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"limits": {"cpu": "5m"}}),
            "`spec.resources.limits.cpu`: \"5m\" can't be held: write whole hundredths of a processor, from 10m to 1000, as in 500m or 1.5"
                .to_owned(),
        ),
        (
            "/spec/resources",
            json!({"limits": {"memory": 4096}}),
            "`spec.resources.limits.memory`: \"4096\" can't be held: write whole bytes from 1Mi to 64Ti, as in 128Mi or 1G".to_owned(),
        ),
        (
            "/spec/transition",
            json!("adopted"),
            "`spec.transition`: it is Adopted or Deprecated, or left out".to_owned(),
        ),
    ]
}

#[test]
fn what_cant_be_taken_is_named() {
    for (place, value, why) in rows() {
        assert_eq!(refused(&with(checkout_2(10), place, value)), why);
    }
}

#[test]
fn what_its_release_does_not_have_is_named() {
    let service =
        |name: &str, why: &str| (SERVICE, json!(name), format!("`spec.services[0].service`: {why}"));
    let version = |number: i32, why: &str| ("/spec/version", json!(number), format!("`spec.version`: {why}"));
    let unknown = "service checkout has no port 9090; it has 8080";
    let rows = [
        version(7, "release shop has no version 7; it has 1, 2, 3"),
        version(-1, "release shop has no version -1; it has 1, 2, 3"),
        version(1, "version 1 of shop serves already, at the same targets: register another one"),
        version(3, "version 3 of shop has the targets of version 1, which serves: register another one"),
        (
            "/spec/path",
            json!("/other"),
            "`spec.path`: release shop has nothing at \"/other\"; it has /, /api".to_owned(),
        ),
        service("chekout", "release shop has no service \"chekout\"; did you mean checkout?"),
        service("", "release shop has no service \"\"; it has checkout"),
        service("a\u{1b}b", "release shop has no service \"a\\u{1b}b\"; it has checkout"),
        service("pay", "service pay of shop is at /api, and path says /"),
        (PORT, json!(9090), format!("`spec.services[0].ports[0].port`: {unknown}")),
        (
            PORT,
            json!(8080 + 65536),
            format!("`spec.services[0].ports[0].port`: {}", unknown.replace("9090", "73616")),
        ),
        (
            PROTOCOL,
            json!("TCP"),
            "`spec.services[0].ports[0].protocol`: port 8080 of checkout is HTTP".to_owned(),
        ),
    ];
    for (place, value, why) in rows {
        assert_eq!(unfit(&with(checkout_2(10), place, value), &larger_shop()), why);
    }
    let nowhere = unknown_release(&canary(&checkout_2(10))).to_string();
    assert_eq!(nowhere, "`spec.release`: there is no release \"shop\": register it with kind: Release");
}

#[test]
fn a_tenants_name_has_less_room() {
    let named = |name: &str| canary(&with(checkout_2(10), "/metadata/name", json!(name)));
    let of = release(&shop());
    assert_eq!(translate(&named("checkout-2"), &of, 10).unwrap().id.as_str(), "checkout-2");
    let why = translate(&named("checkout-22"), &of, 10).unwrap_err().to_string();
    assert_eq!(why, "`metadata.name`: it has 1 to 10 letters, digits and . _ ~ -");
}

#[test]
fn what_can_be_left_out_may_be() {
    let full = canary(&checkout_2(10));
    let mut short = checkout_2(10);
    short["spec"].as_object_mut().unwrap().remove("path");
    assert_eq!(canary(&short), full);
    let plain = with(short, PROTOCOL, json!(""));
    let Canary { name, spec, .. } = canary(&plain);
    assert_eq!((name.as_str(), spec.path.as_str()), ("checkout-2", "/"));
    let text = |document: &Value| translate(&canary(document), &release(&shop()), 48).unwrap().text;
    assert!(text(&plain).contains(r#"ports: [{"port":8080,"protocol":"HTTP"}]"#));
    for config in [json!(null), json!("")] {
        let without = canary(&with(checkout_2(10), "/spec/config", config));
        assert_eq!(without.spec.config, json!(""));
    }
}

/// What can't be registered as a release.
pub(crate) fn release_rows() -> Vec<Row> {
    let name = "\"a b\" is no name: write 1 to 63 letters, digits and . _ -, of which the first is a letter or digit";
    let target = "\"nowhere\" is no target: write a host and a port from 1 to 65535, as in 127.0.0.1:9000, [::1]:9000 or backend.example:9000";
    let label =
        "`spec.routers`: a label has a key and a value, each of at most 200 bytes without control characters";
    let mixed = json!([{"port": 80, "protocol": "HTTP"}, {"port": 81, "protocol": "TCP"}]);
    let twice = json!([{"port": 80}, {"port": 80}]);
    let tls = |word: Value, protocol: &str| json!([{"port": 443, "protocol": protocol, "tls": word}]);
    let of_tls = |why: &str| format!("`spec.services[0].ports[0].tls`: {why}");
    let targets = "/spec/versions/0/targets";
    let labels: serde_json::Map<String, Value> = (0..33).map(|at| (format!("k{at}"), json!("v"))).collect();
    vec![
        ("/metadata/name", json!("a b"), format!("`metadata.name`: {name}")),
        ("/spec/name", json!("other"), "`spec.name`: metadata.name says it: leave it out".to_owned()),
        ("/spec/routers", json!({"env": ""}), label.to_owned()),
        ("/spec/routers", json!({" ": "prod"}), label.to_owned()),
        ("/spec/routers", json!({"env": "x".repeat(201)}), label.to_owned()),
        (
            "/spec/routers",
            json!({"env": "a\u{7}"}),
            label.to_owned(),
        ),
        ("/spec/routers", json!(labels), "`spec.routers`: at most 32 labels".to_owned()),
        ("/spec/services", json!([]), "`spec.services`: a release has 1 to 64 services".to_owned()),
        ("/spec/services/0/name", json!("a b"), format!("`spec.services[0].name`: {name}")),
        (
            "/spec/services/1",
            json!({"name": "checkout", "ports": [{"port": 81}]}),
            "`spec.services[1].name`: there are two services \"checkout\"".to_owned(),
        ),
        (
            "/spec/services",
            json!([{"name": "checkout", "ports": [{"port": 80}, {"port": 81}]}, {"name": "checkout.81", "ports": [{"port": 82}]}]),
            "`spec.services[1].name`: service \"checkout.81\" is led as \"checkout.81\", and so is port 81 of service \"checkout\": call one of them \
             otherwise"
                .to_owned(),
        ),
        (
            "/spec/services/0",
            json!({"name": "x".repeat(61), "ports": [{"port": 80}, {"port": 81}]}),
            format!(
                "`spec.services[0].name`: port 80 of service \"{0}…\" is led as \"{0}…\", and such a name has at most 63 letters, digits and . _ -: call \
                 the service otherwise",
                "x".repeat(60)
            ),
        ),
        (
            "/spec/services/0/path",
            json!("/a/"),
            "`spec.services[0].path`: \"/a/\" is no path of whole segments, as in /api; / is the release itself".to_owned(),
        ),
        (
            "/spec/services/0/ports",
            json!([]),
            "`spec.services[0].ports`: a service has ports whose calls are shared: name one".to_owned(),
        ),
        (
            "/spec/services/0/ports",
            twice,
            "`spec.services[0].ports[1].port`: a port is from 1 to 65535, and named once".to_owned(),
        ),
        (
            "/spec/services/0/ports/0/protocol",
            json!("SCTP"),
            "`spec.services[0].ports[0].protocol`: it is HTTP, HTTPS, TCP or UDP".to_owned(),
        ),
        (
            "/spec/services/0/ports",
            mixed,
            "`spec.services[0].ports`: the ports of a service are all of HTTP and HTTPS, all of TCP, or all of UDP: make services of them".to_owned(),
        ),
        ("/spec/services/0/ports", tls(json!("open"), "HTTPS"), of_tls("it is certificate or pass")),
        ("/spec/services/0/ports", tls(json!("pass"), "TCP"), of_tls("that is of HTTPS alone")),
        (
            "/spec/services/0/ports",
            with(tls(json!("pass"), "HTTPS"), "/0/path", json!("/api")),
            of_tls("nobody sees the paths of calls that pass unopened: leave path out"),
        ),
        (
            "/spec/services/0/ports",
            with(tls(json!("pass"), "HTTPS"), "/1", json!({"port": 8080})),
            "`spec.services[0].ports`: TLS passes at all ports of a service or at none: make services of them".to_owned(),
        ),
        (
            "/spec/services/0/drain",
            json!("soon"),
            "`spec.services[0].drain`: it is from 0s to 30d, in whole seconds, as in 1h".to_owned(),
        ),
        (
            "/spec/services/0/drain",
            json!("1h"),
            "`spec.services[0].drain`: calls of HTTP end by themselves: leave it out".to_owned(),
        ),
        (
            "/spec/services/0/proxyProtocol",
            json!("v3"),
            "`spec.services[0].proxyProtocol`: it is v1 or v2".to_owned(),
        ),
        (
            "/spec/services/0",
            json!({"name": "checkout", "ports": [{"port": 53, "protocol": "UDP"}], "proxyProtocol": "v1"}),
            "`spec.services[0].proxyProtocol`: no header goes in front of datagrams: leave it out".to_owned(),
        ),
        ("/spec/versions", json!([]), "`spec.versions`: a release has 1 to 100 versions".to_owned()),
        (
            "/spec/versions/1/version",
            json!(0),
            "`spec.versions[1].version`: 0 is no version: they count from 1".to_owned(),
        ),
        (
            "/spec/versions/0/version",
            json!(2),
            "`spec.versions[1].version`: there are two versions 2".to_owned(),
        ),
        ("/spec/version", json!(3), "`spec.version`: release shop has no version 3; it has 1, 2".to_owned()),
        (
            targets,
            json!({}),
            "`spec.versions[0].targets.checkout`: version 1 of service checkout has no targets: name at least one".to_owned(),
        ),
        (
            targets,
            json!({"checkout": []}),
            "`spec.versions[0].targets.checkout`: version 1 of service checkout has no targets: name at least one".to_owned(),
        ),
        (
            targets,
            json!({"checkout": ["127.0.0.1:9101"], "chekout": []}),
            "`spec.versions[0].targets.chekout`: release shop has no service \"chekout\"; did you mean checkout?".to_owned(),
        ),
        (
            targets,
            json!({"checkout": ["127.0.0.1:9101", "nowhere"]}),
            format!("`spec.versions[0].targets.checkout[1]`: {target}"),
        ),
        (
            targets,
            json!({"checkout": ["127.0.0.1:9101", "127.0.0.1:9101"]}),
            "`spec.versions[0].targets.checkout[1]`: 127.0.0.1:9101 is named twice".to_owned(),
        ),
        (
            targets,
            json!({"checkout": vec!["127.0.0.1:9101"; 65]}),
            "`spec.versions[0].targets.checkout`: at most 64 of them".to_owned(),
        ),
        (
            "/spec/versions/0/run",
            json!({"checkout": {"path": "v1"}}),
            "`spec.versions[0].run.checkout`: it has targets as well: leave one of the two out".to_owned(),
        ),
        (
            "/spec/versions/0",
            json!({"version": 1}),
            "`spec.versions[0].targets.checkout`: version 1 of service checkout has no targets: name at least one".to_owned(),
        ),
        (
            "/spec/versions/0",
            json!({"version": 1, "run": {"chekout": {"path": "v1"}}}),
            "`spec.versions[0].run.chekout`: release shop has no service \"chekout\"; did you mean checkout?".to_owned(),
        ),
        (
            "/spec/versions/0",
            json!({"version": 1, "run": {"checkout": {"path": "../v1"}}}),
            "`spec.versions[0].run.checkout.path`: the name \"../v1\" leaves its folder: use relative names with forward slashes"
                .to_owned(),
        ),
        (
            "/spec/versions/0",
            json!({"version": 1, "run": {"checkout": {"path": "v1", "env": "nodejs"}}}),
            "`spec.versions[0].run.checkout.env`: it is program or image, which take calls at $HOST:$PORT".to_owned(),
        ),
        (
            "/spec/versions/0",
            json!({"version": 1, "run": {"checkout": {"path": "v1", "archive": "sha256:0"}}}),
            "`spec.versions[0].run.checkout.archive`: it is SHA-256 in 64 hexadecimal digits, in small letters".to_owned(),
        ),
        (
            "/spec/config",
            json!("\u{0}"),
            "`spec.config`: it has no control characters but line breaks and tabs".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"requests": {"cpu": "500m"}}),
            "`spec.resources.requests`: nothing is set aside for anybody here: write what it may use at most as limits".to_owned(),
        ),
        (
            "/spec/resources",
            json!({"limits": {"cpu": "500m"}}),
            "`spec.resources`: no version of it is started, so nothing here limits them: leave it out".to_owned(),
        ),
    ]
}

#[test]
fn a_release_that_cant_be_registered_is_told_why() {
    for (place, value, why) in release_rows() {
        assert_eq!(refused(&with(shop(), place, value)), why);
    }
    assert!(matches!(read(shop().to_string().as_bytes()), Ok(Document::Release(_))));
}

#[test]
fn what_several_services_cant_be_together_is_named() {
    let rows = [
        (
            "/spec/services/1/service",
            json!("chekout"),
            "`spec.services[1].service`: release shop has no service \"chekout\"; did you mean checkout?",
        ),
        (
            "/spec/services/1/ports/0/port",
            json!(1),
            "`spec.services[1].ports[0].port`: service pay has no port 1; it has 8090",
        ),
        (
            "/spec/services/1/ports/0/protocol",
            json!("UDP"),
            "`spec.services[1].ports[0].protocol`: port 8090 of pay is TCP",
        ),
    ];
    for (place, value, why) in rows {
        assert_eq!(unfit(&with(both_2([10, 30, 5]), place, value), &two_services()), why);
    }
    // One of them stays as it is.
    let same = with(two_services(), "/spec/versions/1/targets/pay", json!(["127.0.0.1:9201"]));
    assert_eq!(
        unfit(&both_2([10, 30, 5]), &same),
        "`spec.services[1].service`: version 2 of pay has the targets of version 1, which serves: leave it out"
    );
    // Three ports, of which one isn't named: it has what the others have, where these have one weight.
    let three = with(two_services(), "/spec/services/0/ports/2", json!({"port": 9090, "protocol": "HTTP"}));
    assert_eq!(
        unfit(&both_2([10, 30, 5]), &three),
        "`spec.services[0].ports`: port 9090 of checkout isn't named, and those that are have different weights: name it"
    );
    let fits = translate(&canary(&both_2([10, 10, 5])), &release(&three), MAX_RELEASE_ID_LEN).unwrap();
    assert!(fits.text.contains("\"checkout.9090\""), "{}", fits.text);
    // Sixteen ports each are more than a strategy has room for.
    let ports =
        |first: u16| -> Vec<Value> { (first..first + 16).map(|port| json!({"port": port})).collect() };
    let (mut of, mut document) = (shop(), checkout_2(10));
    for at in 0..5_u16 {
        let name = format!("s{at}");
        let service = json!({"name": name, "ports": ports(1_000 + 16 * at)});
        of = with(of, &format!("/spec/services/{at}"), service);
        let port = json!({"port": 1_000 + 16 * at, "config": {"weight": 10}});
        let asked = json!({"service": name, "ports": [port]});
        document = with(document, &format!("/spec/services/{at}"), asked);
    }
    for version in 0..2 {
        let targets: serde_json::Map<String, Value> =
            (0..5).map(|at| (format!("s{at}"), json!([format!("127.0.0.1:9{version}0{at}")]))).collect();
        of = with(of, &format!("/spec/versions/{version}/targets"), json!(targets));
    }
    assert_eq!(
        unfit(&document, &of),
        "`spec.services`: they have 80 ports together, and at most 64 are shared at once"
    );
}
