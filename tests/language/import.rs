//! Analyses that were written for another tool.

use language::{
    analysis::Templates,
    import::{MAX_IMPORT_BYTES, import},
};

const PIPELINE: &str = r#"apiVersion: example.dev/v1
kind: KubernetesApp
spec:
  pipeline:
    stages:
      - name: K8S_CANARY_ROLLOUT
        with: {replicas: 20%}
      - name: ANALYSIS
        timeout: 1h
        with:
          duration: 20m
          restartThreshold: 3
          metrics:
            - strategy: CANARY_BASELINE
              provider: my-prom
              interval: 5m
              deviation: HIGH
              timeout: 10s
              skipOnNoData: true
              query: rate(cpu{app="{{ .App.Name }}", ns="{{.K8s.Namespace}}", v="{{ .Variant.Name }}"}[5m])
            - provider: my-prom
              interval: 10m
              skipOnNoData: true
              expected: {max: 0.1}
              query: |
                sum(rate(failed{job="{{ .VariantArgs.job }}"}[5m]))
                  /
                sum(rate(calls{job="{{ .VariantArgs.job }}"}[5m]))
              canaryArgs: {job: 7}
            - template:
                name: shared
                args: {job: shop}
          logs:
            - query: error
---
kind: AnalysisTemplate
spec:
  metrics:
    shared:
      provider: my-prom
      interval: 1m
      expected: {max: 0.5}
      failureLimit: 1
      query: errors{job="{{ .Args.job }}"}
"#;

#[test]
fn a_pipeline_and_a_template_become_blocks_and_what_is_dropped_is_named() {
    let found = import(PIPELINE).unwrap();
    let text: Vec<String> =
        found.parts.iter().map(|part| format!("# {}\n{}", part.place, part.text)).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    # ANALYSIS stage 1: into a stage, or under rollout
    analysis:
      duration: 20m
      metrics:
        - strategy: CANARY_BASELINE
          provider: my-prom
          interval: 5m
          deviation: HIGH
          query: 'rate(cpu{app="{{ .BuiltInArgs.App.Name }}", ns="{{ .BuiltInArgs.App.K8s.Namespace }}", v="{{ .Variant.Name }}"}[5m])'
        - provider: my-prom
          interval: 10m
          expected:
            max: 0.1
          query: |
            sum(rate(failed{job="{{ .VariantArgs.job }}"}[5m]))
              /
            sum(rate(calls{job="{{ .VariantArgs.job }}"}[5m]))
          canaryArgs:
            job: 7
        - template:
            name: shared
            appArgs:
              job: shop

    # AnalysisTemplate: into a file of the folder analysis.templates
    metrics:
      shared:
        provider: my-prom
        interval: 1m
        expected:
          max: 0.5
        failureLimit: 1
        query: 'errors{job="{{ .AppArgs.job }}"}'
    "#);
    insta::assert_snapshot!(found.dropped.join("\n"), @r"
    ANALYSIS stage 1: timeout, for a stage of a strategy has its own
    ANALYSIS stage 1: restartThreshold, for it has no counterpart
    ANALYSIS stage 1, metric 1: timeout, for a provider has its own timeout
    ANALYSIS stage 1: logs, for only metrics are judged here
    ANALYSIS stage 1: skipOnNoData, for noData holds for all metrics of a block, and not all have it
    ");
    insta::assert_snapshot!(found.open.join("\n"), @r#"ANALYSIS stage 1: the template "shared" is not at hand here; its metric is checked by the manager that has it"#);
    // What was written is what the manager reads.
    assert_eq!(Templates::default().read(&found.parts[1].text), []);
}

#[test]
fn stages_alone_and_the_older_form_are_read_too() {
    let found = import("- name: ANALYSIS\n  with:\n    duration: 5m\n    dynamic:\n      metrics:\n        - {provider: p, interval: 1m, expected: {max: 1}, query: 'up{v=\"{{ .Variant }}\"}'}\n").unwrap();
    assert_eq!(found.dropped, [] as [String; 0]);
    assert_eq!(found.open, [] as [String; 0]);
    assert!(found.parts[0].text.contains("'up{v=\"{{ .Variant }}\"}'"), "{}", found.parts[0].text);
}

#[test]
fn what_holds_no_analysis_is_refused() {
    for (text, says) in [
        ("kind: KubernetesApp\nspec: {pipeline: {stages: [{name: WAIT}]}}", "neither an ANALYSIS stage"),
        ("", "neither an ANALYSIS stage"),
        ("a: [", "YAML"),
    ] {
        let fault = import(text).unwrap_err();
        assert!(fault.contains(says), "{text}: {fault}");
    }
    let long = "x".repeat(MAX_IMPORT_BYTES + 1);
    assert!(import(&long).unwrap_err().contains("bytes"));
}

#[test]
fn hostile_texts_end_in_an_answer() {
    for text in [
        "[".repeat(5_000),
        "- name: ANALYSIS\n  with: {metrics: [[[[x]]], {query: [1, {a: b}]}, 7, {query: '{{ {{ }}'}]}\n"
            .to_owned(),
        "kind: AnalysisTemplate\nspec: {metrics: {\"a\\u0007\\\"b\": {query: \"x\\u0001y\"}}}\n".to_owned(),
    ] {
        let _ = import(&text);
    }
}
