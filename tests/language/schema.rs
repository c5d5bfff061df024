use std::{collections::BTreeSet, sync::LazyLock};

use language::{
    OrderWord, Severity, check, check_stored,
    schema::{StrategyForm, schema},
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    string::string_regex,
};
use regex_automata::meta::Regex;
use serde_json::Value;

use super::{REFERENCE, samples, with};

#[test]
fn every_sample_fits_the_documented_form() {
    for (file, text) in samples().into_iter().chain([("reference".to_owned(), REFERENCE.to_owned())]) {
        if let Err(error) = serde_saphyr::from_str::<StrategyForm>(&text) {
            panic!("{file}: {error}");
        }
    }
}

#[test]
fn the_schema_names_its_draft_and_refuses_unknown_keys() {
    let schema = serde_json::to_value(schema()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["id", "name"]));
    let either = serde_json::json!([
        {"required": ["functions", "stages"]},
        {"required": ["services", "stages"]},
        {"required": ["services", "strategy"]},
    ]);
    assert_eq!(schema["anyOf"], either);
}

/// Where editors find it: samples name it in their first line.
const FILE: &str = "config/release.schema.json";

#[test]
fn the_schema_that_samples_name_is_the_one_of_this_program() {
    let root = crate::repository();
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let kept = std::fs::read_to_string(root.join(FILE)).unwrap_or_default();
    assert!(kept == text, "it is stale: cargo run -- schema > {FILE}");
    for (file, text) in samples() {
        let first = text.lines().next().unwrap();
        let named =
            first.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{file}"));
        assert_eq!(root.join("releases").join(named).canonicalize().unwrap(), root.join(FILE), "{file}");
    }
}

#[test]
fn positions_are_bounded_as_the_check_bounds_them() {
    let schema = serde_json::to_value(schema()).unwrap();
    let position = &schema["$defs"]["PositionForm"];
    for (at, most) in [(0, 540.0), (1, 90.0)] {
        let bounds = &position["prefixItems"][at];
        assert_eq!((bounds["minimum"].as_f64(), bounds["maximum"].as_f64()), (Some(-most), Some(most)));
    }
    assert_eq!(schema["$defs"]["RingForm"]["minItems"], 4);
    assert_eq!(schema["$defs"]["WaveForm"]["anyOf"][0]["minimum"], 1);
}

/// Each pattern of the schema once: its place in the schema stands where a value is to stand. A strategy by name that can't be read
/// hides what its stages would be, hence the second text.
const EACH_PATTERN: [&str; 2] = [
    "id: 1
name: functions
offer_deadline: /$defs/DurationForm
functions:
  - name: sieve
    base_version: {path: fns/sample_f1, env: nodejs}
    new_version: {path: fns/sample_f2, env: nodejs}
    sticky:
      cookie: /$defs/StickyName
stages:
  - name: Canary
    type: A/B
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 90}, {name: new_version, trafficPercentage: 10}]
    metrics_conditions:
      - name: responseTime
        threshold: /$defs/ConditionForm/properties/threshold
      - name: responseTime
        threshold: <1
        compareWith: /$defs/ConditionForm/properties/compareWith
    end_action: {onSuccess: rollout}
rollout:
  max_failed: /$defs/AmountForm/anyOf/1
  min_succeeded: /$defs/WaveForm/anyOf/1
  no_calls: /$defs/RolloutForm/properties/no_calls
",
    "id: 2
name: services
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ['127.0.0.1:9101']}, {name: B, targets: ['127.0.0.1:9111']}]
strategy:
  stages:
    - traffic: 100
      duration: 0s
      healthy_targets: /$defs/PercentForm/anyOf/1
      approval: /$defs/TruthForm/anyOf/1
",
];

struct Pattern {
    place: &'static str,
    text: String,
    regex: Regex,
    max_length: u64,
}

impl Pattern {
    fn at(place: &'static str, schema: &Value) -> Self {
        let form = schema.pointer(place).unwrap_or_else(|| panic!("the schema has no {place}"));
        let text = form["pattern"].as_str().unwrap().to_owned();
        let regex = Regex::new(&text).unwrap();
        Self { place, text, regex, max_length: form["maxLength"].as_u64().unwrap_or(u64::MAX) }
    }

    fn allows(&self, text: &str) -> bool {
        text.chars().count() as u64 <= self.max_length && self.regex.is_match(text) && !self.is_beyond(text)
    }

