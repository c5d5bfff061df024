//! `analysis`: what it means, and every way to get it wrong.

use std::{fmt::Write as _, time::Duration};

use language::{
    Site, Strategy,
    analysis::{
        Analysis, ChildMetric, Comparison, Deviation, Escape, Extend, Metric, MetricSource, Reference, Rule,
        Templates, Tolerance, Unclear, Variant, providers::Providers,
    },
    check, check_at, check_submission_at,
    schema::StrategyForm,
};

use super::{REFERENCE, load};

fn indented(block: &str, by: usize) -> String {
    let mut text = String::new();
    for line in block.lines() {
        let _ = writeln!(text, "{:by$}{line}", "");
    }
    text
}

/// The reference with a block in its stage.
fn in_stage(block: &str) -> String {
    let block = indented(block, 6);
    REFERENCE.replacen("    end_action:\n", &format!("    analysis:\n{block}    end_action:\n"), 1)
}

fn in_rollout(block: &str) -> String {
    let block = indented(block, 4);
    format!("rollout:\n  analysis:\n{block}{REFERENCE}")
}

/// A block of half an hour with these metrics, each a mapping without braces.
fn metrics(metrics: &[&str]) -> String {
    let list: Vec<String> = metrics.iter().map(|metric| format!("  - {{{metric}}}")).collect();
    format!("duration: 30m\ninterval: 5m\nmetrics:\n{}", list.join("\n"))
}

/// What is named; the conditions of the stage are judged beside it.
fn block(text: &str) -> Analysis {
    let mut found = load(text).stages[0].analysis.clone().unwrap();
    found.metrics.retain(|metric| !matches!(metric.rule, Rule::Condition(_)));
    found
}

fn site(templates: &str) -> Site {
    let mut site = Site::default();
    assert_eq!(site.templates.read(templates), []);
    let text = "providers:\n  prom: {type: prometheus, url: 'http://127.0.0.1:9090'}\n  stats: {type: web, url: 'http://127.0.0.1:80'}\n";
    let (providers, faults) = Providers::read(text);
    assert_eq!(faults, []);
    site.providers = providers;
    site
}

/// The faults that a submission has, but for what can't be carried out yet.
fn judged(text: &str, site: &Site) -> (Vec<String>, Option<Strategy>) {
    let checked = check_submission_at(text.as_bytes(), site);
    let mut faults: Vec<String> = checked.diagnostics.iter().map(|d| d.render("r.yml")).collect();
    faults.retain(|fault| !fault.contains("is not yet available"));
    (faults, checked.strategy)
}

const LATENCY: &str = "name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE";

const QUERY: &str =
    r#"name: q, provider: prom, strategy: CANARY_BASELINE, query: 'x{v="{{ .Variant.Name }}"}'"#;

const EVERY_KEY: &str = r#"duration: 30m
interval: 5m
initialDelay: 90s
failureLimit: 1
consecutiveErrorLimit: 2
noData: fail
inconclusive: pass
earlyPass: true
dryRun: false
alpha: 1%
metrics:
  - {name: a, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 20ms, quantile: p99, weight: 3}
  - {name: b, provider: children, metric: errorRate, strategy: PREVIOUS, tolerance: 10%, floor: 0.5%, runVariation: 3%}
  - {name: c, provider: prom, query: 'rate(x{app="{{ .BuiltInArgs.App.Name }}"}[5m])', expected: {min: -1, max: 0.1}, dryRun: true}
  - {name: d, provider: stats, strategy: CANARY_BASELINE, query: '/v?of={{ .VariantArgs.job }}', jsonPath: '$.a[*]', baselineArgs: {job: base}, canaryArgs: {job: new}, tolerance: 0.02}
"#;

#[test]
fn a_block_with_the_least_has_the_documented_defaults() {
    let found = block(&in_stage(&metrics(&[LATENCY])));
    let expected = Analysis {
        duration: Some(Duration::from_mins(30)),
        interval: Duration::from_mins(5),
        initial_delay: Duration::ZERO,
        consecutive_error_limit: 4,
        no_data: Unclear::Pause,
        inconclusive: Unclear::Pause,
        extend: None,
        early_pass: false,
        alpha: None,
        metrics: found.metrics.clone(),
    };
    assert_eq!(found, expected);
    let [latency] = &found.metrics[..] else { panic!("{found:?}") };
    assert_eq!((latency.name.as_str(), latency.failure_limit, latency.dry_run), ("latency", 0, false));
    assert_eq!(latency.source, MetricSource::Children(ChildMetric::ResponseTime));
    let compare = Comparison {
        with: Reference::Baseline,
        deviation: Deviation::Either,
        tolerance: Tolerance::Ratio(0.05),
        floor: 0.0,
        quantile: None,
        weight: 1.0,
    };
    assert_eq!(latency.rule, Rule::Compare(compare));
}

#[test]
fn every_key_is_understood() {
    let found = block(&in_stage(EVERY_KEY));
    assert_eq!((found.initial_delay, found.consecutive_error_limit), (Duration::from_secs(90), 2));
    assert_eq!((found.no_data, found.inconclusive), (Unclear::Fail, Unclear::Pass));
    assert_eq!((found.alpha, found.early_pass, found.extend), (Some(0.01), true, None));
    let strategies: Vec<&str> = found.metrics.iter().map(language::analysis::Metric::strategy).collect();
    assert_eq!(strategies, ["CANARY_BASELINE", "PREVIOUS", "THRESHOLD", "CANARY_BASELINE"]);
    let limits: Vec<u32> = found.metrics.iter().map(|metric| metric.failure_limit).collect();
    // What children report is compared once.
    assert_eq!(limits, [0, 0, 1, 1]);
    let rule = |at: usize| match &found.metrics[at].rule {
        Rule::Compare(compare) => compare.clone(),
        rule => panic!("{rule:?}"),
    };
    assert_eq!(
        (rule(0).tolerance, rule(0).quantile, rule(0).weight),
        (Tolerance::Shift(20.0), Some(0.99), 3.0)
    );
    assert_eq!((rule(1).with, rule(1).floor), (Reference::Previous { run_variation: Some(0.03) }, 0.005));
    assert_eq!(rule(3).tolerance, Tolerance::Shift(0.02));
    assert_eq!(found.metrics[2].rule, Rule::Threshold { min: Some(-1.0), max: Some(0.1), quantile: None });
    assert!(found.metrics[2].dry_run);
    let MetricSource::Query(asked) = &found.metrics[3].source else { panic!() };
    assert_eq!(asked.json_path.as_deref(), Some("$.a[*]"));
    assert_eq!(asked.text(Variant::Canary, "sieve", Escape::Url).unwrap(), "/v?of=new");
    assert_eq!(asked.text(Variant::Baseline, "sieve", Escape::Url).unwrap(), "/v?of=base");
}

#[test]
fn every_key_fits_the_documented_form() {
    for text in [in_stage(EVERY_KEY), in_rollout(EVERY_KEY)] {
        serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
        assert!(serde_saphyr::from_str::<StrategyForm>(&text.replace("jsonPath", "jsonPat")).is_err());
    }
}

#[test]
fn an_analysis_puts_the_manager_in_charge() {
    let strategy = load(&in_stage(&metrics(&[LATENCY])));
    assert!(strategy.rollout.is_some());
    assert!(load(REFERENCE).rollout.is_none());
}

