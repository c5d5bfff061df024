//! How a child is led, and what is stored of that.

use heart::release::{
    assignment::{Assignment, FunctionSet, Step, Whole},
    manager::{Agents, Planned},
    offer::Piece,
};

use super::world::two_functions;

fn planned(agents: u32) -> Planned {
    Planned { agents, quotas: vec![(0, 1), (2, agents)] }
}

#[test]
fn what_is_stored_of_a_child_that_is_led_whole_says_nothing_of_what_is_stored_beside_it() {
    let mut part = Assignment::new_whole(planned(3), 0);
    let fresh = r#"{"agents":3,"quotas":[[0,1],[2,3]],"reported":{"participants":0,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0}}"#;
    assert_eq!(serde_json::to_string(part.whole().unwrap()).unwrap(), fresh);
    part.change_rare(|rare| rare.joined = Some(2));
    assert_eq!(serde_json::to_string(part.whole().unwrap()).unwrap(), fresh);
    let whole = part.whole_mut().unwrap();
    *whole = Whole {
        reported: Agents { participants: 3, failed: 1, ..Agents::default() },
        continues: Some(1),
        retries: true,
        recounts: 2,
        ..whole.clone()
    };
    let stored = serde_json::to_string(whole).unwrap();
    assert!(stored.ends_with(r#""continues":1,"retries":true,"recounts":2}"#), "{stored}");
    let read: Whole = serde_json::from_str(&stored).unwrap();
    assert_eq!(Whole { rare: whole.rare.clone(), ..read }, *whole);
}

#[test]
fn a_child_that_was_planned_to_be_led_otherwise_keeps_what_it_owes_and_begins_with_what_it_is_handed_then() {
    let strategy = language::check(&two_functions("t", "a", "b")).strategy.unwrap();
    let owing = |mut part: Assignment| {
        part.apply(&Step::UndoOffered { functions: FunctionSet::of(1) }, &strategy, 5);
        part.apply(&Step::Retried, &strategy, 6);
        part
    };
    let stepwise = || Assignment::new(0).lacking(FunctionSet::of(0), &strategy);
    let whole = || Assignment::new_whole(planned(4), 0);

    let mut part = owing(stepwise());
    assert_ne!(part.piece(), Piece::FIRST, "it lacks what is tested first");
    part.lead_as(&whole(), &strategy);
    assert_eq!((part.piece(), part.slot), (Piece::Whole, Piece::Whole.slot()));
    assert_eq!(part.whole().map(|whole| whole.planned.agents), Some(4));
    assert!(part.pending_undo().is_some() && part.lacks().is_empty());

    let mut part = owing(whole());
    part.lead_as(&stepwise(), &strategy);
    assert_eq!((part.piece(), part.slot), (stepwise().piece(), stepwise().slot));
    assert!(part.pending_undo().is_some() && part.lacks() == FunctionSet::of(0));

    let mut part = owing(whole());
    part.lead_as(&Assignment::new_whole(planned(7), 0), &strategy);
    assert_eq!(part.whole().map(|whole| whole.planned.agents), Some(7));
    assert!(part.pending_undo().is_some() && part.attempt == 2);
}