    /// Of a text that matches: whether it breaks a rule that the schema has in words only, since no pattern adds up or compares.
    fn is_beyond(&self, text: &str) -> bool {
        match self.place {
            "/$defs/AmountForm/anyOf/1" | "/$defs/WaveForm/anyOf/1" => {
                text.trim().parse::<u64>().is_ok_and(|count| count > u32::MAX.into())
            }
            "/$defs/DurationForm" | "/$defs/RolloutForm/properties/no_calls" => is_beyond_durations(text),
            "/$defs/ConditionForm/properties/threshold" => {
                let number = text.trim().trim_start_matches(['<', '>', '=']).trim();
                let in_millis = number.strip_suffix("ms").map(|number| (number, 1.0));
                let in_seconds = || number.strip_suffix('s').map(|number| (number, 1000.0));
                let (number, factor) = in_millis.or_else(in_seconds).unwrap_or((number, 1.0));
                // It stands with a time, which has no percentage.
                let value = number.trim_end_matches('%').trim().parse::<f64>().unwrap();
                number.ends_with('%') || value * factor > 1e9
            }
            _ => false,
        }
    }

    /// Texts that match it, most of them with some characters put in, replaced or left out.
    fn nearby(&self) -> impl Strategy<Value = String> + use<> {
        let matching = string_regex(self.text.trim_start_matches('^').trim_end_matches('$')).unwrap();
        let chars: Vec<char> = "0123459.%+-eE<=> \t\u{a0}dhmsafterPM\n'٣é".chars().collect();
        let edit = (any::<Index>(), select(chars), 0..3_u8);
        (matching, vec(edit, 0..4)).prop_map(|(text, edits)| {
            let mut chars: Vec<char> = text.chars().collect();
            for (place, char, kind) in edits {
                let at = place.index(chars.len() + 1);
                let end = if kind == 0 { at } else { chars.len().min(at + 1) };
                chars.splice(at..end, (kind < 2).then_some(char));
            }
            chars.into_iter().collect()
        })
    }
}

/// Whether a number of a duration comes to parts of a millisecond, or all together to over 366 days.
fn is_beyond_durations(text: &str) -> bool {
    const UNITS: [(&str, u128); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("i", 1)];
    const MILLI: u128 = 1_000_000_000;
    let text = text.replace("ms", "i");
    let terms = text.split_inclusive(|c: char| c.is_ascii_alphabetic()).filter_map(|term| {
        let unit = |(unit, millis)| Some((term.trim().strip_suffix(unit)?, millis));
        let (number, millis) = UNITS.into_iter().find_map(unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        Some(format!("{whole}{fraction:0<9}").parse::<u128>().unwrap() * millis)
    });
    let terms: Vec<u128> = terms.collect();
    terms.iter().any(|term| term % MILLI > 0) || terms.iter().sum::<u128>() > 366 * 86_400_000 * MILLI
}

/// In the order of [`EACH_PATTERN`].
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let schema = serde_json::to_value(schema()).unwrap();
    let lines = EACH_PATTERN.iter().flat_map(|text| text.lines());
    let patterns: Vec<_> = lines.filter_map(|line| Some(Pattern::at(slot(line)?.1, &schema))).collect();
    let mut places = BTreeSet::new();
    places_of_patterns(&schema, "", &mut places);
    assert_eq!(patterns.iter().map(|it| it.place.to_owned()).collect::<BTreeSet<_>>(), places);
    patterns
});

/// The key of a line, and the place of the pattern that its value has.
fn slot(line: &'static str) -> Option<(&'static str, &'static str)> {
    line.split_once(": ").filter(|(_, place)| place.starts_with("/$defs/"))
}

fn places_of_patterns(form: &Value, place: &str, found: &mut BTreeSet<String>) {
    if form["pattern"].is_string() {
        found.insert(place.to_owned());
    }
    for (key, form) in form.as_object().into_iter().flatten() {
        places_of_patterns(form, &format!("{place}/{key}"), found);
    }
    for (at, form) in form.as_array().into_iter().flatten().enumerate() {
        places_of_patterns(form, &format!("{place}/{at}"), found);
    }
}

/// Whether the reader takes each text at the place of its pattern.
fn taken(texts: &[impl AsRef<str>]) -> Vec<bool> {
    let (mut texts, mut taken) = (texts.iter(), Vec::new());
    for form in EACH_PATTERN {
        let (mut strategy, mut lines) = (String::new(), Vec::new());
        for (line, number) in form.lines().zip(1_u32..) {
            if let Some((key, _)) = slot(line) {
                lines.push(number);
                strategy.push_str(&format!("{key}: {}\n", Value::from(texts.next().unwrap().as_ref())));
            } else {
                strategy.push_str(&format!("{line}\n"));
            }
        }
        let found = check(&strategy).diagnostics;
        let faults = found.iter().filter(|found| found.severity == Severity::Error);
        let faults: Vec<u32> = faults.map(|fault| fault.line).collect();
        let of_form = lines.iter().map(|line| !faults.contains(line));
        taken.extend(of_form.clone());
        assert_eq!(faults.is_empty(), of_form.min() == Some(true), "a fault of something else: {found:?}");
    }
    taken
}