#[test]
fn a_release_can_be_judged_for_as_long_as_it_takes() {
    let strategy = load(&in_rollout(&format!("interval: 1m\nmetrics: [{{{LATENCY}}}]")));
    let analysis = strategy.rollout.unwrap().analysis.unwrap();
    assert_eq!((analysis.duration, analysis.interval), (None, Duration::from_mins(1)));
}

#[test]
fn alpha_is_shared_by_weight_over_all_that_is_compared() {
    let heavy = LATENCY.replace("latency", "heavy") + ", weight: 3";
    let dry = LATENCY.replace("latency", "dry") + ", dryRun: true";
    let threshold = "name: t, provider: children, metric: errorRate, expected: {max: 0.1}";
    let text = in_stage(&metrics(&[LATENCY, &heavy, &dry, threshold]));
    let text = text.replace("duration: 30m", "duration: 30m\n      alpha: 0.04");
    let shares = |text: &str| -> Vec<(Option<usize>, String, f64)> {
        let strategy = load(text);
        strategy.alpha_shares().iter().map(|s| (s.stage, s.metric.name.clone(), s.alpha)).collect()
    };
    assert_eq!(shares(&text), [(Some(0), "latency".to_owned(), 0.01), (Some(0), "heavy".to_owned(), 0.03)]);
    let whole = in_rollout(&format!("interval: 1m\nmetrics: [{{{LATENCY}}}]"));
    assert_eq!(shares(&whole), [(None, "latency".to_owned(), 0.05)]);
}

#[test]
fn a_strategy_with_analysis_is_stored_and_read_again() {
    let strategy = load(&in_stage(&metrics(&[LATENCY, QUERY])));
    let text = serde_json::to_string(&strategy).unwrap();
    assert_eq!(serde_json::from_str::<Strategy>(&text).unwrap(), strategy);
    assert!(!serde_json::to_string(&load(REFERENCE)).unwrap().contains("analysis"));
}

