//! The forms of functions, as they are written.

use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

use agent::runtime::{Order, Running, Runtime};
use proxy::{Limits, Proxy};

use crate::{
    calls::{Answered, call, get, raw},
    world::{ProcessWorld, World, any_version, wait_until},
};

const GRACE: Duration = Duration::from_secs(10);

struct Started {
    world: ProcessWorld,
    runtime: Arc<dyn Runtime>,
    running: Running,
}

impl Started {
    async fn from(folder: &Path) -> Self {
        let world = ProcessWorld::new();
        let runtime = world.open();
        let mut order = Order::new(any_version(), folder.to_owned());
        order.health.give_up = Duration::from_mins(1);
        let running = runtime.start(&order).await.unwrap();
        Self { world, runtime, running }
    }

    async fn with(file: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), text).unwrap();
        Self::from(folder.path()).await
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> Answered {
        call(&self.running.target, method, path, body).await.unwrap()
    }

    async fn stop(self) {
        self.runtime.stop(&self.running.version, GRACE).await.unwrap();
        assert_eq!(self.world.left_behind(), [""; 0]);
    }
}

/// A folder of the functions that deployed agents have.
fn function(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fns").join(name)
}

#[test]
fn this_machine_has_a_runtime_for_each_form_of_function() {
    let world = ProcessWorld::new();
    let runtime = world.open();
    let here = runtime.runners();
    let missing: Vec<_> =
        ["binary", "nodejs", "program", "python"].into_iter().filter(|name| !here.contains(name)).collect();
    let lists = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let (name, has, lacks) = (runtime.name(), lists(&here), lists(&missing));
    let said = format!("runtime {name}: forms that this machine has: {has}; has not: {lacks}");
    // Past what is kept of tests that pass.
    writeln!(std::io::stderr(), "{said}").unwrap();
    assert!(missing.is_empty(), "{said}: tests/run installs them");
}

#[tokio::test]
async fn the_functions_of_deployed_agents_run_unchanged() {
    for (name, runner, body, says) in [
        ("sieve_base", "nodejs", "", "1229 primes below 10000\n"),
        ("sieve_new", "nodejs", "", "1229 primes below 10000\n"),
        ("greet_base", "python", "Ada", "Hello, Ada!\n"),
        ("greet_new", "python", "Ada", "Hello, Ada! Your name has 3 letters.\n"),
    ] {
        let started = Started::from(&function(name)).await;
        assert_eq!(started.running.runner, runner);
        let answered = started.call("POST", "/", body).await;
        assert_eq!((answered.status, answered.body.as_str()), (200, says), "{name}");
        assert_eq!(started.call("GET", "/", "").await.status, 200, "{name}");
        started.stop().await;
    }
    let started = Started::from(&function("sieve_broken")).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(started.call("GET", "/", "").await.status);
    }
    assert_eq!(statuses, [500, 500, 500, 500, 200]);
    started.stop().await;
}

#[tokio::test]
async fn a_function_for_node_has_what_functions_use_of_express() {
    let started = Started::with(
        "index.js",
        r#"
        module.exports = async (req, res) => {
          switch (req.path) {
            case "/echo":
              return res.json({
                method: req.method, path: req.path, query: req.query, params: req.params, body: req.body,
                type: req.get("Content-Length"),
              });
            case "/status": return res.status(201).set("X-A", "1").send("made");
            case "/bytes": return res.send(Buffer.from([104, 105]));
            case "/end": res.statusCode = 202; res.write("part,"); return res.end("whole");
            case "/sent": return res.sendStatus(404);
            case "/away": return res.redirect("/echo");
            case "/late": throw new Error("too late");
            case "/thrown": setTimeout(() => { throw new Error("out of hand"); }, 1); return;
          }
          res.end();
        };"#,
    )
    .await;
    let echo = started.call("POST", "/echo?a=1&b=2&b=3&__proto__=x", "a body").await;
    let said: serde_json::Value = serde_json::from_str(&echo.body).unwrap();
    assert_eq!(said["method"], "POST");
    assert_eq!(said["path"], "/echo");
    assert_eq!(said["query"]["a"], "1");
    assert_eq!(said["query"]["b"], serde_json::json!(["2", "3"]));
    assert_eq!((&said["body"], &said["type"]), (&"a body".into(), &"6".into()));
    assert!(echo.head.contains("content-type: application/json"), "{}", echo.head);

    let made = started.call("PUT", "/status", "").await;
    assert_eq!((made.status, made.body.as_str()), (201, "made"));
    assert!(made.head.contains("x-a: 1") && made.head.contains("content-type: text/html"), "{}", made.head);
    assert_eq!(started.call("GET", "/bytes", "").await.body, "hi");
    let end = started.call("GET", "/end", "").await;
    assert!(end.status == 202 && end.body.contains("whole"), "{end:?}");
    let sent = started.call("DELETE", "/sent", "").await;
    assert_eq!((sent.status, sent.body.as_str()), (404, "Not Found"));
    let away = started.call("GET", "/away", "").await;
    assert!(away.status == 302 && away.head.contains("location: /echo"), "{away:?}");
    let late = started.call("GET", "/late", "").await;
    assert_eq!((late.status, late.body.trim()), (500, "too late"));
    let _ = call(&started.running.target, "GET", "/thrown", "").await;
    wait_until("it is started again", async || {
        started.runtime.list().await.unwrap()[0].restarts.eq(&1).then_some(())
    })
    .await;
    started.stop().await;
}

