//! What an agent tells the manager of its router while a service is released: shares as wanted and as read back, calls of each variation,
//! and targets as their checks find them. With a real proxy beside it, and targets of this test.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::{run, runtime::process::cgroup::Cgroups, settings::Runtimes};
use proxy::{
    Kind, Limits, Listen, Proxy,
    control::{self, control_handler::ControlHandler},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener},
    sync::oneshot,
    task::JoinHandle,
};

use crate::{
    drive::settings,
    ports::free_port,
    scripted::{Asked, Reply, Server},
    world::wait_until,
};

/// Answers every call until it is dropped, or ends the connection while it is away.
struct Backend {
    port: u16,
    is_away: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Backend {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_away = Arc::<AtomicBool>::default();
        let away = Arc::clone(&is_away);
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let away = Arc::clone(&away);
                tokio::spawn(async move {
                    let mut room = [0; 4096];
                    while let Ok(1..) = stream.read(&mut room).await {
                        if away.load(Ordering::Relaxed) {
                            return;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, is_away, serving }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Three variations, the second with a target of which nobody answers.
fn offer(port: u16, a: &Backend, b: &Backend, c: &Backend, nobody: u16) -> String {
    let health = "health: {path: /ready, interval: 100ms, timeout: 1s, healthy_after: 1, unhealthy_after: 1}";
    format!(
        "id: r1\nname: r1\nservices:\n  - name: shop\n    ports: [{{port: {port}}}]\n    variations:\n      - {{name: A, targets: \
         [\"localhost:{}\"]}}\n      - {{name: B, targets: [\"127.0.0.1:{}\", \"127.0.0.1:{nobody}\"], {health}}}\n      - {{name: C, \
         targets: [\"127.0.0.1:{}\"]}}\nstages:\n  - name: a half\n    type: WaitForSignal\n    shares: {{A: 50, B: 25, C: 25}}\n    \
         metrics_conditions: []\n    end_conditions: [{{name: minDuration, threshold: 1h}}]\n    end_action: {{onSuccess: rollout, \
         onFailure: rollback}}\n",
        a.port, b.port, c.port
    )
}

/// A manager that has one offer, and hears what routers do.
fn manager(offer: String) -> (Server, Arc<Mutex<Option<Value>>>) {
    let told = Arc::<Mutex<Option<Value>>>::default();
    let last = Arc::clone(&told);
    let server = Server::start(move |_, asked: &Asked| {
        let path = asked.target.split('?').next().unwrap_or_default();
        match path {
            "/poll" => Reply::new(200, r#"{"id":"a1","new_release":"r1","features":["routers"]}"#),
            "/release" => Reply::new(200, offer.clone()),
            "/traffic" => {
                *last.lock().unwrap() = Some(asked.json());
                Reply::new(200, r#"{"orders":[]}"#)
            }
            "/end_stage" => Reply::new(200, r#"{"end_stage":false}"#),
            _ => Reply::new(200, ""),
        }
    });
    (server, told)
}

/// What was told of the service last, by `reads`, as soon as that gives something.
async fn told_of<T>(
    what: &str,
    told: &Mutex<Option<Value>>,
    mut reads: impl FnMut(&Value) -> Option<T>,
) -> T {
    wait_until(what, async || {
        let told = told.lock().unwrap().clone()?;
        reads(told["services"].as_array()?.first()?)
    })
    .await
}

/// Of each variation, in order.
fn each(service: &Value, field: &str) -> Vec<Value> {
    let variations = service["variations"].as_array().into_iter().flatten();
    variations.map(|variation| variation[field].clone()).collect()
}

async fn call(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn shares_calls_and_targets_of_each_variation_are_told_as_they_are() {
    const CALLS: u64 = 200;
    let root = tempfile::Builder::new().prefix("told").tempdir().unwrap();
    let proxy = Proxy::start(1, Limits::default()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.listen(&listener).unwrap();
    let (port, listen) = (address.port(), vec![Listen { kind: Kind::Plain, address }]);
    let state = root.path().join("proxy");
    fs::create_dir(&state).unwrap();
    let handler = Arc::new(ControlHandler::new(proxy, &state, listen, "0.0.0-test").unwrap());
    let socket = UnixListener::bind(root.path().join("proxy.sock")).unwrap();
    handler.open();
    let serving = tokio::spawn(control::serve(socket, Arc::clone(&handler)));

    let (a, b, c) = (Backend::start().await, Backend::start().await, Backend::start().await);
    let nobody = free_port();
    let (server, told) = manager(offer(port, &a, &b, &c, nobody));
    let runtimes = Runtimes { enabled: Vec::new(), cgroups: Cgroups::Off, ..Runtimes::default() };
    let mut settings = settings(root.path(), runtimes);
    settings.manager.url = server.url();
    let (end, ended) = oneshot::channel::<()>();
    let running = tokio::spawn(run(settings, async {
        let _ = ended.await;
    }));

    told_of("all shares are in force", &told, |service| {
        (each(service, "seen") == [json!(5_000), json!(2_500), json!(2_500)]).then_some(())
    })
    .await;
    let service = told_of("a target is there and another isn't", &told, |service| {
        let targets = each(service, "targets");
        (targets[1] == json!({"healthy": 1, "total": 2})).then(|| service.clone())
    })
    .await;
    assert_eq!(
        (&service["name"], &service["offer"], &service["standing"]),
        (&json!("shop"), &json!("r1"), &json!(false))
    );
    assert_eq!(each(&service, "name"), ["A", "B", "C"]);
    assert_eq!(each(&service, "wanted"), [json!(5_000), json!(2_500), json!(2_500)]);
    // Nobody looks at those of A, which has a name, and of C.
    let targets = each(&service, "targets");
    assert_eq!([&targets[0], &targets[2]], [&json!({"healthy": null, "total": 1}); 2]);
    assert_eq!(service["led"]["variations"][0]["targets"][0], json!(format!("localhost:{}", a.port)));

    for _ in 0..CALLS {
        call(port).await;
    }
    let calls = told_of("all calls are told", &told, |service| {
        let calls: Option<Vec<u64>> = each(service, "calls").iter().map(Value::as_u64).collect();
        calls.filter(|calls| calls.iter().sum::<u64>() == CALLS)
    })
    .await;
    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");

    // Its users get the stable variation, and what is read back says so.
    b.is_away.store(true, Ordering::Relaxed);
    let service = told_of("nobody is sent to B", &told, |service| {
        (each(service, "seen")[1] == json!(0)).then(|| service.clone())
    })
    .await;
    assert_eq!(each(&service, "wanted")[1], json!(2_500));
    told_of("B has no target", &told, |service| {
        (each(service, "targets")[1] == json!({"healthy": 0, "total": 2})).then_some(())
    })
    .await;

    end.send(()).unwrap();
    running.await.unwrap().unwrap();
    serving.abort();
}
