//! What is said of agents that judge and route by themselves, before anything happens.

use domain::plan::{Advice, advise, plan, stops};
use language::{check, check_submission};
use model::{Capabilities, Leads};

use super::{Child, Children};
use crate::reference::REFERENCE;

/// What is said of a strategy for so many agents, of which some are led in place.
fn said(text: &str, in_place: u32, agents: u64) -> String {
    let checked = check_submission(text.as_bytes());
    let strategy = checked.strategy.unwrap();
    let advice = Advice { in_place, agents, ..Advice::default() };
    let found = stops(&strategy, &checked.places, &advice);
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_retry_and_stages_too_short_to_stop_get_warnings() {
    let short = REFERENCE.replace("threshold: \"100\"", "threshold: \"40\"");
    insta::assert_snapshot!(said(&short, 1, 1_000), @r#"
    5:5: warning: function "sieve" has no retry: a POST that the new version fails reaches the caller, where an agent routes its calls
     5 |   - name: sieve
       |     ^
      help: say retry: failed if a call may be carried out twice, and retry: refused if not
    13:5: warning: raise minCalls from 40 to 100: stage "Canary 5 Percent" may end after 2 of the new version's calls, and an agent that judges by itself needs 5 to stop a version of which all break errorRate <0.02
     13 |   - name: Canary 5 Percent
        |     ^
      help: write {name: minCalls, threshold: 100} in its end_conditions, or let an analysis judge it for all agents together
    "#);
    assert_eq!(said(&short, 0, 1_000), "", "nobody who takes part does anything by itself");
}

#[test]
fn a_stage_with_calls_enough_and_a_function_that_says_it_are_fine() {
    let text = REFERENCE.replace("    base_version:", "    retry: failed\n    base_version:");
    assert!(check(&text).strategy.is_some());
    assert_eq!(said(&text, 3, 1_000), "");
}

#[test]
fn agents_that_are_led_in_place_are_counted() {
    let own = Capabilities { leads: Leads::Whole, ..Capabilities::default() };
    let child = |capabilities| Child { capabilities, ..Child::nowhere("c") };
    let children = Children::new(vec![child(Some(own)), child(None), child(Some(Capabilities::default()))]);
    let strategy = super::strategy("");
    let planned = plan(&strategy, &children);
    let advice = advise(&strategy, &children, &planned);
    assert_eq!((advice.in_place, advice.agents), (1, 3));
}