#[tokio::test]
async fn a_function_for_python_may_take_headers_or_not_and_give_text_bytes_or_nothing() {
    let source = r#"
def fn(given, headers):
    if given is None:
        return None
    if given == "bytes":
        return b"\x00\x01"
    if given == "number":
        return 7
    return headers["X-Name"] + given
"#;
    let started = Started::with("fn.py", source).await;
    assert_eq!(started.call("GET", "/", "").await.body, "");
    assert_eq!(started.call("POST", "/", "bytes").await.body, "\0\u{1}");
    assert_eq!(started.call("PUT", "/", "number").await.body, "7");
    let chunked = "POST /x HTTP/1.1\r\nHost: x\r\nx-name: it is \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   3\r\nchu\r\n4\r\nnked\r\n0\r\n\r\n";
    assert_eq!(raw(&started.running.target, chunked).await.unwrap().body, "it is chunked");
    let failed = started.call("POST", "/", "no header").await;
    assert_eq!(failed.status, 500);
    started.stop().await;

    let started = Started::with("fn.py", "def fn(given):\n    return given\n").await;
    assert_eq!(started.call("POST", "/", "alone").await.body, "alone");
    started.stop().await;
}

#[tokio::test]
async fn a_binary_function_reads_a_body_and_writes_one() {
    let script =
        "read line; case $line in fail) echo partly; exit 4;; *) echo \"<$line>\"; echo logged >&2;; esac";
    let started = Started::with("fn.sh", script).await;
    assert_eq!(started.call("POST", "/", "a line\n").await.body, "<a line>\n");
    assert_eq!(started.call("GET", "/", "").await.body, "<>\n");
    let failed = started.call("POST", "/", "fail\n").await;
    assert_eq!((failed.status, failed.body.as_str()), (500, "fn.sh: exit status: 4\n"));
    let log = fs::read_to_string(started.world.run_folder(&started.running.version).join("log")).unwrap();
    assert!(log.contains("logged"), "{log}");
    started.stop().await;

    let large = "x".repeat(3_000_000);
    let started = Started::with("fn.sh", "#!/bin/cat").await;
    let answered = started.call("POST", "/", &large).await;
    assert_eq!(answered.body, "#!/bin/cat", "it says what reads it");
    started.stop().await;
    let started = Started::with("fn.sh", "cat").await;
    assert!(started.call("POST", "/", &large).await.body == large, "as long as it was");
    started.stop().await;
}

#[tokio::test]
async fn a_program_listens_where_it_is_told() {
    let source = "#!/usr/bin/env python3\nimport http.server, os\n\
        http.server.HTTPServer((os.environ['HOST'], int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n";
    let started = Started::with("run", source).await;
    assert!(started.call("GET", "/run", "").await.body.contains("http.server"));
    started.stop().await;
}

#[tokio::test]
async fn calls_that_run_end_before_the_function_does() {
    for (file, source) in [
        ("index.js", "module.exports = (req, res) => { setTimeout(() => res.send('done'), 1000); };"),
        ("fn.py", "import time\ndef fn(given, headers):\n    time.sleep(1)\n    return 'done'\n"),
        ("fn.sh", "sleep 1; printf done"),
    ] {
        let started = Started::with(file, source).await;
        let target = started.running.target.clone();
        // What opens after the call has nothing to do with it.
        let running = tokio::spawn(async move { get(&target, "/").await });
        // Its connection is there once the function holds one more file.
        let fds = format!("/proc/{}/fd", started.running.pid.unwrap());
        let before = fs::read_dir(&fds).unwrap().count();
        wait_until("the call has come", async || {
            (running.is_finished() || fs::read_dir(&fds).unwrap().count() > before).then_some(())
        })
        .await;
        started.stop().await;
        assert_eq!(running.await.unwrap().body, "done", "{file}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_and_no_call_on_it_is_lost_through_the_proxy() {
    let proxy = Proxy::start(1, Limits::default()).unwrap();
    let at = proxy.listen(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    for (generation, (file, source)) in [
        ("index.js", "module.exports = (req, res) => res.send('hello ' + req.body);"),
        ("fn.py", "def fn(given, headers):\n    return 'hello ' + given\n"),
        ("fn.sh", "printf 'hello '; cat"),
    ]
    .into_iter()
    .enumerate()
    {
        let started = Started::with(file, source).await;
        let target = started.running.target.to_string();
        let table = serde_json::json!({
            "generation": generation + 1,
            "services": [{"name": "a", "variations": [{"name": "base", "targets": [target]}]}],
        });
        proxy.apply(&serde_json::from_value(table).unwrap()).await.unwrap();
        for number in 0..50 {
            let answered = post_to(at, &number.to_string()).await;
            assert_eq!((answered.status, answered.body), (200, format!("hello {number}")), "{file}");
        }
        started.stop().await;
    }
}

async fn post_to(at: std::net::SocketAddr, body: &str) -> Answered {
    let length = body.len();
    let text =
        format!("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    raw(&proxy::live::Target::Tcp(at), &text).await.unwrap()
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let long = 64 * 1024 * 1024 + 1;
    for (file, source) in
        [("fn.py", "def fn(given, headers):\n    return 'taken'\n"), ("fn.sh", "echo taken")]
    {
        let started = Started::with(file, source).await;
        let head =
            format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {long}\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(&started.running.target, &head).await.unwrap().status, 413, "{file}");
        started.stop().await;
    }
}
