//! What is only looked at.

use bytes::Bytes;
use hyper::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Open, standing};

#[tokio::test]
async fn a_log_comes_as_it_was_written() {
    let open = Open::start(standing());
    for (query, text) in [
        ("", "newest of sieve\n\u{1b}"),
        ("&version=new", "new of sieve\n\u{1b}"),
        ("&version=base", "base of sieve\n\u{1b}"),
    ] {
        let log = open.client.text(&format!("/logs?function=sieve{query}")).await.unwrap();
        assert_eq!(log, text);
    }
    assert_eq!(open.refused(Method::GET, "/logs?function=siev", Bytes::new()).await.0, 404);
    assert_eq!(open.client.text("/logs?release=ab").await.unwrap(), "what failed in ab\n");
}

#[tokio::test]
async fn metrics_name_what_one_alerts_on() {
    let open = Open::start(standing());
    let text = open.client.text("/metrics").await.unwrap();
    insta::assert_snapshot!(std::str::from_utf8(&text).unwrap(), @r#"
    # HELP choirmaster_agent_build_info The version of this program, as a label; always 1.
    # TYPE choirmaster_agent_build_info gauge
    choirmaster_agent_build_info{version="0.0.0-test"} 1
    # HELP choirmaster_agent_manager_reached Whether the manager answered when it was last called.
    # TYPE choirmaster_agent_manager_reached gauge
    choirmaster_agent_manager_reached 0
    # HELP choirmaster_agent_proxy_answers Whether the proxy answered when it was last asked.
    # TYPE choirmaster_agent_proxy_answers gauge
    choirmaster_agent_proxy_answers 1
    # HELP choirmaster_agent_state_kept Whether what the agent knows could be written to its disk when that was last tried.
    # TYPE choirmaster_agent_state_kept gauge
    choirmaster_agent_state_kept 0
    # HELP choirmaster_agent_runtime_reached Whether what runs functions answered when it was last asked.
    # TYPE choirmaster_agent_runtime_reached gauge
    choirmaster_agent_runtime_reached{runtime="process"} 1
    choirmaster_agent_runtime_reached{runtime="tinyfaas"} 0
    # HELP choirmaster_agent_results_owed Results that the manager was not told yet, or has not answered.
    # TYPE choirmaster_agent_results_owed gauge
    choirmaster_agent_results_owed 2
    # HELP choirmaster_agent_functions Functions that are served.
    # TYPE choirmaster_agent_functions gauge
    choirmaster_agent_functions 2
    # HELP choirmaster_agent_releasing Whether a release is in hand.
    # TYPE choirmaster_agent_releasing gauge
    choirmaster_agent_releasing 1
    # HELP choirmaster_agent_waits_for_signal Whether a stage is done here and waits for the manager to end it.
    # TYPE choirmaster_agent_waits_for_signal gauge
    choirmaster_agent_waits_for_signal 1
    # HELP choirmaster_agent_stopped Whether the release in hand was taken back here.
    # TYPE choirmaster_agent_stopped gauge
    choirmaster_agent_stopped 0
    # HELP choirmaster_agent_stage The stage that is run, as a label; always 1.
    # TYPE choirmaster_agent_stage gauge
    choirmaster_agent_stage{stage="canary \"12.5\""} 1
    # HELP choirmaster_agent_version_runs Whether the process of a version is there: the stable one, the new one, the one that is kept.
    # TYPE choirmaster_agent_version_runs gauge
    choirmaster_agent_version_runs{function="greet",version="stable"} 1
    choirmaster_agent_version_runs{function="greet",version="kept"} 1
    choirmaster_agent_version_runs{function="sieve",version="stable"} 1
    choirmaster_agent_version_runs{function="sieve",version="new"} 0
    # HELP choirmaster_agent_version_restarts_total How often a version that is there ended by itself and was started again.
    # TYPE choirmaster_agent_version_restarts_total counter
    choirmaster_agent_version_restarts_total{function="greet",version="stable"} 0
    choirmaster_agent_version_restarts_total{function="greet",version="kept"} 0
    choirmaster_agent_version_restarts_total{function="sieve",version="stable"} 0
    choirmaster_agent_version_restarts_total{function="sieve",version="new"} 3
    # HELP choirmaster_agent_new_share The share of calls that the new version gets, from 0 to 1.
    # TYPE choirmaster_agent_new_share gauge
    choirmaster_agent_new_share{function="sieve"} 0.125
    # HELP choirmaster_agent_stage_calls Calls of the new version in this stage, by how they ended.
    # TYPE choirmaster_agent_stage_calls gauge
    choirmaster_agent_stage_calls{function="sieve",class="answered"} 31
    choirmaster_agent_stage_calls{function="sieve",class="repeated"} 7
    choirmaster_agent_stage_calls{function="sieve",class="failed"} 2
    # HELP choirmaster_agent_stops_total How often a new version was taken back here, by who said so.
    # TYPE choirmaster_agent_stops_total counter
    choirmaster_agent_stops_total{by="judged"} 4
    choirmaster_agent_stops_total{by="ordered"} 3
    choirmaster_agent_stops_total{by="managed"} 2
    choirmaster_agent_stops_total{by="unstarted"} 1
    "#);
}

/// What an address answers.
async fn at(open: &Open, ask: &str) -> String {
    let mut stream = TcpStream::connect(open.control.metrics().unwrap()).await.unwrap();
    stream.write_all(format!("{ask} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn an_address_has_metrics_and_health_and_nothing_that_changes_anything() {
    let open = Open::start(standing());
    let metrics = at(&open, "GET /metrics").await;
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("choirmaster_agent_results_owed 2\n"), "{metrics}");
    assert!(at(&open, "GET /healthz").await.ends_with("\r\n\r\nok\n"));
    for ask in [
        "GET /status",
        "POST /undo",
        "PUT /functions/a",
        "DELETE /functions/sieve",
        "GET /logs?function=sieve",
    ] {
        assert!(at(&open, ask).await.starts_with("HTTP/1.1 404 "), "{ask}");
    }
    assert!(at(&open, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
    assert_eq!(open.asked(), <[String; 0]>::default());
}

#[tokio::test]
async fn an_agent_without_its_proxy_is_not_well_and_one_without_its_manager_is() {
    let mut status = standing();
    assert!(!status.manager.reached);
    assert!(at(&Open::start(status.clone()), "GET /healthz").await.starts_with("HTTP/1.1 200 "));
    let proxy = status.proxy.as_mut().unwrap();
    proxy.answers = false;
    proxy.trouble = Some("connection refused".to_owned());
    let answer = at(&Open::start(status), "GET /healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.ends_with(r#"{"error":"the proxy on proxy.sock does not answer: connection refused"}"#),
        "{answer}"
    );
}