#[test]
fn values_stay_inside_of_the_string_they_are_put_into() {
    let text = r#"name: q, provider: prom, expected: {max: 1}, query: 'x{a="{{ .VariantArgs.a }}",v="{{.Variant.Name}}"}', canaryArgs: {a: "1\"} or vector(0) #\\\n'"}"#;
    let found = block(&in_stage(&metrics(&[text])));
    let MetricSource::Query(asked) = &found.metrics[0].source else { panic!() };
    insta::assert_snapshot!(asked.text(Variant::Canary, "f", Escape::PromQl).unwrap(), @r#"x{a="1\"} or vector(0) #\\\n\'",v="canary"}"#);
    insta::assert_snapshot!(asked.text(Variant::Canary, "f", Escape::Url).unwrap(), @r#"x{a="1%22%7D%20or%20vector%280%29%20%23%5C%0A%27",v="canary"}"#);
}

#[test]
fn the_conditions_of_a_stage_are_judged_beside_its_metrics() {
    let found = load(&in_stage(&metrics(&[LATENCY]))).stages[0].analysis.clone().unwrap();
    let names: Vec<&str> = found.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(
        names,
        ["latency", "metrics_conditions: errorRate <0.02", "metrics_conditions: responseTime <=250 Median"]
    );
    assert!(found.metrics[1..].iter().all(|metric| metric.strategy() == "THRESHOLD"));
}

#[test]
fn previous_asks_for_earlier_weeks_unless_their_variation_is_given() {
    let asks = |keys: &str| {
        let query = r#"'x{job="{{ .VariantArgs.job }}"}'"#;
        let metric = format!("name: q, provider: prom, strategy: PREVIOUS, query: {query}, {keys}");
        judged(&in_stage(&metrics(&[&metric])), &site(TEMPLATES)).0
    };
    assert_eq!(asks("canaryArgs: {job: new}, runVariation: 3%"), [""; 0]);
    assert_eq!(asks("primaryArgs: {job: main}, runVariation: 3%"), [""; 0]);
    let weeks = asks("canaryArgs: {job: new}, baselineArgs: {job: base}");
    assert!(weeks.len() == 1 && weeks[0].contains("warning: how much a version varies"), "{weeks:?}");
    let faults = asks("canaryArgs: {job: new}");
    assert!(
        faults.iter().any(|f| f.contains("baselineArgs has no job") && f.contains("runVariation: 3%")),
        "{faults:?}"
    );
}

#[test]
fn whoever_knows_no_past_is_not_asked_about_it_without_its_time() {
    let asks = |query: &str| {
        let metric = format!(
            "name: q, provider: stats, jsonPath: '$.v', strategy: PREVIOUS, query: '{query}', runVariation: 3%"
        );
        judged(&in_stage(&metrics(&[&metric])), &site(TEMPLATES)).0
    };
    let window = "/v?from={{ .BuiltInArgs.Window.Start }}&to={{ .BuiltInArgs.Window.End }}";
    assert_eq!(asks(window), [""; 0]);
    let faults = asks("/v?of={{ .Variant.Name }}");
    assert!(faults[0].contains("asks about an earlier time without saying which"), "{faults:?}");
}

#[test]
fn what_is_compared_once_cannot_demand_more_crossings() {
    let (faults, _) =
        judged(&in_stage(&metrics(&[&format!("{LATENCY}, failureLimit: 1")])), &site(TEMPLATES));
    assert!(faults[0].contains("failureLimit: 1 is never passed, for there is 1 look"), "{faults:?}");
    let crossings = format!("{QUERY}, failureLimit: 1");
    assert_eq!(judged(&in_stage(&metrics(&[&crossings])), &site(TEMPLATES)).0, [""; 0]);
}

const TEMPLATES: &str = r#"metrics:
  errors:
    provider: prom
    strategy: CANARY_BASELINE
    deviation: HIGH
    query: |
      rate(errors{job="{{ .AppArgs.job }}", v="{{ .Variant.Name }}"}[5m])
"#;

#[test]
fn template_is_expanded_and_metric_settings_override_it() {
    let text = in_stage(&metrics(&["template: {name: errors, appArgs: {job: sieve}}, deviation: LOW"]));
    let (faults, _) = judged(&text, &site(TEMPLATES));
    assert_eq!(faults, [""; 0]);
    // What a text carries itself is found without any manager.
    let own = format!("{text}\nanalysis_templates:\n{}", TEMPLATES.split_once('\n').unwrap().1);
    let found = block(&own);
    assert_eq!(found.metrics[0].name, "errors");
    let Rule::Compare(compare) = &found.metrics[0].rule else { panic!() };
    assert_eq!(compare.deviation, Deviation::Low);
    let MetricSource::Query(asked) = &found.metrics[0].source else { panic!() };
    let asked = asked.text(Variant::Baseline, "f", Escape::PromQl).unwrap();
    assert_eq!(asked, "rate(errors{job=\"sieve\", v=\"baseline\"}[5m])\n");
}

#[test]
fn a_release_keeps_the_templates_that_it_was_submitted_with() {
    let text = in_stage(&metrics(&["template: {name: errors, appArgs: {job: 007}}"]));
    let checked = check_at(text.as_bytes(), &site(TEMPLATES));
    let frozen = checked.frozen.unwrap();
    assert!(frozen.starts_with(&text), "{frozen}");
    assert_eq!(check(&frozen).strategy, checked.strategy);
    // What the manager has by then is not looked at.
    let other = site(&TEMPLATES.replace("HIGH", "LOW"));
    let again = check_at(frozen.as_bytes(), &other);
    assert_eq!((again.strategy, again.frozen), (checked.strategy, None));
    // JSON is a strategy as well.
    let tree: serde_json::Value = serde_saphyr::from_str(&text.replace("\"<0.02\"", "<0.02")).unwrap();
    let json = check_at(serde_json::to_string_pretty(&tree).unwrap().as_bytes(), &site(TEMPLATES));
    assert!(check(&json.frozen.unwrap()).strategy.is_some());
    assert_eq!(check_at(REFERENCE.as_bytes(), &other).frozen, None);
}

#[test]
fn where_no_manager_is_a_template_of_one_is_only_a_warning() {
    let text = in_stage(&metrics(&["template: {name: errors}"]));
    let checked = check(&text);
    assert!(checked.strategy.unwrap().rollout.is_some());
    assert_eq!(checked.diagnostics[0].message, "the template \"errors\" is not at hand here");
}

#[test]
fn every_fault_of_templates_has_its_place() {
    let read = |text: &str| -> String {
        let found: Vec<String> = Templates::default().read(text).iter().map(|d| d.render("t.yml")).collect();
        found.join("\n")
    };
    let text = "metrics:\n  a: {name: a, provider: prom, querry: x, tolerance: 0%}\n  b:\n    query: |\n      x{v=\"{{ .Varaint.Name }}\"}\n  a: {}\nmetric: {}\n";
    insta::assert_snapshot!(read(text), @r#"
    t.yml:2:7: error: template "a" has no key "name"
     2 |   a: {name: a, provider: prom, querry: x, tolerance: 0%}
       |       ^
      help: its keys are provider, strategy, interval, query, metric, expected, deviation, tolerance, floor, quantile, weight, baselineArgs, canaryArgs, primaryArgs, appArgs, namespace, failureLimit, runVariation, jsonPath, dryRun
    t.yml:2:32: error: template "a" has no key "querry"
     2 |   a: {name: a, provider: prom, querry: x, tolerance: 0%}
       |                                ^
      help: did you mean query?
    t.yml:2:54: error: a tolerance of 0 would ask for a version that is better, since no two are exactly alike
     2 |   a: {name: a, provider: prom, querry: x, tolerance: 0%}
       |                                                      ^
      help: write how much worse is still good, as in 5%
    t.yml:5:12: error: there is no variable .Varaint.Name
     5 |       x{v="{{ .Varaint.Name }}"}
       |            ^
      help: did you mean .Variant.Name?
    t.yml:6:3: error: there is a template "a" already
     6 |   a: {}
       |   ^
      help: rename one of them
    t.yml:7:1: error: the file has no key "metric"
     7 | metric: {}
       | ^
      help: did you mean metrics?
    "#);
    let unknown = in_stage(&metrics(&[
        "template: {name: error}",
        "template: {name: errors, appArgs: {jobs: x}}",
        "template: {}",
    ]));
    insta::assert_snapshot!(judged(&unknown, &site(TEMPLATES)).0.join("\n"), @r#"
    r.yml:36:29: error: there is no template "error"
     36 |         - {template: {name: error}}
        |                             ^
      help: did you mean errors?
    r.yml:37:29: error: the query names .AppArgs.job, but appArgs has no job
     37 |         - {template: {name: errors, appArgs: {jobs: x}}}
        |                             ^
      help: did you mean jobs?
    r.yml:37:46: warning: the query doesn't name the argument jobs of appArgs
     37 |         - {template: {name: errors, appArgs: {jobs: x}}}
        |                                              ^
      help: write {{ .AppArgs.jobs }} into the query, or leave the argument out
    r.yml:38:22: error: template lacks name
     38 |         - {template: {}}
        |                      ^
      help: write name: http_error_rate
    "#);
}

#[test]
fn providers_are_looked_up_at_the_manager() {
    let other = QUERY.replace("name: q", "name: r").replace("prom", "promm");
    let path = QUERY.replace("name: q", "name: s") + ", jsonPath: $.a";
    let text = in_stage(&metrics(&[QUERY, &other, &path]));
    insta::assert_snapshot!(judged(&text, &site(TEMPLATES)).0.join("\n"), @r#"
    r.yml:37:31: error: there is no provider "promm"
     37 |         - {name: r, provider: promm, strategy: CANARY_BASELINE, query: 'x{v="{{ .Variant.Name }}"}'}
        |                               ^
      help: did you mean prom?
    r.yml:38:31: error: jsonPath has a meaning only with a provider of the type web
     38 |         - {name: s, provider: prom, strategy: CANARY_BASELINE, query: 'x{v="{{ .Variant.Name }}"}', jsonPath: $.a}
        |                               ^
      help: leave jsonPath out
    "#);
}

#[test]
fn what_goes_on_says_for_how_long_and_what_follows() {
    let of = |text: &str| {
        let found =
            block(&in_stage(&metrics(&[LATENCY]).replace("5m", &format!("5m\ninconclusive: {text}"))));
        (found.extend, found.inconclusive)
    };
    let extend = |minutes, calls| Some(Extend { duration: Duration::from_mins(minutes), calls });
    assert_eq!(of("{extend: 30m}"), (extend(30, None), Unclear::Pause));
    assert_eq!(of("{extend: 30m, calls: 20000, then: fail}"), (extend(30, Some(20_000)), Unclear::Fail));
    assert_eq!(of("{calls: 20000, then: pass}"), (extend(24 * 60, Some(20_000)), Unclear::Pass));
    assert_eq!(of("pause"), (None, Unclear::Pause));
}

#[test]
fn what_would_come_to_nothing_is_warned_of() {
    let range = "name: load, provider: prom, query: up, expected: {max: 1}";
    let of = |keys: &str, all: &[&str]| {
        let text = in_stage(&metrics(all).replace("5m", &format!("5m\n{keys}")));
        let (faults, strategy) = judged(&text, &site(TEMPLATES));
        assert!(strategy.is_some(), "{faults:?}");
        let warned = faults.iter().filter_map(|fault| fault.lines().find(|line| line.contains("warning: ")));
        let warned = warned
            .filter(|line| line.contains("early") || line.contains("before it") || line.contains("go on"));
        warned.map(|line| line.split_once("warning: ").unwrap().1.to_owned()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(of("earlyPass: true", &[LATENCY]), "");
    assert_eq!(of("inconclusive: {extend: 30m}", &[LATENCY]), "");
    assert_eq!(of("earlyPass: true", &[LATENCY, &format!("{range}, dryRun: true")]), "");
    let found = [
        of("earlyPass: true", &[LATENCY, range]),
        of("earlyPass: true", &["name: e, provider: children, metric: errorRate, expected: {max: 0.1}"]),
        of("inconclusive: {extend: 30m}", &[range]),
    ];
    insta::assert_snapshot!(found.join("\n"), @r#"
    metric "load" is measured to the end of duration, so nothing is over before it
    only comparisons can pass early, and there is none
    only comparisons of both versions side by side go on after their end, and there is none
    "#);
}

#[test]
fn every_fault_of_a_block_says_what_to_write() {
    let one = |metric: &str| in_stage(&metrics(&[metric]));
    let keys = |from: &str, to: &str| in_stage(&metrics(&[LATENCY]).replace(from, to));
    let cases = [
        ("a block begun", in_stage("")),
        ("an empty block", in_stage("{}").replace("analysis:\n      {}", "analysis: {}")),
        ("a block at the top", format!("analysis: {{}}\n{REFERENCE}")),
        ("interval over duration", keys("5m", "31m")),
        ("a look for each second", keys("5m", "1s")),
        ("an interval of nothing", keys("5m", "10ms")),
        ("no metrics", keys(&format!("metrics:\n  - {{{LATENCY}}}"), "metrics: []")),
        ("limits as high as there are looks", keys("5m", "5m\nfailureLimit: 6\nconsecutiveErrorLimit: 7")),
        ("no word", keys("5m", "5m\nnoData: rollback\ninconclusive: passed\ndryRun: yes\nalpha: 0")),
        ("extend without a limit", keys("5m", "5m\ninconclusive: extend")),
        ("no limit", keys("5m", "5m\ninconclusive: {then: stop}")),
        ("limits that are none", keys("5m", "5m\ninconclusive: {extend: 0s, calls: 0, for: 1m}")),
        ("a limit of too long", keys("5m", "5m\ninconclusive: {extend: 25h}\nearlyPass: soon")),
        (
            "no end to pass before, or to go on after",
            format!(
                "rollout:\n  analysis: {{interval: 1m, earlyPass: true, inconclusive: {{extend: 10m}}, metrics: [{{{LATENCY}}}]}}\n{REFERENCE}"
            ),
        ),
        (
            "alpha twice",
            format!(
                "rollout:\n  analysis: {{interval: 1m, alpha: 0.05, metrics: [{{{LATENCY}}}]}}\n{}",
                keys("5m", "5m\nalpha: 0.05")
            ),
        ),
        ("two of a name", in_stage(&metrics(&[LATENCY, LATENCY]))),
        ("an interval of next to nothing in a metric", one(&format!("{LATENCY}, interval: 5ms"))),
        ("tolerance 0", one(&format!("{LATENCY}, tolerance: 0ms"))),
        ("a tolerance of everything", one(&format!("{LATENCY}, tolerance: 100%"))),
        ("a tolerance without a unit", one(&format!("{LATENCY}, tolerance: 20"))),
        ("a tolerance that is none", one(&format!("{LATENCY}, tolerance: -5%"))),
        ("a time of an unknown unit", one(&format!("{QUERY}, tolerance: 20ms"))),
        (
            "an absolute tolerance of a rate",
            one(&format!("{}, tolerance: 20ms", LATENCY.replace("responseTime", "errorRate"))),
        ),
        ("expected and a comparison", one(&format!("{LATENCY}, expected: {{max: 1}}"))),
        (
            "a threshold without a range",
            one("name: a, provider: children, metric: errorRate, deviation: HIGH, weight: 2, quantile: p99"),
        ),
        (
            "a range of nothing",
            one("name: a, provider: children, metric: errorRate, expected: {min: 2, max: 1}"),
        ),
        ("a range without bounds", one("name: a, provider: children, metric: errorRate, expected: {}")),
        (
            "children with a query",
            one(&format!("{LATENCY}, query: up, canaryArgs: {{a: b}}, floor: 1%, runVariation: 3%")),
        ),
        ("children without a metric", one("name: a, provider: children, strategy: CANARY_BASELINE")),
        (
            "children of what they do not see",
            one("name: a, provider: children, metric: errorRate, strategy: CANARY_PRIMARY"),
        ),
        ("a provider without a query", one("name: a, provider: prom, metric: errorRate, expected: {max: 1}")),
        ("nobody is asked", one("name: a, expected: {max: 1}")),
        (
            "words that are near",
            one("name: a, provider: children, metric: response_time, strategy: CANARY_BASE, deviation: UP"),
        ),
        ("both sides alike", one("name: a, provider: prom, strategy: CANARY_PRIMARY, query: up")),
        (
            "both sides alike by their arguments",
            one(
                "name: a, provider: prom, strategy: CANARY_BASELINE, query: 'x{a=\"{{ .VariantArgs.a }}\"}', canaryArgs: {a: 1}, baselineArgs: {a: 1}",
            ),
        ),
        (
            "variables that there are not",
            one(
                "name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'",
            ),
        ),
        (
            "arguments that there are not",
            one(
                "name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .VariantArgs.job }} {{ .AppArgs.x }}', canaryArgs: {job: x}, baselineArgs: {jbo: x}, primaryArgs: {job: x}",
            ),
        ),
        (
            "arguments that no query can name",
            one("name: a, provider: prom, query: up, expected: {max: 1}, canaryArgs: {a-b: x, c: [1]}"),
        ),
        (
            "a path that is none",
            one("name: a, provider: stats, query: /, expected: {max: 1}, jsonPath: 'values['"),
        ),
        ("a series without an end", in_rollout(&format!("interval: 1m\nmetrics: [{{{QUERY}}}]"))),
        ("weight of a dry run", one(&format!("{LATENCY}, dryRun: true, weight: 2"))),
        (
            "a side without traffic",
            one(LATENCY)
                .replace("trafficPercentage: 95", "trafficPercentage: 0")
                .replace("trafficPercentage: 5 ", "trafficPercentage: 100 "),
        ),
    ];
    let mut text = String::new();
    for (what, yaml) in cases {
        let checked = check(&yaml);
        assert!(checked.strategy.is_none(), "{what} was accepted");
        let found: Vec<String> = checked.diagnostics.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "## {what}\n{}\n", found.join("\n"));
    }
    insta::assert_snapshot!(text, @r#"
    ## a block begun
    32:5: error: analysis of stage "Canary 5 Percent" is empty
     32 |     analysis:
        |     ^
      help: write analysis: and below it duration:, interval: and metrics:

    ## an empty block
    32:15: error: analysis lacks duration
     32 |     analysis: {}
        |               ^
      help: write duration: 30m
    32:15: error: analysis lacks interval
     32 |     analysis: {}
        |               ^
      help: write interval: 5m
    32:15: error: analysis lacks metrics
     32 |     analysis: {}
        |               ^
      help: write metrics: and a list below it

    ## a block at the top
    1:1: error: the strategy has no key "analysis"
     1 | analysis: {}
       | ^
      help: it belongs to a stage, or to rollout

    ## interval over duration
    34:17: error: interval is longer than duration: there would be no look
     34 |       interval: 31m
        |                 ^
      help: write a shorter interval or a longer duration

    ## a look for each second
    34:17: error: that makes 1800 looks, at most 1000 are possible
     34 |       interval: 1s
        |                 ^
      help: write a longer interval

    ## an interval of nothing
    34:17: error: looks that are less than 1s apart see nothing new
     34 |       interval: 10ms
        |                 ^
      help: write how often to look, as in interval: 5m

    ## no metrics
    35:16: error: metrics is empty
     35 |       metrics: []
        |                ^
      help: name at least one

    ## limits as high as there are looks
    35:21: error: failureLimit: 6 is never passed, for there are 6 looks (duration over interval)
     35 |       failureLimit: 6
        |                     ^
      help: write less than 6, or look more often
    36:30: error: consecutiveErrorLimit: 7 is never passed, for there are 6 looks (duration over interval)
     36 |       consecutiveErrorLimit: 7
        |                              ^
      help: write less than 6, or look more often

    ## no word
    35:15: error: there is no noData "rollback"
     35 |       noData: rollback
        |               ^
      help: it is one of pause, fail, pass
    36:21: error: there is no inconclusive "passed"
     36 |       inconclusive: passed
        |                     ^
      help: did you mean pause?
    37:15: error: "yes" is neither true nor false
     37 |       dryRun: yes
        |               ^
      help: write true or false
    38:14: error: "0" is no alpha
     38 |       alpha: 0
        |              ^
      help: write the share of good releases that may be stopped by mistake, above 0 and at most 0.5, as in 0.05

    ## extend without a limit
    35:21: error: extend doesn't say for how long
     35 |       inconclusive: extend
        |                     ^
      help: write inconclusive: {extend: 30m}

    ## no limit
    35:21: error: inconclusive lacks extend
     35 |       inconclusive: {then: stop}
        |                     ^
      help: write extend: 30m
    35:28: error: there is no then "stop"
     35 |       inconclusive: {then: stop}
        |                            ^
      help: it is one of pause, fail, pass

    ## limits that are none
    35:30: error: an analysis can't go on for "0s"
     35 |       inconclusive: {extend: 0s, calls: 0, for: 1m}
        |                              ^
      help: write a time above 0 and up to 24h, as in extend: 30m
    35:41: error: "0" is no number of calls
     35 |       inconclusive: {extend: 0s, calls: 0, for: 1m}
        |                                         ^
      help: write a whole number above 0, as in 20000
    35:44: error: inconclusive has no key "for"
     35 |       inconclusive: {extend: 0s, calls: 0, for: 1m}
        |                                            ^
      help: its keys are extend, calls, then

    ## a limit of too long
    35:30: error: an analysis can't go on for "25h"
     35 |       inconclusive: {extend: 25h}
        |                              ^
      help: write a time above 0 and up to 24h, as in extend: 30m
    36:18: error: "soon" is neither true nor false
     36 |       earlyPass: soon
        |                  ^
      help: write true or false

    ## no end to pass before, or to go on after
    2:39: error: an analysis that takes as long as the release has no end that a pass could come before
     2 |   analysis: {interval: 1m, earlyPass: true, inconclusive: {extend: 10m}, metrics: [{name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE}]}
       |                                       ^
      help: write a duration, or leave earlyPass out
    2:59: error: an analysis that takes as long as the release has no end after which it could go on
     2 |   analysis: {interval: 1m, earlyPass: true, inconclusive: {extend: 10m}, metrics: [{name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE}]}
       |                                                           ^
      help: write a duration, or inconclusive: pause

    ## alpha twice
    37:14: error: alpha belongs to the release as a whole, and line 2 gives it already
     37 |       alpha: 0.05
        |              ^
      help: keep one of them: it is shared over all metrics

    ## two of a name
    37:18: error: there are two metrics "latency", the first in line 36
     37 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE}
        |                  ^
      help: rename one of them

    ## an interval of next to nothing in a metric
    36:106: error: looks that are less than 1s apart see nothing new
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, interval: 5ms}
        |                                                                                                          ^
      help: write how often to look, as in interval: 5m

    ## tolerance 0
    36:107: error: a tolerance of 0 would ask for a version that is better, since no two are exactly alike
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, tolerance: 0ms}
        |                                                                                                           ^
      help: write how much worse is still good, as in 5%

    ## a tolerance of everything
    36:107: error: a tolerance of 100 % or more leaves nothing that would be too low
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, tolerance: 100%}
        |                                                                                                           ^
      help: write less than 100%, or deviation: HIGH

    ## a tolerance without a unit
    36:107: error: the tolerance has no unit
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, tolerance: 20}
        |                                                                                                           ^
      help: write a share, as in 5%, or a time, as in 20ms

    ## a tolerance that is none
    36:107: error: "-5%" is no tolerance
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, tolerance: -5%}
        |                                                                                                           ^
      help: write a share of the other side's values, as in 5%, or an amount, as in 20ms

    ## a time of an unknown unit
    36:112: error: the unit of what a query gives is not known
     36 |         - {name: q, provider: prom, strategy: CANARY_BASELINE, query: 'x{v="{{ .Variant.Name }}"}', tolerance: 20ms}
        |                                                                                                                ^
      help: write a plain number in that unit, as in 0.02 for 20ms where the query gives seconds, or a percentage

    ## an absolute tolerance of a rate
    36:104: error: a rate takes a relative tolerance
     36 |         - {name: latency, provider: children, metric: errorRate, strategy: CANARY_BASELINE, tolerance: 20ms}
        |                                                                                                        ^
      help: write a percentage, as in 5%; floor is absolute

    ## expected and a comparison
    36:106: error: expected has a meaning only with strategy: THRESHOLD, and this one compares
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, expected: {max: 1}}
        |                                                                                                          ^
      help: leave expected out, or write strategy: THRESHOLD

    ## a threshold without a range
    36:11: error: metric "a" lacks expected
     36 |         - {name: a, provider: children, metric: errorRate, deviation: HIGH, weight: 2, quantile: p99}
        |           ^
      help: write expected: {max: 0.1}, or a strategy that compares, as in strategy: CANARY_BASELINE
    36:71: error: deviation has a meaning only with a strategy that compares, and this one is THRESHOLD
     36 |         - {name: a, provider: children, metric: errorRate, deviation: HIGH, weight: 2, quantile: p99}
        |                                                                       ^
      help: write strategy: CANARY_BASELINE, or leave deviation out
    36:85: error: weight has a meaning only with a strategy that compares, and this one is THRESHOLD
     36 |         - {name: a, provider: children, metric: errorRate, deviation: HIGH, weight: 2, quantile: p99}
        |                                                                                     ^
      help: write strategy: CANARY_BASELINE, or leave weight out
    36:98: error: quantile has a meaning only with provider: children and metric: responseTime, or a strategy that compares
     36 |         - {name: a, provider: children, metric: errorRate, deviation: HIGH, weight: 2, quantile: p99}
        |                                                                                                  ^
      help: leave quantile out

    ## a range of nothing
    36:70: error: nothing is at least 2 and at most 1
     36 |         - {name: a, provider: children, metric: errorRate, expected: {min: 2, max: 1}}
        |                                                                      ^
      help: exchange min and max

    ## a range without bounds
    36:70: error: expected names neither min nor max
     36 |         - {name: a, provider: children, metric: errorRate, expected: {}}
        |                                                                      ^
      help: write expected: {max: 0.1}, or min, or both

    ## children with a query
    36:103: error: query has a meaning only with a configured provider: children report, and take no questions
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, query: up, canaryArgs: {a: b}, floor: 1%, runVariation: 3%}
        |                                                                                                       ^
      help: leave query out
    36:119: error: canaryArgs has a, and children are asked for nothing but a variation
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, query: up, canaryArgs: {a: b}, floor: 1%, runVariation: 3%}
        |                                                                                                                       ^
      help: write canaryArgs: {variation: B}, or leave it out
    36:134: error: floor has a meaning only with provider: children and metric: errorRate
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, query: up, canaryArgs: {a: b}, floor: 1%, runVariation: 3%}
        |                                                                                                                                      ^
      help: leave floor out
    36:152: error: runVariation has a meaning only with strategy: PREVIOUS
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, query: up, canaryArgs: {a: b}, floor: 1%, runVariation: 3%}
        |                                                                                                                                                        ^
      help: leave runVariation out

    ## children without a metric
    36:11: error: metric "a" lacks metric
     36 |         - {name: a, provider: children, strategy: CANARY_BASELINE}
        |           ^
      help: write metric: responseTime or metric: errorRate

    ## children of what they do not see
    36:70: error: children report of the base version only what it did beside the new one, which is CANARY_BASELINE; of CANARY_PRIMARY they know nothing
     36 |         - {name: a, provider: children, metric: errorRate, strategy: CANARY_PRIMARY}
        |                                                                      ^
      help: write strategy: CANARY_BASELINE, or, of a service that runs the stable version a second time, which variation is which: primaryArgs: {variation: A}, canaryArgs: {variation: B}
    36:70: warning: CANARY_PRIMARY compares a fresh canary with a primary that has run for long, and is of another size
     36 |         - {name: a, provider: children, metric: errorRate, strategy: CANARY_PRIMARY}
        |                                                                      ^
      help: set up a baseline beside the canary, and write strategy: CANARY_BASELINE

    ## a provider without a query
    36:11: error: metric "a" lacks query
     36 |         - {name: a, provider: prom, metric: errorRate, expected: {max: 1}}
        |           ^
      help: write what to ask the provider, as in query: up{variant="{{ .Variant.Name }}"}
    36:45: error: metric has a meaning only with provider: children
     36 |         - {name: a, provider: prom, metric: errorRate, expected: {max: 1}}
        |                                             ^
      help: write a query instead

    ## nobody is asked
    36:11: error: metric "a" lacks provider
     36 |         - {name: a, expected: {max: 1}}
        |           ^
      help: write provider: children, or the name of a provider that is configured

    ## words that are near
    36:49: error: there is no metric of children "response_time"
     36 |         - {name: a, provider: children, metric: response_time, strategy: CANARY_BASE, deviation: UP}
        |                                                 ^
      help: did you mean responseTime?
    36:74: error: there is no strategy "CANARY_BASE"
     36 |         - {name: a, provider: children, metric: response_time, strategy: CANARY_BASE, deviation: UP}
        |                                                                          ^
      help: did you mean CANARY_BASELINE?
    36:98: error: there is no deviation "UP"
     36 |         - {name: a, provider: children, metric: response_time, strategy: CANARY_BASE, deviation: UP}
        |                                                                                                  ^
      help: it is one of LOW, HIGH, EITHER

    ## both sides alike
    36:47: warning: CANARY_PRIMARY compares a fresh canary with a primary that has run for long, and is of another size
     36 |         - {name: a, provider: prom, strategy: CANARY_PRIMARY, query: up}
        |                                               ^
      help: set up a baseline beside the canary, and write strategy: CANARY_BASELINE
    36:70: error: the query asks for the same on both sides: it names no variant
     36 |         - {name: a, provider: prom, strategy: CANARY_PRIMARY, query: up}
        |                                                                      ^
      help: name it, as in {variant="{{ .Variant.Name }}"}, or use .VariantArgs with arguments that differ

    ## both sides alike by their arguments
    36:71: error: the query asks for the same on both sides: it names no variant
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: 'x{a="{{ .VariantArgs.a }}"}', canaryArgs: {a: 1}, baselineArgs: {a: 1}}
        |                                                                       ^
      help: name it, as in {variant="{{ .Variant.Name }}"}, or use .VariantArgs with arguments that differ

    ## variables that there are not
    36:72: error: there is no variable .Variant.Nmae
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                        ^
      help: did you mean .Variant.Name?
    36:92: error: there is no variable .App.Name
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                                            ^
      help: write {{ .BuiltInArgs.App.Name }}
    36:108: error: there is no variable .VariantArg.x
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                                                            ^
      help: did you mean .VariantArgs.x? Give it under baselineArgs, canaryArgs or primaryArgs
    36:128: error: "{{ if .x }}" is not a variable
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                                                                                ^
      help: write variables alone, as in {{ .Variant.Name }}: there are no functions and no conditions
    36:140: error: there is no variable .Foo
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                                                                                            ^
      help: it is .Variant.Name, .BuiltInArgs.App.Name, .VariantArgs.NAME or .AppArgs.NAME
    36:151: error: "{{ .Bar" is never closed
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .Variant.Nmae }} {{ .App.Name }} {{ .VariantArg.x }} {{ if .x }} {{ .Foo }} {{ .Bar'}
        |                                                                                                                                                       ^
      help: end a variable with }}

    ## arguments that there are not
    36:75: error: the query names .VariantArgs.job, but baselineArgs has no job
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .VariantArgs.job }} {{ .AppArgs.x }}', canaryArgs: {job: x}, baselineArgs: {jbo: x}, primaryArgs: {job: x}}
        |                                                                           ^
      help: did you mean jbo?
    36:98: error: the query names .AppArgs.x, but appArgs has no x
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .VariantArgs.job }} {{ .AppArgs.x }}', canaryArgs: {job: x}, baselineArgs: {jbo: x}, primaryArgs: {job: x}}
        |                                                                                                  ^
      help: add it, as in appArgs: {x: value}
    36:150: warning: the query doesn't name the argument jbo of baselineArgs
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .VariantArgs.job }} {{ .AppArgs.x }}', canaryArgs: {job: x}, baselineArgs: {jbo: x}, primaryArgs: {job: x}}
        |                                                                                                                                                      ^
      help: write {{ .VariantArgs.jbo }} into the query, or leave the argument out
    36:173: error: primaryArgs has a meaning only with strategy: CANARY_PRIMARY and PREVIOUS
     36 |         - {name: a, provider: prom, strategy: CANARY_BASELINE, query: '{{ .VariantArgs.job }} {{ .AppArgs.x }}', canaryArgs: {job: x}, baselineArgs: {jbo: x}, primaryArgs: {job: x}}
        |                                                                                                                                                                             ^
      help: leave primaryArgs out

    ## arguments that no query can name
    36:81: error: a query can't name the argument "a-b"
     36 |         - {name: a, provider: prom, query: up, expected: {max: 1}, canaryArgs: {a-b: x, c: [1]}}
        |                                                                                 ^
      help: use letters, digits and _
    36:89: error: an argument of canaryArgs has no name or no single value
     36 |         - {name: a, provider: prom, query: up, expected: {max: 1}, canaryArgs: {a-b: x, c: [1]}}
        |                                                                                         ^
      help: write name: value

    ## a path that is none
    36:78: error: "values[" is no path into JSON: at position 0, parser error
     36 |         - {name: a, provider: stats, query: /, expected: {max: 1}, jsonPath: 'values['}
        |                                                                              ^
      help: write it as RFC 9535 has it, as in $.values[*]

    ## a series without an end
    4:15: error: metric "q" compares series, for which the end must be known beforehand
     4 |     metrics: [{name: q, provider: prom, strategy: CANARY_BASELINE, query: 'x{v="{{ .Variant.Name }}"}'}]
       |               ^
      help: write the duration of the analysis, as in duration: 30m

    ## weight of a dry run
    36:118: error: weight has a meaning only with a share in alpha, and a dry run has none
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE, dryRun: true, weight: 2}
        |                                                                                                                      ^
      help: leave weight out

    ## a side without traffic
    36:37: error: the stage gives the base version no traffic, so there is nothing to compare
     36 |         - {name: latency, provider: children, metric: responseTime, strategy: CANARY_BASELINE}
        |                                     ^
      help: give both versions traffic, or use another strategy or provider
    "#);
}