/// The reader's verdicts, which are the schema's.
fn verdicts(texts: &[impl AsRef<str>]) -> Vec<bool> {
    let taken = taken(texts);
    for ((pattern, text), taken) in PATTERNS.iter().zip(texts).zip(&taken) {
        let text = text.as_ref();
        assert_eq!(pattern.allows(text), *taken, "schema and reader of {text:?} at {}", pattern.place);
    }
    taken
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn the_reader_takes_what_the_patterns_of_the_schema_allow_and_nothing_else(
        texts in PATTERNS.iter().map(Pattern::nearby).collect::<Vec<_>>(),
    ) {
        verdicts(&texts);
    }
}

/// What schema and reader disagreed about, and what lies beside it: first what is taken, then what is refused, with slashes between.
#[test]
fn texts_on_either_side_of_a_pattern_are_judged_alike() {
    let long = "x".repeat(128);
    for (form, good, bad) in [
        (
            "WaveForm/anyOf/1",
            "1/007/4294967295/0.0001%/0.1000 %/000000000.01%/000000099.9999%/000000100.0000%",
            "/0/000/0%/0.0%/0.00%/0.0000%/0000000000.01%/0000000001%/1.00001%/100.0001%/101%/4294967296/+1/-1%/1e1%/.5%/5.%/1 0/%",
        ),
        (
            "AmountForm/anyOf/1",
            "0/00000000001/4294967295/0%/0.0%/000000001%/ 100.0000 % ",
            "/0000000001%/0000000100%/1.00001%/100.0001%/101%/4294967296/42949672950/1.5/-0",
        ),
        (
            "DurationForm",
            "0/000/366d/8784h/1d1d/00000000000000001h/1.000ms/0.0010000s/0.00005m/0.0000025h/0.000000625d",
            "/1/367d/366d1ms/4000d/99999h/0.5ms/0.0001s/0.00001m/0.0000000000s/1.s/.5s/1 h/1H/-1s/1e3s/1us",
        ),
        (
            "RolloutForm/properties/no_calls",
            "never/after 0/ after  1h30m /after 1.0ms",
            "/1h/after/after 2/after1h/after a while/after 0.5ms/after 1h never/after 367d/Never",
        ),
        (
            "ConditionForm/properties/threshold",
            "<0.02/ <= 250 /==1/=.5/>5./>=+2E+2/<1e9/<1e-999/<=250ms/< 1.5 s /<2e3 ms/<1000000s",
            "/5/</<-0/<-0.0/<-1/<-1e-999/<1e/<e1/<./<1.2.3/<1-2/<+-1/=<1/<>1/< =1/<1e10/<1e999/<inf/<NaN/<2%/<2m/<s/<2 m s/<2mss/<1000001s",
        ),
        (
            "ConditionForm/properties/compareWith",
            "Median/Minimum/Maximum/P95/P99.9999/P0.00001/P9.123456/P095/P.5/P5.",
            "/P/P0/P00.00/P100/P101/P99.999999/P0.0000001/P9.5.1/P./P-1/P1e1/p95/median/ P95",
        ),
        (
            "PercentForm/anyOf/1",
            "0/0.00/000/099.99/ 100.0 /0.25",
            "/100.01/101/656/999/0000/0100/0.255/.5/5./5%/+5/-0/1e1",
        ),
        ("StickyName", &format!("X-User/!#$%&'*+.^_`|~-/{long}"), &format!("/a b/a:b/é/a\n/ a/x{long}")),
        ("TruthForm/anyOf/1", "true/false", "/yes/True/ true/0"),
    ] {
        let at = PATTERNS.iter().position(|it| it.place == format!("/$defs/{form}")).unwrap();
        for (texts, expected) in [(good, true), (bad, false)] {
            for text in texts.split('/') {
                assert_eq!(verdicts(&vec![text; PATTERNS.len()])[at], expected, "{form}: {text:?}");
            }
        }
    }
}

#[test]
fn a_stored_threshold_of_minus_nought_is_read_as_nought() {
    let read = |number| check_stored(&with("<0.02", number)).strategy;
    assert!(read("<0").is_some());
    assert_eq!(read("<-0"), read("<0"));
    assert_eq!(read("<-1"), None);
}

/// What is no word of a pattern the check bounds, and so does the schema.
#[test]
fn what_lies_beyond_the_bounds_is_refused_by_the_check() {
    for (key, value) in [
        ("rollout", "{order: waves, waves: [0, 100%]}"),
        ("rollout", "{order: waves, waves: [0.0%, 100%]}"),
        ("target", "{area: {type: Polygon, coordinates: [[[0, 91], [1, 0], [1, 1], [0, 91]]]}}"),
    ] {
        assert!(check(&format!("{REFERENCE}\n{key}: {value}\n")).strategy.is_none(), "{value}");
    }
}

#[test]
fn the_schema_names_each_order_that_can_be_written_and_no_other() {
    let schema = serde_json::to_value(schema()).unwrap();
    let words = schema["$defs"]["OrderForm"]["oneOf"].as_array().unwrap();
    let documented: Vec<&str> = words.iter().map(|word| word["const"].as_str().unwrap()).collect();
    assert_eq!(documented, OrderWord::NAMES);
}
