//! How a child is led.

use domain::release::{
    assignment::{Assignment, FunctionSet, Step},
    manager::Planned,
    offer::Unit,
};

use super::world::two_functions;

fn planned(agents: u32) -> Planned {
    Planned { agents, quotas: vec![(0, 1), (2, agents)] }
}

#[test]
fn child_with_changed_management_mode_keeps_pending_work() {
    let strategy = language::check(&two_functions("t", "a", "b")).strategy.unwrap();
    let owing = |mut part: Assignment| {
        part.apply(&Step::UndoOffered { functions: FunctionSet::of(1) }, &strategy, 5);
        part.apply(&Step::Retried, &strategy, 6);
        part
    };
    let stepwise = || Assignment::new(0).lacking(FunctionSet::of(0), &strategy);
    let whole = || Assignment::new_whole(planned(4), 0);

    let mut part = owing(stepwise());
    assert_ne!(part.piece(), Unit::FIRST, "it lacks what is tested first");
    part.lead_as(&whole(), &strategy);
    assert_eq!((part.piece(), part.slot), (Unit::Whole, Unit::Whole.slot()));
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
