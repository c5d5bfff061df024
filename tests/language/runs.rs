//! Variations of services that agents start: what is read, what is refused, and what is packed of them.

use language::{
    Resources, Run, Strategy, check_from_parent, check_stored,
    functions::{Limits, Unpacked, from_files, paths},
    offer, render_full,
    schema::StrategyForm,
};

use super::{load, rendered};

const TEXT: &str = r#"id: checkout-2
name: checkout
services:
  - name: checkout
    ports: [{port: 8080}]
    variations:
      - {name: stable, targets: ["127.0.0.1:9101"]}
      - {name: canary, run: {path: checkout/v2, env: program, limits: {cpu: 500m, memory: 128Mi}}, health: {path: /ready}}
stages:
  - name: canary
    type: Traffic
    shares: {stable: 90, canary: 10}
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: rollout}
"#;

const RUN: &str = "run: {path: checkout/v2, env: program, limits: {cpu: 500m, memory: 128Mi}}";

fn with(run: &str) -> String {
    let text = TEXT.replacen(RUN, run, 1);
    assert_ne!(text, TEXT, "{run}");
    text
}

#[test]
fn what_is_to_be_started_is_read_stored_and_handed_on() {
    let strategy = load(TEXT);
    let service = &strategy.services[0];
    let limits = Resources { cpu: Some(50), memory: Some(128 * 1024 * 1024) };
    let run = Run { path: "checkout/v2".to_owned(), env: "program".to_owned(), limits };
    assert_eq!(service.runs.iter().collect::<Vec<_>>(), [(&"canary".to_owned(), &run)]);
    assert_eq!(service.variations.iter().map(|one| one.targets.len()).collect::<Vec<_>>(), [1, 0]);
    serde_saphyr::from_str::<StrategyForm>(TEXT).unwrap();
    let stored = serde_json::to_string(&strategy).unwrap();
    assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
    assert_eq!(check_stored(TEXT).strategy.unwrap().services, strategy.services);
    let whole = render_full::whole(&strategy);
    let in_place = render_full::in_place(&strategy, "11", true);
    assert_eq!(check_from_parent(whole.as_bytes()).strategy.unwrap().services, strategy.services);
    assert_eq!(offer::read(&in_place).unwrap().services, strategy.services);
    // What says nothing of this is stored as it was.
    let none = load(&with("targets: [\"127.0.0.1:9111\"]"));
    assert!(!serde_json::to_string(&none).unwrap().contains("\"runs\""));
    let short = load(&with("run: {path: v2}"));
    let run = Run { path: "v2".to_owned(), env: "program".to_owned(), limits: Resources::default() };
    assert_eq!(short.services[0].runs["canary"], run);
}

#[test]
fn what_can_not_be_started_is_named_with_what_to_write() {
    let wrong = [
        ("run: {path: ../v2}", "leaves its folder"),
        ("run: {path: /v2}", "is absolute"),
        ("run: {env: program}", "run lacks path"),
        ("run: {path: v2, env: nodejs}", "write program or image"),
        ("run: {path: v2, port: 80}", "has no key \"port\""),
        ("run: {path: v2}, targets: [\"127.0.0.1:9111\"]", "leave one of the two out"),
        ("run: {path: v2, limits: {cpu: 5m}}", "whole hundredths of a processor"),
        ("run: {path: v2, limits: {cpu: 1e3}}", "whole hundredths of a processor"),
        ("run: {path: v2, limits: {memory: 128mb}}", "whole bytes from 1Mi to 64Ti"),
        ("run: {path: v2, limits: {memory: 1Ki}}", "whole bytes from 1Mi to 64Ti"),
        ("run: {path: v2, limits: {disk: 1Gi}}", "has no key \"disk\""),
    ];
    for (run, why) in wrong {
        let faults = rendered(&with(run));
        assert!(faults.contains(why), "{run}\n{faults}");
    }
    let udp = TEXT.replacen("{port: 8080}", "{port: 8080, protocol: UDP}", 1).replacen(
        ", health: {path: /ready}",
        "",
        1,
    );
    let faults = rendered(&udp);
    assert!(faults.contains("is of UDP") && faults.contains("give each variation its targets"), "{faults}");
}

#[test]
fn quantities_are_those_of_kubernetes_and_written_back_so() {
    let cpu = [("10m", 1), ("500m", 50), ("0.5", 50), ("1.5", 150), ("2", 200), ("1k", 100_000)];
    for (text, hundredths) in cpu {
        assert_eq!(Resources::read_cpu(text), Some(hundredths), "{text}");
    }
    for text in ["", "0", "5m", "1001", "-1", "+1", "1.", ".5", "1.505", "0.5 ", "500M", "1 000", "½"] {
        assert_eq!(Resources::read_cpu(text), None, "{text}");
    }
    let memory =
        [("128Mi", 134_217_728), ("1.5Gi", 1_610_612_736), ("1G", 1_000_000_000), ("2097152", 2_097_152)];
    for (text, bytes) in memory {
        assert_eq!(Resources::read_memory(text), Some(bytes), "{text}");
    }
    for text in ["0", "1023Ki", "65Ti", "128MiB", "128 Mi", "1E", "1e9", "500m", "99999999999999999999"] {
        assert_eq!(Resources::read_memory(text), None, "{text}");
    }
    let written = Resources { cpu: Some(150), memory: Some(1_000_000_000) }.quantities();
    assert_eq!(written, [("cpu", "1500m".to_owned()), ("memory", "1000000000".to_owned())]);
    for (key, text) in written {
        let back = if key == "cpu" {
            Resources::read_cpu(&text).map(u64::from)
        } else {
            Resources::read_memory(&text)
        };
        assert!(back.is_some(), "{key}: {text}");
    }
}

#[test]
fn its_folder_is_packed_with_the_release_and_has_to_be_there() {
    let strategy = load(TEXT);
    assert_eq!(paths(&strategy).collect::<Vec<_>>(), ["checkout/v2"]);
    let mut files = Unpacked::default();
    let missing = from_files(&files, &strategy, &Limits::default()).unwrap_err().to_string();
    assert_eq!(
        missing,
        "the folder \"checkout/v2\", the run of function \"service/checkout\", is nowhere to be found"
    );
    files.files.insert("checkout/v2/run".to_owned(), b"#!/bin/sh\n".to_vec());
    let archive = from_files(&files, &strategy, &Limits::default()).unwrap();
    assert!(archive.contents.is_empty());
    let packed = language::functions::unpack(&archive.bytes, |_| true, &Limits::default()).unwrap();
    assert_eq!(packed.files, files.files);
    // What it is packed in has to be taken by whoever runs it.
    let len = archive.bytes.len() as u64;
    let tight = |upload_bytes| Limits { upload_bytes, ..Limits::default() };
    assert_eq!(from_files(&files, &strategy, &tight(len)).unwrap(), archive);
    let large = from_files(&files, &strategy, &tight(len - 1)).unwrap_err().to_string();
    assert_eq!(large, format!("the upload has {len} bytes, at most {} are accepted", len - 1));
}
