//! What holds for a member of a release, and which states are forward ones: each is asked in one place.

use std::time::Duration;

use domain::{
    children::Children,
    release::{
        assignment::Assignment,
        manager::Planned,
        pause::{Pause, PausedBy},
        settings::{Member, Settings},
        state::{End, ReleaseState},
    },
};
use model::ChildKey;

use super::world::canary;

#[test]
fn a_release_goes_forward_while_only_its_own_gates_hold_it() {
    let paused = ReleaseState::Paused(Pause::new(PausedBy::Operator, "lunch"));
    let awaiting = ReleaseState::AwaitingApproval { what: "wave 2 of 3".to_owned(), since: 5 };
    let rolling_back = ReleaseState::RollingBack { reason: "no".to_owned(), end: End::Aborted };
    let over = ReleaseState::Over { end: End::Done, unconfirmed: 0 };
    // Whether it goes forward, and whether it may still end well.
    let all = [
        (ReleaseState::Planned, false, false),
        (ReleaseState::Running, true, true),
        (awaiting, true, true),
        (paused, false, true),
        (rolling_back, false, false),
        (over, false, false),
    ];
    for (state, is_going, is_under_way) in all {
        assert_eq!((state.is_going(), state.is_under_way()), (is_going, is_under_way), "{state:?}");
    }
}

#[test]
fn wholly_managed_child_times_out_only_by_silence() {
    let strategy = language::check(&canary("7", "a")).strategy.unwrap();
    let settings = Settings { setup_grace: Duration::from_secs(7), ..Settings::default() };
    let children = Children::default();
    let deadlines = settings.deadlines(&strategy, &children);
    let of = |part: &Assignment| deadlines.of_member(Member { child: ChildKey(3), part });
    let planned = Planned { agents: 3, quotas: Vec::new() };
    let (stepwise, whole) = (of(&Assignment::new(0)), of(&Assignment::new_whole(planned, 0)));
    assert_eq!((stepwise.stage_silence_ms, stepwise.undo_silence_ms), (None, None));
    assert_eq!((whole.stage_silence_ms, whole.undo_silence_ms), (Some(7_000), Some(7_000)));
    assert_eq!(stepwise.offer_ms, settings.shortest_offer_ms(&strategy));
    assert!(deadlines.record(ChildKey(3)).is_none(), "nobody is known by that number");
}
