use std::time::Duration;

use metrics_providers::provider::longest_range;

#[test]
fn the_step_of_a_query_is_as_long_as_it_looks_back() {
    for (query, seconds) in [
        ("up", 0),
        ("rate(x[5m])", 300),
        ("rate(x[5m]) / rate(y[1h30m])", 5400),
        ("rate(x[90])", 90),
        ("rate(x[ 5m ] offset 1h)", 300),
        ("max_over_time(rate(x[5m])[30m:1m])", 2100),
        ("max_over_time(x[30m:])", 1800),
        (r#"rate(x{a="[9h]", b='\'[9h]', c=`\`}[1m]) # [9h]"#, 60),
        ("# [9h]\nrate(x[2m])", 120),
        ("x[", 0),
        ("x[5parsecs]", 0),
        ("x[99999999999999999999y]", 0),
    ] {
        let expected = (seconds > 0).then(|| Duration::from_secs(seconds));
        assert_eq!(longest_range(query), expected, "{query}");
    }
}
