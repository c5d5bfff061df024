//! Hosts of services beside servers of the operator's, and paths within them; TLS.

use std::{fs, net::SocketAddr};

use router::RouterError;
use router::nginx::{Nginx, config::Certificate};
use traffic::desired::{Listen, Protocol, ServiceSpec};

use super::real::RealNginx;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    world::{
        backend::Backend,
        caller::Caller,
        place::{at, free_port},
        tls::Identity,
        wants::{service, wanted},
    },
};

async fn spec(
    name: &str,
    port: u16,
    protocol: Protocol,
    (host, path): (&str, Option<&str>),
) -> (ServiceSpec, [Backend; 2]) {
    let backends = Backend::start_all([&*format!("{name}-A"), &*format!("{name}-B")]).await;
    let mut spec = service(name, port, &backends, &[10_000, 0]);
    let hosts = Some(host.to_owned()).filter(|host| !host.is_empty()).into_iter().collect();
    spec.listens = vec![Listen { hosts, path: path.map(str::to_owned), ..Listen::new(port, protocol) }];
    (spec, backends)
}

async fn answered(at: SocketAddr, host: &str, path: &str) -> String {
    let answer = Caller::of_host(at, host).try_get(path, &[]).await.expect("it answers");
    if answer.status() == 200 { String::from_utf8(answer.body).unwrap() } else { answer.status().to_string() }
}

/// What is refused, and changes nothing.
async fn refused(
    router: &std::sync::Arc<dyn router::Router>,
    generation: u64,
    specs: &[&ServiceSpec],
) -> String {
    let Err(RouterError::Refused { said, .. }) = router.apply(&wanted(generation, specs)).await else {
        panic!("it is not refused");
    };
    said
}

impl RealNginx {
    /// A server of the operator's with this in it, read at the next start.
    fn serve(&self, servers: &str) {
        fs::write(self.folder.path().join("others.conf"), servers).unwrap();
    }

