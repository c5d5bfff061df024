//! The strategy that most tests begin with.

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
