use language::{
    Diagnostic, OrderWord, check,
    schema::{StrategyForm, schema},
};
use proptest::{prelude::*, string::string_regex};

use super::{REFERENCE, samples};

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
    assert!(kept == text, "write it anew: cargo run -- schema > {FILE}");
    for (file, text) in samples() {
        let first = text.lines().next().unwrap();
        let named =
            first.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{file}"));
        assert_eq!(root.join("releases").join(named).canonicalize().unwrap(), root.join(FILE), "{file}");
    }
}

/// The pattern under a path of the schema, without its anchors.
fn pattern(path: &str) -> String {
    let schema = serde_json::to_value(schema()).unwrap();
    let found = schema.pointer(path).unwrap_or_else(|| panic!("{path}: {schema:#}"));
    // Line breaks within quotes are YAML's business.
    found.as_str().unwrap().trim_start_matches('^').trim_end_matches('$').replace("\\s", " ")
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

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn durations_that_the_schema_allows_are_read(text in string_regex(&pattern("/$defs/DurationForm/pattern")).unwrap()) {
        let text = format!("{REFERENCE}\nstage_deadline: '{text}'\n");
        let faults: Vec<String> = check(&text).diagnostics.into_iter().map(|d| d.message).collect();
        // Sums over a year, and parts of a millisecond, are for the check to find.
        let known = |fault: &String| {
            fault.contains("over 366 days") || fault.contains("is not a duration") || fault.contains("below the minDuration")
        };
        prop_assert!(faults.iter().all(known), "{text}: {faults:?}");
    }

    #[test]
    fn ends_without_calls_that_the_schema_allows_are_read(
        text in string_regex(&pattern("/$defs/RolloutForm/properties/no_calls/pattern")).unwrap(),
    ) {
        let text = format!("{REFERENCE}\nrollout: {{no_calls: '{text}'}}\n");
        let faults: Vec<String> = check(&text).diagnostics.into_iter().map(|d| d.message).collect();
        let known = |fault: &String| {
            fault.contains("over 366 days") || (text.contains('.') && fault.contains("is not a duration"))
        };
        prop_assert!(faults.iter().all(known), "{text}: {faults:?}");
    }

    #[test]
    fn waves_that_the_schema_allows_are_read(text in string_regex(&pattern("/$defs/WaveForm/anyOf/1/pattern")).unwrap()) {
        let text = format!("{REFERENCE}\nrollout: {{order: waves, waves: ['{text}', 100%]}}\n");
        let checked = check(&text);
        // One that is no smaller than the last is no fault of its own.
        let known = |d: &Diagnostic| d.message.contains("is not larger than") || d.message.contains("neither a count");
        prop_assert!(checked.diagnostics.iter().all(known), "{text}: {:?}", checked.diagnostics);
    }
}

/// What lies beyond the bounds is no word of a pattern: the check refuses it, and so does the schema.
#[test]
fn what_lies_beyond_the_bounds_is_refused_by_the_check() {
    for (key, value) in [
        ("stage_deadline", "4000d"),
        ("stage_deadline", "99999h"),
        ("rollout", "{no_calls: after a while}"),
        ("rollout", "{no_calls: after 2}"),
        ("rollout", "{no_calls: 1h}"),
        ("rollout", "{order: waves, waves: [0, 100%]}"),
        ("rollout", "{order: waves, waves: [0%, 100%]}"),
        ("rollout", "{order: waves, waves: [101%]}"),
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
