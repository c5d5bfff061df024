//! When calls that the new version failed are repeated on the base version, and what agents that judge by themselves may spend.

#![allow(clippy::float_cmp, reason = "what travels is the same to the last bit")]

use language::{
    LOCAL_SHARE, Retry, Strategy, check, check_from_parent, offer, render, render_full, schema::StrategyForm,
};

use super::{REFERENCE, load, rendered};

fn retry(value: &str) -> String {
    let text = REFERENCE.replacen("    base_version:", &format!("    retry: {value}\n    base_version:"), 1);
    assert_ne!(text, REFERENCE);
    text
}

#[test]
fn a_function_says_which_calls_are_repeated() {
    for (value, expected) in [("failed", Retry::Failed), ("refused", Retry::Refused), ("never", Retry::Never)]
    {
        let text = retry(value);
        let strategy = load(&text);
        assert_eq!(strategy.functions[0].retry, Some(expected));
        serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
        let stored = serde_json::to_string(&strategy).unwrap();
        assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
        let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
        assert_eq!(below.functions, strategy.functions);
        let in_place = offer::read(&render_full::in_place(&strategy, "11", true)).unwrap();
        assert_eq!(in_place.functions, strategy.functions);
        for text in [render::stage(&strategy, 0, "11"), render::undo(&strategy, 0, "11")] {
            assert!(!text.contains("retry"), "a deployed agent reads as it did: {text}");
        }
    }
    let plain = serde_json::to_string(&load(REFERENCE)).unwrap();
    assert!(!plain.contains("retry"), "it has the digest that it had");
}

#[test]
fn each_slip_is_named() {
    for (value, says) in [
        ("", "retry of function \"sieve\" is empty"),
        ("fail", "did you mean failed?"),
        ("always", "there is no way for calls to be repeated \"always\""),
        ("[failed]", "retry is not a single value"),
    ] {
        let text = retry(value);
        assert!(rendered(&text).contains(says), "{value}: {}", rendered(&text));
        assert!(check(&text).strategy.is_none());
    }
}

/// Two stages that are judged and one that isn't.
fn three_stages() -> Strategy {
    let strategy = load(REFERENCE);
    let mut stages = vec![strategy.stages[0].clone(); 3];
    "second".clone_into(&mut stages[1].name);
    "third".clone_into(&mut stages[2].name);
    stages[2].conditions.clear();
    Strategy { stages, ..strategy }
}

#[test]
fn agents_share_a_part_of_the_releases_alpha_and_their_stages_share_theirs() {
    let mut strategy = three_stages();
    let of_one = strategy.local_alpha(1_000);
    assert!((of_one - 0.05 * LOCAL_SHARE / 1_000.0).abs() < 1e-18, "{of_one:e}");
    assert_eq!(strategy.local_alpha(0), strategy.local_alpha(1));
    strategy.from_parent.get_or_insert_default().local_alpha = Some(of_one);
    let text = render_full::in_place(&strategy, "11", false);
    assert!(text.ends_with("from_above: {local_alpha: 5e-6}\n"), "{text}");
    assert_eq!(offer::read(&text).unwrap().alpha, Some(of_one / 2.0));
    assert_eq!(strategy.alpha_of_a_stage(of_one), of_one / 2.0);
    let limits = strategy.stages[0].alpha_of_a_limit(of_one).unwrap();
    assert_eq!(limits, of_one / 4.0, "two limits, each half for the whole stage");
    assert_eq!(strategy.stages[2].alpha_of_a_limit(of_one), None);
}

#[test]
fn what_a_manager_above_says_of_alpha_holds_below_it() {
    let mut strategy = three_stages();
    strategy.from_parent.get_or_insert_default().local_alpha = Some(1.25e-7);
    let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
    assert_eq!(below.local_alpha(3), 1.25e-7);
    for bad in ["0", "-1e-6", "0.6", "NaN", "x", ""] {
        let text = render_full::whole(&strategy).replace("1.25e-7", bad);
        assert!(check_from_parent(text.as_bytes()).strategy.is_none(), "{bad}");
    }
}