    fn part(&self, name: &str) -> String {
        self.folder.path().join("choirmaster").join(name).display().to_string()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_of_an_operators_host_is_served_once_their_server_includes_it() {
    let mut real = RealNginx::start().await;
    let port = free_port();
    let include = format!("include {};", real.part(&format!("shop.example-{port}.conf")));
    let server = |more: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port}; server_name shop.example; location / {{ return 200 theirs; }} {more} }}\n"
        )
    };
    real.serve(&server(""));
    real.start_again().await;
    let (api, _backends) = spec("api", port, Protocol::Http, ("shop.example", Some("/api"))).await;
    let router = real.open();
    let said = refused(&router, 1, &[&api]).await;
    assert_eq!(
        said,
        format!("the server of shop.example at port {port} doesn't include it: add `{include}` to it")
    );
    assert!(!said.contains('\n'));
    assert_eq!(answered(at(port), "shop.example", "/api").await, "theirs");
    // The file is there, so that the line can be added; it has nothing in it as long as nothing is led.
    real.serve(&server(&include));
    real.start_again().await;
    assert_eq!(answered(at(port), "shop.example", "/api").await, "theirs");
    done(&router, &wanted(2, &[&api])).await;
    for (path, says) in [("/api", "api-A"), ("/api/x", "api-A"), ("/apix", "theirs"), ("/", "theirs")] {
        assert_eq!(answered(at(port), "shop.example", path).await, says, "{path}");
    }
    let moved = done(&router, &wanted(3, &[&with_shares(&api, &[0, 10_000])])).await;
    assert!(!moved.was_reloaded);
    assert_eq!(answered(at(port), "shop.example", "/api").await, "api-B");
    assert_eq!(router.check(None).await.unwrap().refused, None);
    // Somebody takes the line out again.
    real.serve(&server(""));
    let checked = router.check(None).await.unwrap().refused.expect("nobody includes it");
    assert!(checked.contains(&include), "{checked}");
    // Changed by hand: seen when it is applied.
    real.serve(&server(&include));
    fs::write(real.part(&format!("shop.example-{port}.conf")), "").unwrap();
    done(&router, &wanted(4, &[&api])).await;
    real.start_again().await;
    assert_eq!(answered(at(port), "shop.example", "/api").await, "api-A");
    // And what the operator includes is there for ever.
    done(&router, &wanted(5, &[])).await;
    real.start_again().await;
    assert_eq!(answered(at(port), "shop.example", "/api").await, "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_in_the_server_of_another_host_is_none() {
    let mut real = RealNginx::start().await;
    let port = free_port();
    let (api, _backends) = spec("api", port, Protocol::Http, ("shop.example", Some("/api"))).await;
    let router = real.open();
    refused(&router, 1, &[&api]).await;
    let include = format!("include {};", real.part(&format!("shop.example-{port}.conf")));
    real.serve(&format!("server {{ listen 127.0.0.1:{port}; server_name other.example; {include} }}\n"));
    real.start_again().await;
    assert!(refused(&router, 2, &[&api]).await.contains(&include));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_led_at_a_port_of_the_operators_and_takes_nothing_of_theirs() {
    let mut real = RealNginx::start().await;
    let port = free_port();
    let server = |listen: &str, name: &str| {
        format!("server {{ listen {listen}; server_name {name}; location / {{ return 200 theirs; }} }}\n")
    };
    let (shop, _backends) = spec("shop", port, Protocol::Http, ("shop.example", None)).await;
    let router = real.open();
    let own = format!("127.0.0.1:{port}");
    for (generation, (servers, says)) in (1..).zip([
        (server(&own, "www.example"), "say default_server in the one that is to have that"),
        (server(&format!("{port} default_server"), "www.example"), "set nginx.addresses to the same"),
        (
            server(&format!("{own} default_server"), "www.example") + &server(&own, "shop.example"),
            "take that name out of it",
        ),
    ]) {
        real.serve(&servers);
        real.start_again().await;
        let said = refused(&router, generation, &[&shop]).await;
        assert!(said.contains(says), "{said}");
        assert_eq!(answered(at(port), "www.example", "/").await, "theirs");
    }
    real.serve(&server(&format!("{own} default_server"), "www.example"));
    real.start_again().await;
    done(&router, &wanted(9, &[&shop])).await;
    for (host, says) in [("shop.example", "shop-A"), ("www.example", "theirs"), ("other.example", "theirs")] {
        assert_eq!(answered(at(port), host, "/x").await, says, "{host}");
    }
    // Another server of theirs takes the name.
    real.serve(&(server(&format!("{own} default_server"), "www.example") + &server(&own, "shop.example")));
    let checked = router.check(None).await.unwrap().refused.expect("two have the name");
    assert!(checked.contains("conflicting server name \"shop.example\""), "{checked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_over_tls_find_the_certificate_of_their_host() {
    let real = RealNginx::start().await;
    let port = free_port();
    let folder = real.folder.path();
    let each = ["a.example", "b.example"].map(|host| Identity::of(&[host]));
    for (host, identity) in ["a.example", "b.example"].iter().zip(&each) {
        identity.write(&folder.join(format!("{host}.crt")), &folder.join(format!("{host}.key")));
    }
    let mut settings = real.settings();
    let of = |ending: &str| format!("{}/{{host}}.{ending}", folder.display());
    settings.layout.certificate = Some(Certificate::new(&of("crt"), &of("key")).unwrap());
    let router: std::sync::Arc<dyn router::Router> = std::sync::Arc::new(Nginx::new(settings));
    let (mut a, _a) = spec("a", port, Protocol::Https, ("a.example", None)).await;
    let (b, _b) = spec("b", port, Protocol::Https, ("b.example", None)).await;
    done(&router, &wanted(1, &[&a, &b])).await;
    for (host, identity, says) in [("a.example", &each[0], "a-A"), ("b.example", &each[1], "b-A")] {
        assert_eq!(identity.get(at(port), host, "/").await, says);
        assert_eq!(identity.get(at(port), host, "/field/x-forwarded-proto").await, "https");
    }
    // One that isn't there is named in one line, and nothing is loaded.
    a.listens[0].hosts = vec!["c.example".to_owned()];
    let said = refused(&router, 2, &[&a, &b]).await;
    assert!(said.contains("c.example.crt") && !said.contains('\n'), "{said}");
    assert_eq!(each[0].get(at(port), "a.example", "/").await, "a-A");
    assert_eq!(each[1].get(at(port), "b.example", "/").await, "b-A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_while_a_part_changes_leaves_what_nginx_starts_with() {
    let mut real = RealNginx::start().await;
    let port = free_port();
    let (api, _backends) = spec("api", port, Protocol::Http, ("shop.example", Some("/api"))).await;
    refused(&real.open(), 1, &[&api]).await;
    let part = real.part(&format!("shop.example-{port}.conf"));
    real.serve(&format!("server {{ listen 127.0.0.1:{port}; server_name shop.example; include {part}; }}\n"));
    real.start_again().await;
    done(&real.open(), &wanted(2, &[&api])).await;
    let (mut steps, mut generation) = (0, 3);
    loop {
        let dying = real.open_dying(steps).unwrap();
        let is_whole = dying.apply(&wanted(generation, &[])).await.is_ok();
        drop(dying);
        real.start_again().await;
        let router = real.open();
        done(&router, &wanted(generation + 1, &[])).await;
        assert_eq!(answered(at(port), "shop.example", "/api").await, "404", "killed after {steps} steps");
        done(&router, &wanted(generation + 2, &[&api])).await;
        assert_eq!(answered(at(port), "shop.example", "/api").await, "api-A", "killed after {steps} steps");
        (steps, generation) = (steps + 1, generation + 3);
        if is_whole {
            break;
        }
    }
}