#[test]
fn a_fault_in_a_query_of_several_lines_is_shown_in_its_line() {
    let text = "duration: 30m\ninterval: 5m\nmetrics:\n  - name: a\n    provider: prom\n    expected: {max: 1}\n    query: |\n      sum(\n        x{v=\"{{ .Variant.Nmae }}\"}\n      )";
    insta::assert_snapshot!(super::rendered(&in_stage(text)), @r#"
    r.yml:41:20: error: there is no variable .Variant.Nmae
     41 |               x{v="{{ .Variant.Nmae }}"}
        |                    ^
      help: did you mean .Variant.Name?
    "#);
}

#[test]
fn every_fault_of_the_file_of_providers_has_its_place() {
    let read = |text: &str| -> String {
        let found: Vec<String> = Providers::read(text).1.iter().map(|d| d.render("p.yml")).collect();
        found.join("\n")
    };
    let text = "providers:
  children: {type: prometheus, url: 'http://x'}
  a: {type: promethues, url: 'ftp://x'}
  b: {type: web, url: 'http://me:secret@x/', step: 5s, timeout: 0s, ca_file: a.pem}
  c: {type: prometheus, url: 'https://x?y', json_path: $.a, max_points: 0, tokenfile: x}
  d: {type: prometheus, url: 'https://x', bearer_token_file: t, basic_auth: {username: u}}
  d: {type: web}
";
    insta::assert_snapshot!(read(text), @r#"
    p.yml:2:3: error: children is what stands for the results of children
     2 |   children: {type: prometheus, url: 'http://x'}
       |   ^
      help: call the provider otherwise
    p.yml:3:13: error: there is no type of a provider "promethues"
     3 |   a: {type: promethues, url: 'ftp://x'}
       |             ^
      help: did you mean prometheus?
    p.yml:3:30: error: the address "ftp://x" begins with neither http:// nor https://
     3 |   a: {type: promethues, url: 'ftp://x'}
       |                              ^
      help: write it as in http://127.0.0.1:9090 or https://metrics.example/prometheus
    p.yml:4:23: error: the address holds a user or a password, which would be shown in messages
      help: leave it out, and write basic_auth with a password_file
    p.yml:4:46: error: step has a meaning only with type: prometheus
      help: leave step out
    p.yml:4:65: error: an answer can't be waited for "0s"
      help: write a time above 0 and at most 5m
    p.yml:5:30: error: the address "https://x?y" has a query or a fragment, which belong to the query of a metric
     5 |   c: {type: prometheus, url: 'https://x?y', json_path: $.a, max_points: 0, tokenfile: x}
       |                              ^
      help: write it as in http://127.0.0.1:9090 or https://metrics.example/prometheus
    p.yml:5:45: error: json_path has a meaning only with type: web
     5 |   c: {type: prometheus, url: 'https://x?y', json_path: $.a, max_points: 0, tokenfile: x}
       |                                             ^
      help: leave json_path out
    p.yml:5:73: error: "0" is no number of points
     5 |   c: {type: prometheus, url: 'https://x?y', json_path: $.a, max_points: 0, tokenfile: x}
       |                                                                         ^
      help: write one from 1 to 1000000
    p.yml:5:76: error: provider "c" has no key "tokenfile"
     5 |   c: {type: prometheus, url: 'https://x?y', json_path: $.a, max_points: 0, tokenfile: x}
       |                                                                            ^
      help: its keys are type, url, timeout, bearer_token_file, basic_auth, ca_file, step, max_points, json_path
    p.yml:6:65: error: basic_auth and bearer_token_file are both given, and one header holds either
     6 |   d: {type: prometheus, url: 'https://x', bearer_token_file: t, basic_auth: {username: u}}
       |                                                                 ^
      help: keep one of the two
    p.yml:6:77: error: basic_auth lacks password_file
     6 |   d: {type: prometheus, url: 'https://x', bearer_token_file: t, basic_auth: {username: u}}
       |                                                                             ^
      help: write password_file: /etc/password
    p.yml:7:6: error: provider "d" lacks url
     7 |   d: {type: web}
       |      ^
      help: write url: http://127.0.0.1:9090
    "#);
}

/// The shapes in which analyses of this kind are documented elsewhere: intervals and no names on metrics, numbers as arguments,
/// the group of built-in variables.
#[test]
fn blocks_load_as_they_are_documented_elsewhere() {
    let block_of = |text: &str| {
        let (faults, strategy) = judged(&in_stage(text), &site("metrics: {}"));
        let errors: Vec<&String> = faults.iter().filter(|fault| fault.contains(": error: ")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let mut found = strategy.unwrap().stages[0].analysis.clone().unwrap();
        found.metrics.retain(|metric| !matches!(metric.rule, Rule::Condition(_)));
        found
    };
    let threshold = block_of(
        "duration: 30m\nmetrics:\n  - provider: prom\n    interval: 10m\n    expected:\n      max: 0.1\n    query: rate(cpu{app=\"shop\"}[10m])\n",
    );
    assert_eq!(threshold.interval, Duration::from_mins(10));
    assert_eq!((&*threshold.metrics[0].name, threshold.metrics[0].interval), ("THRESHOLD prom", None));
    let previous = block_of(
        "duration: 30m\nmetrics:\n  - strategy: PREVIOUS\n    provider: prom\n    interval: 10m\n    deviation: HIGH\n    query: rate(cpu{app=\"shop\"}[10m])\n",
    );
    assert_eq!(previous.metrics[0].name, "PREVIOUS prom");
    let baseline = block_of(
        "duration: 30m\nmetrics:\n  - strategy: CANARY_BASELINE\n    provider: prom\n    interval: 10m\n    deviation: HIGH\n    query: rate(cpu{variant=\"{{ .BuiltInArgs.Variant.Name }}\"}[10m])\n",
    );
    assert_eq!(baseline.metrics[0].name, "CANARY_BASELINE prom");
    let args = block_of(
        "duration: 30m\nmetrics:\n  - strategy: CANARY_BASELINE\n    provider: prom\n    interval: 10m\n    query: rate(cpu{job=\"{{ .VariantArgs.job }}\"}[10m])\n    baselineArgs:\n      job: 1\n    canaryArgs:\n      job: 2\n",
    );
    let MetricSource::Query(asked) = &args.metrics[0].source else { panic!("{args:?}") };
    assert_eq!(asked.canary_args["job"], "2");
    let short = block_of(
        "duration: 30m\nmetrics:\n  - provider: prom\n    interval: 5m\n    expected: {max: 0.1}\n    query: |\n      sum(rate(failed{variant=\"{{ .Variant }}\"}[10m]))\n      /\n      sum(rate(calls{variant=\"{{ .Variant }}\"}[10m]))\n",
    );
    let MetricSource::Query(asked) = &short.metrics[0].source else { panic!("{short:?}") };
    assert!(asked.text(Variant::Canary, "sieve", Escape::PromQl).unwrap().contains("variant=\"canary\""));
    // A name without a value is the function's, and it is said how that is written now.
    let named = in_stage(
        "duration: 30m\nmetrics:\n  - provider: prom\n    interval: 5m\n    expected: {max: 0.1}\n    query: up{job=\"{{ .AppArgs.Name }}\"}\n",
    );
    let (faults, strategy) = judged(&named, &site("metrics: {}"));
    assert!(faults[0].contains("warning") && faults[0].contains("{{ .BuiltInArgs.App.Name }}"), "{faults:?}");
    let found = strategy.unwrap().stages[0].analysis.clone().unwrap();
    let MetricSource::Query(asked) = &found.metrics[0].source else { panic!("{found:?}") };
    assert_eq!(asked.text(Variant::Canary, "sieve", Escape::PromQl).unwrap(), "up{job=\"sieve\"}");
}

#[test]
fn a_metric_has_an_interval_of_its_own() {
    let metric = |more: &str| format!("  - {{provider: prom, expected: {{max: 1}}, query: up{more}}}\n");
    let block = |head: &str, metrics: &[&str]| {
        let metrics: String = metrics.iter().map(|more| metric(more)).collect();
        in_stage(&format!("duration: 1h\n{head}metrics:\n{metrics}"))
    };
    let found = |text: &str| {
        let (faults, strategy) = judged(text, &site("metrics: {}"));
        let found = strategy.unwrap_or_else(|| panic!("{faults:?}")).stages[0].analysis.clone().unwrap();
        let own = |metric: &Metric| metric.interval.map(|interval| interval.as_secs());
        (found.interval.as_secs(), found.metrics[..2].iter().map(own).collect::<Vec<_>>())
    };
    // The block looks as often as any of its metrics; who is looked at less often says so.
    assert_eq!(found(&block("interval: 5m\n", &["", ", interval: 10m"])), (300, vec![None, Some(600)]));
    assert_eq!(found(&block("interval: 5m\n", &["", ", interval: 1m"])), (60, vec![Some(300), None]));
    assert_eq!(found(&block("", &[", interval: 2m", ", interval: 3m"])), (120, vec![None, Some(180)]));
    assert_eq!(found(&block("interval: 5m\n", &[", interval: 5m", ""])), (300, vec![None, None]));
    for (head, metrics, says) in [
        ("", ["", ", interval: 5m"], "analysis lacks interval"),
        ("", [", interval: 2h", ", interval: 5m"], "longer than duration"),
        ("", [", interval: 1s", ", interval: 5m"], "3600 looks"),
        ("interval: 5m\n", ["", ", interval: 10ms"], "less than 1s apart"),
        ("interval: 5m\n", ["", ", interval: 30m, failureLimit: 2"], "2 looks"),
    ] {
        let (faults, _) = judged(&block(head, &metrics), &site("metrics: {}"));
        assert!(faults.iter().any(|fault| fault.contains(says)), "{says}: {faults:#?}");
    }
}

#[test]
fn metrics_without_names_are_numbered() {
    let unnamed = "provider: prom, expected: {max: 1}, query: up";
    let named = format!("name: THRESHOLD prom 2, {unnamed}");
    let children = "provider: children, metric: errorRate, strategy: CANARY_BASELINE";
    let text = in_stage(&metrics(&[unnamed, unnamed, &named, children, unnamed]));
    let (faults, strategy) = judged(&text, &site("metrics: {}"));
    assert_eq!(faults, [] as [String; 0]);
    let found = strategy.unwrap().stages[0].analysis.clone().unwrap();
    let names: Vec<&str> = found.metrics[..5].iter().map(|metric| &*metric.name).collect();
    assert_eq!(
        names,
        [
            "THRESHOLD prom",
            "THRESHOLD prom 3",
            "THRESHOLD prom 2",
            "CANARY_BASELINE children",
            "THRESHOLD prom 4"
        ]
    );
}

#[test]
fn what_was_called_otherwise_is_named_as_it_is_today() {
    let asks = |query: &str| {
        let text = in_stage(&metrics(&[&format!("provider: prom, expected: {{max: 1}}, query: '{query}'")]));
        judged(&text, &site("metrics: {}")).0.join("\n")
    };
    for (query, says) in [
        ("up{n=\"{{ .K8s.Namespace }}\"}", "write {{ .BuiltInArgs.App.K8s.Namespace }}, and namespace: NAME"),
        ("up{n=\"{{ .BuiltInArgs.App.K8s.Namespace }}\"}", "write namespace: NAME into the release"),
        ("up{n=\"{{ .App.Name }}\"}", "write {{ .BuiltInArgs.App.Name }}"),
        ("up{n=\"{{ .AppArgs.Name }}\"}", "write {{ .BuiltInArgs.App.Name }}, or give it"),
    ] {
        assert!(asks(query).contains(says), "{query}: {}", asks(query));
    }
    let args = in_stage(&metrics(&["template: {name: errors, args: {job: x}}"]));
    let found = judged(&args, &site(TEMPLATES)).0.join("\n");
    assert!(found.contains("it is called appArgs"), "{found}");
}

#[test]
fn a_release_says_where_its_functions_run() {
    let query = "provider: prom, expected: {max: 1}, query: 'up{n=\"{{ .BuiltInArgs.App.K8s.Namespace }}\"}'";
    let own = format!("{query}, namespace: other");
    let text = in_stage(&metrics(&[query, &own]));
    let (faults, strategy) = judged(&format!("namespace: shop\n{text}"), &site("metrics: {}"));
    assert_eq!(faults, [] as [String; 0]);
    let found = strategy.unwrap().stages[0].analysis.clone().unwrap();
    let asked = |at: usize| match &found.metrics[at].source {
        MetricSource::Query(asked) => asked.text(Variant::Canary, "sieve", Escape::PromQl).unwrap(),
        MetricSource::Children(_) => panic!("{found:?}"),
    };
    assert_eq!([asked(0), asked(1)], ["up{n=\"shop\"}", "up{n=\"other\"}"]);
    let (faults, _) = judged(&format!("namespace: Shop Floor\n{text}"), &site("metrics: {}"));
    assert!(faults[0].contains("is no namespace"), "{faults:?}");
    // A release that says it and never asks is the one that it was.
    let plain = in_stage(&metrics(&[QUERY]));
    let strategy = |text: &str| judged(text, &site("metrics: {}")).1.unwrap();
    assert_eq!(strategy(&plain), strategy(&format!("namespace: shop\n{plain}")));
}

#[test]
fn what_can_be_judged_but_not_well_is_said() {
    let primary = QUERY.replace("CANARY_BASELINE", "CANARY_PRIMARY");
    let previous = QUERY.replace("CANARY_BASELINE", "PREVIOUS").replace("name: q", "name: r");
    let children = "name: s, provider: children, metric: responseTime, strategy: PREVIOUS";
    let known = format!("{}, runVariation: 3%", previous.replace("name: r", "name: t"));
    let text = in_stage(&metrics(&[&primary, &previous, children, &known]));
    let (faults, strategy) = judged(&text, &site("metrics: {}"));
    assert!(strategy.is_some(), "{faults:?}");
    assert_eq!(faults.len(), 3, "{faults:#?}");
    for (fault, says) in faults.iter().zip(["CANARY_BASELINE", "5 earlier weeks", "nothing can be decided"]) {
        assert!(fault.contains("warning") && fault.contains(says), "{fault}");
    }
}
