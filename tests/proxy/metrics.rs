use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use call_metrics::{Cursor, Reading};
use proxy::{
    Limits,
    control::{self, client::Client, control_handler::ControlHandler},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixListener, UnixStream},
};

use crate::{
    counts::acting::{Act, Caller, acting},
    world::{read_head, start, table},
};

/// Samples by name and labels; each line of the text is checked.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut described) = (BTreeMap::new(), BTreeSet::new());
    let mut family = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.split(' ').next().unwrap().clone_into(&mut family);
            assert!(described.insert(family.clone()), "{family} is described twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert_eq!(kind.split(' ').next().unwrap(), family);
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            let of_family = [bare, bare.trim_end_matches("_bucket"), bare.trim_end_matches("_sum")];
            assert!(of_family.contains(&&*family) || bare.trim_end_matches("_count") == family, "{line}");
            assert!(bare.starts_with("choirmaster_proxy_"), "{line}");
            assert!(
                samples.insert(name.to_owned(), value.parse().unwrap()).is_none(),
                "{line} is there twice"
            );
        }
    }
    assert!(text.ends_with('\n'));
    samples
}

#[tokio::test]
async fn metrics_say_what_callers_saw() {
    let running = start(Limits::default());
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    running.proxy.apply(&table(3, base, new, 10_000)).await.unwrap();
    let mut caller = Caller::new(running.at);
    for (method, act, times) in
        [("GET", Act::Ok, 40), ("GET", Act::NotFound, 3), ("POST", Act::Broken, 2), ("GET", Act::Broken, 4)]
    {
        for _ in 0..times {
            caller.call(method, act, "").await;
        }
    }
    let mut stranger = TcpStream::connect(running.at).await.unwrap();
    stranger.write_all(b"GET /b HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    read_head(&mut stranger).await.unwrap();
    let mut nonsense = TcpStream::connect(running.at).await.unwrap();
    nonsense.write_all(b"what is this\r\n\r\n").await.unwrap();
    read_head(&mut nonsense).await.unwrap();

    let text = running.proxy.metrics().await;
    let samples = samples(&text);
    let get = |name: &str| samples.get(&format!("choirmaster_proxy_{name}")).copied();
    let of_new = r#"service="a",variation="new""#;
    for (name, expected) in [
        (format!("calls_total{{{of_new},class=\"success\"}}"), 40.0),
        (format!("calls_total{{{of_new},class=\"client_error\"}}"), 3.0),
        (format!("calls_total{{{of_new},class=\"error\"}}"), 2.0),
        (format!("calls_total{{{of_new},class=\"failed\"}}"), 4.0),
        (format!("failures_total{{{of_new},class=\"status\"}}"), 4.0),
        (format!("failures_total{{{of_new},class=\"died\"}}"), 0.0),
        (format!("repeats_total{{{of_new},class=\"failed\"}}"), 4.0),
        (format!("repeats_total{{{of_new},class=\"saved\"}}"), 0.0),
        (format!("seconds_count{{{of_new}}}"), 43.0),
        (format!("seconds_bucket{{{of_new},le=\"+Inf\"}}"), 43.0),
        (format!("in_flight{{{of_new}}}"), 0.0),
        ("unserved_total{class=\"no_service\"}".into(), 1.0),
        ("unserved_total{class=\"refused\"}".into(), 1.0),
        ("table_epoch".into(), 0.0),
        ("table_generation".into(), 3.0),
        ("counts_gone_total".into(), 0.0),
        ("log_dropped_total".into(), 0.0),
        (format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
    ] {
        assert_eq!(get(&name), Some(expected), "{name}\n{text}");
    }
    assert!(get("connections").unwrap() >= 1.0);
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|(name, count)| {
            let bound = name.strip_prefix(&format!("choirmaster_proxy_seconds_bucket{{{of_new},le=\""))?;
            let bound = bound.trim_end_matches("\"}");
            Some((if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() }, *count))
        })
        .collect();
    assert_eq!(buckets.len(), 15);
    let mut sorted = buckets.clone();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{sorted:?}");
    let sum = get(&format!("seconds_sum{{{of_new}}}")).unwrap();
    assert!(sum > 0.0);
}

#[tokio::test]
async fn totals_go_on_when_a_table_changes_and_when_others_read_the_counts() {
    let running = start(Limits::default());
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    let mut caller = Caller::new(running.at);
    for generation in 1..=5 {
        running
            .proxy
            .apply(&table(generation, base, new, if generation % 2 == 0 { 10_000 } else { 0 }))
            .await
            .unwrap();
        caller.call("GET", Act::Ok, "").await;
        running.proxy.counts_since(Cursor::default()).await;
        let samples = samples(&running.proxy.metrics().await);
        let count = |variation: &str| {
            let name = format!(
                "choirmaster_proxy_calls_total{{service=\"a\",variation=\"{variation}\",class=\"success\"}}"
            );
            samples.get(&name).copied().unwrap_or(0.0) as u64
        };
        assert_eq!(count("base") + count("new"), generation);
    }
}

#[tokio::test]
async fn the_control_answers_with_counts_after_a_cursor_and_with_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(Limits::default());
    let at = running.at;
    let handler =
        ControlHandler::new(running.proxy, &folder.path().join("state"), Vec::new(), "0.0.0-test").unwrap();
    let (handler, path) = (Arc::new(handler), folder.path().join("control.sock"));
    handler.open();
    tokio::spawn(control::serve(UnixListener::bind(&path).unwrap(), Arc::clone(&handler)));
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    handler.change(&table(1, base, new, 0)).await.unwrap();
    let mut caller = Caller::new(at);
    for _ in 0..5 {
        caller.call("GET", Act::Ok, "").await;
    }
    let client = Client::new(path.clone());
    let reading: Reading = client.get("/counts").await.unwrap();
    let rows =
        reading.closed.iter().flat_map(|one| &one.rows).chain(reading.open.iter().flat_map(|one| &one.rows));
    assert_eq!(rows.map(|row| row.tally.succeeded).sum::<u64>(), 5);
    let Cursor { life, interval } = reading.next;
    let after: Reading = client.get(&format!("/counts?life={life}&interval={}", interval + 1)).await.unwrap();
    assert!(after.closed.len() <= 1 && after.next.life == life, "{after:?}");
    for wrong in ["/counts?life=x", "/counts?since=3"] {
        assert!(client.get::<Reading>(wrong).await.is_err(), "{wrong}");
    }

    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let name = "choirmaster_proxy_calls_total{service=\"a\",variation=\"base\",class=\"success\"}";
    assert_eq!(samples(text)[name].to_bits(), 5.0_f64.to_bits());
}
