//! By what the calls of a function stay with one version.

use language::{Sticky, check, check_from_parent, offer, render, render_full, schema::StrategyForm};

use super::{REFERENCE, load, rendered};

fn sticky(value: &str) -> String {
    let text = REFERENCE.replacen("    base_version:", &format!("    sticky: {value}\n    base_version:"), 1);
    assert_ne!(text, REFERENCE);
    text
}

#[test]
fn a_function_says_by_what_its_calls_stay_with_a_version() {
    for (value, expected) in [
        ("{cookie: session}", Sticky::Cookie("session".to_owned())),
        ("{header: X-User}", Sticky::Header("X-User".to_owned())),
        ("address", Sticky::Address),
    ] {
        let text = sticky(value);
        let strategy = load(&text);
        assert_eq!(strategy.functions[0].sticky, Some(expected));
        assert!(strategy.is_sticky(Some(0)) && strategy.is_sticky(None));
        serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
        // It is what is stored, and what managers below read and agents that route calls; deployed agents are told nothing of it.
        let stored = serde_json::to_string(&strategy).unwrap();
        assert_eq!(serde_json::from_str::<language::Strategy>(&stored).unwrap(), strategy);
        let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
        assert_eq!(below.functions, strategy.functions);
        let in_place = offer::read(&render_full::in_place(&strategy, "11", true)).unwrap();
        assert_eq!(in_place.functions, strategy.functions);
        assert!(!render::stage(&strategy, 0, "11").contains("sticky"));
    }
    let plain = load(REFERENCE);
    assert!(!plain.is_sticky(Some(0)) && !plain.is_sticky(None));
    assert!(!serde_json::to_string(&plain).unwrap().contains("sticky"), "it has the digest that it had");
}

#[test]
fn each_slip_is_named() {
    for (value, says) in [
        ("", "sticky of function \"sieve\" is empty"),
        ("adress", "there is no way for calls to stay with a version \"adress\""),
        ("{}", "sticky names neither a cookie nor a header"),
        ("{cookie: session, header: X-User}", "sticky names both a cookie and a header"),
        ("{cookie: 'a b'}", "no cookie or header is called \"a b\""),
        ("{header: }", "header of sticky is empty"),
        ("{cookies: a}", "sticky has no key \"cookies\""),
        ("[address]", "sticky is not a mapping"),
        (&format!("{{cookie: {}}}", "x".repeat(129)), "the name is longer than 128 bytes"),
    ] {
        let text = sticky(value);
        assert!(rendered(&text).contains(says), "{value}: {}", rendered(&text));
        assert!(check(&text).strategy.is_none() || rendered(&text).contains("error"), "{value}");
    }
}

#[test]
fn what_a_provider_measures_of_such_a_function_is_warned_of_where_it_is_compared() {
    let query =
        "provider: prom, query: 'latency{version=\"{{ .Variant.Name }}\"}', tolerance: 5%, deviation: HIGH";
    let judged = |metric: &str| {
        let block = format!(
            "    analysis: {{duration: 10m, interval: 1m, metrics: [{{{metric}}}]}}\n    end_action:"
        );
        rendered(&sticky("address").replacen("    end_action:", &block, 1))
    };
    let warned = judged(&format!("name: latency, strategy: CANARY_BASELINE, {query}"));
    let says = "a provider tells nothing of users: metric \"latency\" can't be decided";
    assert!(warned.contains("warning") && warned.contains(says), "{warned}");
    for fine in [
        format!("name: latency, strategy: PREVIOUS, runVariation: 3%, {query}"),
        "name: load, provider: prom, query: load, expected: {max: 1}".to_owned(),
        "name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, tolerance: 5%"
            .to_owned(),
    ] {
        assert!(!judged(&fine).contains("can't be decided"), "{fine}");
    }
}
