//! Versions that are below a path of an address that others have too.

use proxy::{Limits, live::Target};
use serde_json::json;

use crate::{
    http2_world::{call, connect, echo, request},
    world::{Scripted, ok, start, table_of},
};

#[test]
fn a_target_names_an_address_a_path_of_one_or_a_socket() {
    for good in
        ["127.0.0.1:9000", "[::1]:9000", "unix:/run/a.sock", "127.0.0.1:8000/greet1", "[::1]:8000/a/b%20c"]
    {
        assert_eq!(good.parse::<Target>().unwrap().to_string(), good);
    }
    assert_eq!("127.0.0.1:8000/a/b".parse::<Target>().unwrap().path(), "/a/b");
    assert_eq!("127.0.0.1:8000".parse::<Target>().unwrap().path(), "");
    let long = format!("127.0.0.1:8000/{}", "a".repeat(200));
    for bad in [
        "127.0.0.1",
        "localhost:9000",
        "unix:a",
        "127.0.0.1:8000/",
        "127.0.0.1:8000/a/",
        "127.0.0.1:8000//a",
        "127.0.0.1:8000/a/../b",
        "127.0.0.1:8000/a?b",
        "127.0.0.1:8000/a b",
        "127.0.0.1:8000/a\r\nX: y",
        "127.0.0.1:8000/a#b",
        "127.0.0.1:8000/ä",
        "/a",
        &long,
    ] {
        let error = bad.parse::<Target>().unwrap_err().to_string();
        assert!(error.contains("is no target") && error.contains("127.0.0.1:8000/name"), "{bad}: {error}");
    }
}

/// What callers ask for, and what a version gets of it that is below `/fns/one`.
const PATHS: [(&str, &str); 6] = [
    ("/a", "/fns/one"),
    ("/a?b=/c", "/fns/one?b=/c"),
    ("/a/", "/fns/one"),
    ("/a/?b", "/fns/one?b"),
    ("/a/deep/er?b", "/fns/one/deep/er?b"),
    ("/a//b", "/fns/one//b"),
];

#[tokio::test]
async fn a_version_below_a_path_gets_that_path_before_the_calls() {
    let running = start(Limits::default());
    let base = Scripted::new().await;
    let target = format!("{}/fns/one", base.target());
    running.serve(json!({"variations": [{"name": "base", "targets": [target]}]})).await;
    let mut caller = running.caller().await;
    let mut version = None;
    for (asked, got) in PATHS {
        caller.send(format!("POST {asked} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")).await;
        let version = match &mut version {
            Some(version) => version,
            none => none.insert(base.accept().await),
        };
        let head = version.head().await;
        assert!(head.starts_with(&format!("POST {got} HTTP/1.1\r\nHost: h\r\n")), "{head}");
        assert!(head.contains("\r\nX-Forwarded-Prefix: /a\r\n"), "{head}");
        assert_eq!(version.bytes(4).await, "body");
        version.send(ok("done")).await;
        assert_eq!(caller.answer().await.1, "done");
    }
}

#[tokio::test]
async fn a_version_below_a_path_gets_calls_over_http2_alike() {
    let running = start(Limits::default());
    let target = format!("{}/fns/one", echo().await);
    running.serve(json!({"variations": [{"name": "base", "targets": [target]}]})).await;
    let caller = connect(running.at).await;
    for (asked, got) in PATHS {
        let answer = call(&caller, request("GET", asked), "").await.unwrap();
        assert!(answer.text().starts_with(&format!("GET {got} HTTP/1.1\r\n")), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_call_that_is_repeated_goes_below_the_path_of_the_version_that_gets_it() {
    let running = start(Limits::default());
    let (base, new) = (Scripted::new().await, Scripted::new().await);
    let [below, plain] = [format!("{}/one", base.target()), base.target()];
    for (generation, of_base, of_new, first, second) in [
        (1, below, format!("{}/two", new.target()), "/two/x", "/one/x"),
        (2, plain, format!("{}/three", new.target()), "/three/x", "/x"),
    ] {
        let service = json!({
            "variations": [{"name": "base", "targets": [of_base]}, {"name": "new", "targets": [of_new]}],
            "shares": [0, 10_000],
        });
        running.proxy.apply(&table_of(generation, service)).await.unwrap();
        let mut caller = running.caller().await;
        caller.send("GET /a/x HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut failing = new.accept().await;
        let head = failing.head().await;
        assert!(head.starts_with(&format!("GET {first} HTTP/1.1\r\n")), "{head}");
        failing.send("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").await;
        let mut stable = base.accept().await;
        let head = stable.head().await;
        assert!(head.starts_with(&format!("GET {second} HTTP/1.1\r\n")), "{head}");
        stable.send(ok("base")).await;
        assert_eq!(caller.answer().await.1, "base");
    }
}
