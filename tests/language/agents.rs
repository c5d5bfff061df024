//! Which agents run a function.

use language::{
    Strategy, check, check_from_parent, check_submission, offer, render, render_full, schema::StrategyForm,
};

use super::{REFERENCE, load, rendered};

fn agents(value: &str) -> String {
    let text = REFERENCE.replacen("    base_version:", &format!("    agents: {value}\n    base_version:"), 1);
    assert_ne!(text, REFERENCE);
    text
}

#[test]
fn a_function_says_by_labels_which_agents_run_it() {
    for (value, expected) in [
        ("{labels: {tier: edge}}", &[("tier", "edge")][..]),
        ("{labels: {tier: edge, 'a b': \"1.10\"}}", &[("a b", "1.10"), ("tier", "edge")]),
    ] {
        let text = agents(value);
        let strategy = load(&text);
        let expected: Vec<(String, String)> =
            expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(strategy.functions[0].agents.clone().into_iter().collect::<Vec<_>>(), expected);
        serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
        // It is what is stored, and what managers below read.
        let stored = serde_json::to_string(&strategy).unwrap();
        assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
        let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
        assert_eq!(below.functions, strategy.functions);
        let submitted = check_submission(text.as_bytes());
        assert_eq!(submitted.strategy.as_ref(), Some(&strategy), "{:?}", submitted.diagnostics);
        // An agent is told nothing of who else takes part, whoever leads it.
        let in_place = render_full::in_place(&strategy, "11", true);
        for text in [&in_place, &render::stage(&strategy, 0, "11"), &render::undo(&strategy, 0, "11")] {
            assert!(!text.contains("agents"), "{text}");
        }
        assert_eq!(offer::read(&in_place).unwrap().functions[0].name, strategy.functions[0].name);
    }
    let plain = load(REFERENCE);
    assert!(plain.functions[0].agents.is_empty());
    assert!(!serde_json::to_string(&plain).unwrap().contains("agents"), "it has the digest that it had");
}

#[test]
fn each_slip_is_named() {
    let many: String = (0..65).map(|at| format!("k{at}: v")).collect::<Vec<_>>().join(", ");
    for (value, says) in [
        ("", "agents of function \"sieve\" is empty"),
        ("{}", "agents lacks labels"),
        ("edge", "agents is not a mapping"),
        ("{labels: }", "labels of agents is empty"),
        ("{labels: {}}", "labels is empty"),
        ("{labels: [tier]}", "labels is not a mapping"),
        ("{labels: {tier: }}", "the label \"tier\" has no value"),
        ("{labels: {tier: a, tier: b}}", "labels has the key \"tier\" twice"),
        ("{label: {tier: edge}}", "agents has no key \"label\""),
        (&format!("{{labels: {{{many}}}}}"), "there are 65 labels, at most 32 are possible"),
    ] {
        let text = agents(value);
        assert!(rendered(&text).contains(says), "{value}: {}", rendered(&text));
        assert!(check(&text).strategy.is_none(), "{value}");
    }
}
