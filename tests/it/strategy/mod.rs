//! The language: what loads, what is refused and how, what is handed out.

mod analysis;
mod blocks;
mod faults;
mod import;
mod properties;
mod render;
mod samples;
mod schema;
mod sticky;
mod stored;
mod validate;

use language::{Strategy, check};

/// A text of our own that means what the sample of the reference means, with its spellings: numeric id, mixed
/// quoting, comments, no final newline.
pub const REFERENCE: &str = r#"id: 11
name: canary5percent
type: patch/major/minor
functions:
  - name: sieve
    base_version:
      path: fns/sample_f1
      env: nodejs
    new_version:
      path: fns/sample_f2
      env: nodejs
stages:
  - name: Canary 5 Percent
    type: WaitForSignal
    func_name: sieve
    variants:
      - name: base_version
        trafficPercentage: 95
      - name: new_version
        trafficPercentage: 5 # fixed once the proxy runs
    metrics_conditions: # all of them
      - name: errorRate
        threshold: "<0.02"
      - name: responseTime
        threshold: "<=250"
        compareWith: "Median"
    end_conditions:
      - name: minDuration
        threshold: 10s
      - name: minCalls
        threshold: "100"
    end_action:
      onSuccess: rollout
      onFailure: rollback

rollback:
  action:
    function: base_version"#;

/// The strategy of a text that has no fault.
pub fn load(text: &str) -> Strategy {
    let checked = check(text);
    let faults: Vec<String> = checked.diagnostics.iter().map(|d| d.render("text")).collect();
    checked.strategy.unwrap_or_else(|| panic!("{}", faults.join("\n")))
}

/// The reference with one piece replaced.
pub fn with(old: &str, new: &str) -> String {
    assert!(REFERENCE.contains(old), "the reference has no {old:?}");
    REFERENCE.replacen(old, new, 1)
}

/// Every diagnostic of a text, as a person sees it.
pub fn rendered(text: &str) -> String {
    let found: Vec<String> = check(text).diagnostics.iter().map(|d| d.render("r.yml")).collect();
    found.join("\n")
}

/// The samples of the repository: file name and text.
pub fn samples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("releases");
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}
