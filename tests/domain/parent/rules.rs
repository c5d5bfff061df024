//! One rule a test.

use domain::parent::{Act, Answer, Call, Errand, Notice, PollResponse, Question, Trouble, WAIT_MS};

use super::{Bench, OWN, POLL_MS, away, facts, polled};

#[test]
fn nobody_is_called_before_there_is_an_area_to_report() {
    let settings = domain::parent::Settings { poll_ms: POLL_MS, own_id: OWN.to_owned(), seed: 1 };
    let mut link = domain::parent::Link::new(settings, 0);
    assert_eq!(link.next_act(0), None);
    assert_eq!(link.wakes_at(), None);
    link.note_below(true);
    assert!(matches!(link.next_act(0), Some(Act::Call(_, Call::Poll(_)))));
}

#[test]
fn a_new_id_is_stored_before_anything_else_is_said() {
    let mut bench = Bench::new();
    let (poll, _) = bench.call();
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    let acts = bench.answer(poll, polled(None));
    assert!(acts.contains(&Act::Enroll("c1".to_owned())), "{acts:?}");
    assert_eq!(bench.link.wakes_at(), None, "nothing goes on before it is stored");
    bench.link.note_enrolled("c1".to_owned());
    assert!(matches!(bench.call().1, Call::Result { row: 7, .. }));
}

#[test]
fn an_offer_is_noted_before_it_is_fetched_and_fetched_once() {
    let mut bench = Bench::registered();
    let (poll, _) = bench.call();
    let acts = bench.answer(poll, polled(Some("21")));
    assert!(acts.contains(&Act::Note { offer: "21".to_owned() }), "{acts:?}");
    assert!(!acts.iter().any(|act| matches!(act, Act::Call(..))), "{acts:?}");
    bench.link.note_taking(2, "21".to_owned());
    let (take, call) = bench.call();
    assert!(matches!(call, Call::Take { offer, .. } if offer == "21"));

    // It is shown once more before it is here.
    bench.sleep();
    let (poll, _) = bench.call();
    assert_eq!(bench.answer(poll, polled(Some("21"))), []);
    assert_eq!(bench.answer(take, Answer::Taken), [Act::Done(vec![2])]);
    bench.sleep();
    let (poll, _) = bench.call();
    assert_eq!(bench.answer(poll, polled(Some("21"))), [], "it was taken over a moment ago");
}

#[test]
fn parent_with_questions_is_polled_soon_after_taking_an_offer() {
    for features in [vec![], vec!["questions".to_owned()]] {
        let mut bench = Bench::registered();
        let (poll, _) = bench.call();
        let asks = !features.is_empty();
        let offered = PollResponse {
            id: "c1".to_owned(),
            offer: Some("21".to_owned()),
            features,
            ..PollResponse::default()
        };
        bench.answer(poll, Answer::Polled(offered));
        bench.link.note_taking(2, "21".to_owned());
        let (take, _) = bench.call();
        bench.answer(take, Answer::Taken);
        assert_eq!(bench.sleep() < POLL_MS, asks, "a plain parent is polled at its pace");
        assert!(matches!(bench.call().1, Call::Poll(_)));
    }
}

#[test]
fn a_parent_that_is_away_is_tried_less_and_less_and_this_is_said_once() {
    let mut bench = Bench::registered();
    let (mut said, mut pauses) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let (poll, _) = bench.call();
        said.extend(bench.fail(poll, away()));
        pauses.push(bench.sleep());
    }
    assert!(matches!(said.as_slice(), [Act::Say(Notice::Fails { errand: Errand::Poll, .. })]), "{said:?}");
    assert!(pauses[0] < 2 * POLL_MS && pauses[11] > 30_000 && pauses[11] <= 60_000, "{pauses:?}");
    let (poll, _) = bench.call();
    assert_eq!(bench.answer(poll, polled(None)), [Act::Say(Notice::Works(Errand::Poll))]);
    assert_eq!(bench.sleep(), POLL_MS);
}

#[test]
fn what_failed_while_the_parent_was_away_is_tried_at_once_when_it_is_back() {
    let mut bench = Bench::registered();
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    let mut away_for = 0;
    while away_for < 20 {
        for (call, _) in bench.calls() {
            bench.fail(call, away());
            away_for += 1;
        }
        bench.sleep();
    }
    // The poll comes through, whenever its turn is, and the result goes up right behind it.
    let poll = loop {
        let mut calls = bench.calls();
        if let Some(place) = calls.iter().position(|(_, call)| matches!(call, Call::Poll(_))) {
            let (poll, _) = calls.remove(place);
            for (call, _) in calls {
                bench.fail(call, away());
            }
            break poll;
        }
        for (call, _) in calls {
            bench.fail(call, away());
        }
        bench.sleep();
    };
    let acts = bench.answer(poll, polled(None));
    assert!(matches!(acts.last(), Some(Act::Call(_, Call::Result { row: 7, .. }))), "{acts:?}");
}

#[test]
fn results_of_one_offer_go_up_in_their_order_and_nothing_is_asked_meanwhile() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, true);
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    bench.link.note_owed(8, "21".to_owned(), 0, 0);
    let calls = bench.calls();
    let made: Vec<_> = calls.iter().map(|(_, call)| call).collect();
    assert!(matches!(made.as_slice(), [Call::Poll(_), Call::Result { row: 7, .. }]), "{made:?}");
    let acts = bench.answer(calls[1].0, Answer::Reported);
    assert!(matches!(acts.as_slice(), [Act::Done(_), Act::Call(_, Call::Result { row: 8, .. })]), "{acts:?}");
    let Act::Call(second, _) = acts[1] else { panic!() };
    let acts = bench.answer(second, Answer::Reported);
    let is_told = |act: &Act| matches!(act, Act::Call(_, Call::Ready(_)));
    let is_asked = |act: &Act| matches!(act, Act::Call(_, Call::EndStage { .. }));
    assert!(acts.iter().any(is_told) && acts.iter().any(is_asked), "{acts:?}");
}

#[test]
fn a_refused_result_is_sent_again_and_holds_up_no_other_offer() {
    let mut bench = Bench::registered();
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    bench.link.note_owed(8, "22".to_owned(), 0, 0);
    let calls = bench.calls();
    let refused = Trouble::Refused { status: 403, text: "a proxy says no".to_owned() };
    let acts = bench.fail(calls[1].0, refused.clone());
    assert!(matches!(acts[0], Act::Say(Notice::ResultRefused { status: 403, .. })), "{acts:?}");
    let Act::Call(other, Call::Result { row: 8, .. }) = acts[1] else { panic!("{acts:?}") };
    assert_eq!(bench.answer(other, Answer::Reported), [Act::Done(vec![8])]);
    bench.answer(calls[0].0, polled(None));

    // Again and again, but that is said no more; in the end it is given up.
    let mut said = Vec::new();
    while bench.link.unsent() == 1 {
        bench.sleep();
        for (call, made) in bench.calls() {
            match made {
                Call::Result { row: 7, .. } => said.extend(bench.fail(call, refused.clone())),
                Call::Poll(_) => drop(bench.answer(call, polled(None))),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(bench.now >= domain::parent::GIVE_UP_AFTER_MS);
    assert!(matches!(said.as_slice(), [Act::Say(Notice::ResultGivenUp { .. }), Act::Done(_)]), "{said:?}");
}

#[test]
fn result_with_wrong_old_timestamp_survives_first_refusal() {
    let mut bench = Bench::registered();
    let since_1970 = 1_700_000_000_000;
    bench.link.note_owed(7, "21".to_owned(), since_1970, 0);
    let calls = bench.calls();
    let refused = Trouble::Refused { status: 403, text: "a proxy says no".to_owned() };
    let acts = bench.fail(calls[1].0, refused);
    assert!(matches!(acts.as_slice(), [Act::Say(Notice::ResultRefused { .. })]), "{acts:?}");
    assert_eq!(bench.link.unsent(), 1);
}

#[test]
fn a_409_settles_a_result_for_the_parent_has_one() {
    let mut bench = Bench::registered();
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    let calls = bench.calls();
    let acts = bench.fail(calls[1].0, Trouble::Refused { status: 409, text: "ended otherwise".to_owned() });
    assert_eq!(acts, [Act::Done(vec![7])]);
}

/// Refuses all but polls until the release is disowned; answers after how long, and what was said of it.
fn refused_until_disowned(bench: &mut Bench, refused: &Trouble) -> (u64, Vec<Act>) {
    let began = bench.now;
    let mut seen = Vec::new();
    for _ in 0..100 {
        for (call, made) in bench.calls() {
            match made {
                Call::Poll(_) => drop(bench.answer(call, polled(None))),
                // As recorded of the plain manager: a stage that has not begun may not end.
                Call::EndStage { .. } => {
                    let no = Answer::EndStage { end: false, undo: false, skip: Vec::new(), accepted: false };
                    seen.extend(bench.answer(call, no));
                }
                _ => seen.extend(bench.fail(call, refused.clone())),
            }
        }
        if seen.iter().any(|act| matches!(act, Act::Disown { .. })) {
            return (bench.now - began, seen);
        }
        bench.sleep();
    }
    panic!("{seen:?}")
}

#[test]
fn a_stage_of_which_a_parent_that_is_there_will_not_hear_ends_the_release() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, true);
    let refused = Trouble::Refused { status: 409, text: "stage 1 already exists".to_owned() };
    let (after, seen) = refused_until_disowned(&mut bench, &refused);
    assert!(after > 10 * POLL_MS, "{after} ms: one refusal may be a mistake");
    let said: Vec<&Act> = seen.iter().filter(|act| matches!(act, Act::Say(_))).collect();
    assert!(matches!(said.as_slice(), [Act::Say(Notice::NotAwaited { status: 409, .. })]), "{said:?}");
    let why = seen.iter().find_map(|act| match act {
        Act::Disown { release, why } => Some((release.as_str(), why.as_str())),
        _ => None,
    });
    let text = "the manager above refuses to hear of it (409: stage 1 already exists)";
    assert_eq!(why, Some(("21", text)));
}

#[test]
fn a_result_that_is_refused_for_good_ends_its_release_and_no_other() {
    let mut bench = Bench::registered();
    bench.link.note_facts(facts(&[("21", 1, false), ("22", 1, false)]), 0);
    bench.link.note_owed(7, "21".to_owned(), 0, 0);
    let (_, seen) =
        refused_until_disowned(&mut bench, &Trouble::Refused { status: 404, text: "no child".to_owned() });
    let disowned: Vec<&str> = seen
        .iter()
        .filter_map(|act| match act {
            Act::Disown { release, .. } => Some(release.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(disowned, ["21"]);
    assert_eq!(bench.link.unsent(), 0);
}

#[test]
fn a_parent_that_is_not_there_disowns_nothing_whatever_answers_in_its_place() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, true);
    for _ in 0..60 {
        for (call, _) in bench.calls() {
            let acts = bench.fail(call, Trouble::Refused { status: 404, text: "nobody here".to_owned() });
            assert!(!acts.iter().any(|act| matches!(act, Act::Disown { .. })), "{acts:?}");
        }
        bench.sleep();
    }
}

#[test]
fn an_id_that_the_parent_forgot_is_replaced_but_not_for_one_404() {
    let mut bench = Bench::registered();
    let mut asked = Vec::new();
    for _ in 0..4 {
        let (poll, call) = bench.call();
        let Call::Poll(made) = call else { panic!("{call:?}") };
        asked.push(made.id);
        if bench.now == 0 || asked.len() < 4 {
            bench.fail(poll, Trouble::Refused { status: 404, text: "unknown".to_owned() });
            bench.sleep();
        }
    }
    let known = Some("c1".to_owned());
    assert_eq!(asked, [known.clone(), known.clone(), known, None]);
}

#[test]
fn parent_ends_only_current_stage_and_outdated_question_is_dropped() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, false);
    let calls = bench.calls();
    let (ask, _) = calls.iter().find(|(_, call)| matches!(call, Call::EndStage { .. })).unwrap();
    bench.waits("21", 2, false);
    let acts = bench.acts();
    assert_eq!(acts[0], Act::GiveUp(*ask));
    let Act::Call(ask_again, Call::EndStage { name, .. }) = &acts[1] else { panic!("{acts:?}") };
    assert_eq!(name, "stage 2");
    let late =
        bench.answer(*ask, Answer::EndStage { end: true, undo: false, skip: Vec::new(), accepted: false });
    assert_eq!(late, []);
    let acts = bench
        .answer(*ask_again, Answer::EndStage { end: true, undo: false, skip: Vec::new(), accepted: false });
    assert!(matches!(acts.as_slice(), [Act::End { stage: 2, undo: false, .. }]), "{acts:?}");
}

#[test]
fn failed_stage_below_is_reported_and_stale_answers_are_ignored() {
    let mut bench = Bench::registered();
    let failed = |failures| {
        let mut facts = facts(&[("21", 1, false)]);
        facts.0.get_mut("21").unwrap().waiting.as_mut().unwrap().failures = failures;
        facts
    };
    let answer = |accepted| Answer::EndStage { end: false, undo: false, skip: Vec::new(), accepted };
    let told = |acts: &[Act]| {
        let ready = acts.iter().find_map(|act| match act {
            Act::Call(call, Call::Ready(told)) => Some((*call, told.failures)),
            _ => None,
        });
        let asked = acts.iter().find_map(|act| match act {
            Act::Call(call, Call::EndStage { failures, .. }) => Some((*call, *failures)),
            _ => None,
        });
        (ready.unwrap(), asked.unwrap())
    };
    bench.waits("21", 1, false);
    bench.acts();
    bench.link.note_facts(failed(Some(1)), bench.now);
    let acts = bench.acts();
    assert!(matches!(acts[0], Act::GiveUp(_)), "{acts:?}");
    let ((ready, of), (first, asked)) = told(&acts);
    assert_eq!((of, asked), (Some(1), Some(1)));
    bench.answer(ready, Answer::Reported);
    // Another one, before anything is said of the first.
    bench.link.note_facts(failed(Some(2)), bench.now);
    let ((_, of), (second, asked)) = told(&bench.acts());
    assert_eq!((of, asked), (Some(2), Some(2)));
    assert_eq!(bench.answer(first, answer(true)), []);
    let acts = bench.answer(second, answer(true));
    assert!(matches!(acts.as_slice(), [Act::Accept { failures: 2, .. }]), "{acts:?}");
}

#[test]
fn what_the_parent_skips_is_passed_over_before_the_stage_before_it_ends() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, false);
    let calls = bench.calls();
    let (ask, call) = calls.iter().find(|(_, call)| matches!(call, Call::EndStage { .. })).unwrap();
    assert!(matches!(call, Call::EndStage { skipped, .. } if skipped.is_empty()));
    let skip = vec!["Second".to_owned()];
    let acts =
        bench.answer(*ask, Answer::EndStage { end: true, undo: false, skip: skip.clone(), accepted: false });
    let [Act::Skip { stage, .. }, Act::End { stage: 1, .. }] = acts.as_slice() else { panic!("{acts:?}") };
    assert_eq!(*stage, skip[0]);
    // Once that is so here, it is no news.
    let mut known = facts(&[("21", 2, false)]);
    known.0.get_mut("21").unwrap().skipped.clone_from(&skip);
    bench.link.note_facts(known, bench.now);
    let calls = bench.calls();
    let (ask, call) = calls.iter().find(|(_, call)| matches!(call, Call::EndStage { .. })).unwrap();
    assert!(matches!(call, Call::EndStage { skipped, .. } if *skipped == skip), "{call:?}");
    assert_eq!(bench.answer(*ask, Answer::EndStage { end: false, undo: false, skip, accepted: false }), []);
}

#[test]
fn parent_is_long_polled_only_if_it_supports_waiting() {
    let mut bench = Bench::registered();
    bench.waits("21", 1, false);
    let calls = bench.calls();
    assert!(matches!(&calls[0].1, Call::Poll(poll) if poll.wait_ms.is_none()));
    let rm_ids = vec!["rm-parent".to_owned()];
    let answer = PollResponse { id: "c1".to_owned(), rm_ids: rm_ids.clone(), ..PollResponse::default() };
    let acts = bench.answer(calls[0].0, Answer::Polled(answer.clone()));
    assert!(acts.contains(&Act::Lineage(rm_ids)), "{acts:?}");
    bench.answer(calls[1].0, Answer::EndStage { end: false, undo: false, skip: Vec::new(), accepted: false });
    bench.now += POLL_MS;
    let calls = bench.calls();
    assert!(matches!(&calls[0].1, Call::Poll(poll) if poll.wait_ms == Some(WAIT_MS)), "{calls:?}");
    assert!(matches!(&calls[1].1, Call::EndStage { wait_ms: Some(WAIT_MS), .. }), "{calls:?}");

    // Answered at once, although it was asked to wait.
    assert_eq!(bench.answer(calls[0].0, Answer::Polled(answer.clone())), []);
    assert_eq!(bench.sleep(), POLL_MS);
    // Answered after its wait: the next one follows at once.
    let (poll, _) = bench.call();
    bench.now += WAIT_MS;
    let acts = bench.answer(poll, Answer::Polled(answer));
    assert!(matches!(acts.as_slice(), [Act::Call(_, Call::Poll(_))]), "{acts:?}");
}

#[test]
fn a_poll_that_waits_with_an_old_area_is_replaced() {
    let mut bench = Bench::registered();
    let (poll, _) = bench.call();
    let rm_ids = vec!["rm-parent".to_owned()];
    bench.answer(
        poll,
        Answer::Polled(PollResponse { id: "c1".to_owned(), rm_ids, ..PollResponse::default() }),
    );
    bench.sleep();
    let (waits, _) = bench.call();
    bench.link.note_below(true);
    assert_eq!(bench.acts(), []);
    assert_eq!(bench.sleep(), POLL_MS, "children that come one after the other don't make a call each");
    let acts = bench.acts();
    assert!(matches!(acts.as_slice(), [Act::GiveUp(call), Act::Call(_, Call::Poll(_))] if *call == waits));
}

#[test]
fn a_manager_above_its_own_parent_takes_no_offers_until_that_is_over() {
    let mut bench = Bench::registered();
    let answer = |rm_ids: &[&str]| {
        let rm_ids = rm_ids.iter().map(|id| (*id).to_owned()).collect();
        Answer::Polled(PollResponse {
            id: "c1".to_owned(),
            offer: Some("21".to_owned()),
            rm_ids,
            ..PollResponse::default()
        })
    };
    let mut said = Vec::new();
    for _ in 0..3 {
        let (poll, _) = bench.call();
        said.extend(bench.answer(poll, answer(&["rm-parent", OWN])));
        bench.now += WAIT_MS;
    }
    said.retain(|act| !matches!(act, Act::Lineage(_) | Act::Say(Notice::Works(_))));
    assert_eq!(said, [Act::Say(Notice::Cycle)]);
    let (poll, _) = bench.call();
    let acts = bench.answer(poll, answer(&["rm-parent"]));
    assert!(acts.contains(&Act::Say(Notice::Straight)), "{acts:?}");
    assert!(acts.contains(&Act::Note { offer: "21".to_owned() }), "{acts:?}");
}

fn question() -> Question {
    Question { id: "q".to_owned(), kind: "k".to_owned(), within_ms: 2_000, body: "{}".to_owned() }
}

#[test]
fn parent_question_is_answered_and_followed_by_poll_without_storm() {
    let mut bench = Bench::registered();
    let (poll, _) = bench.call();
    let asking = PollResponse {
        id: "c1".to_owned(),
        rm_ids: vec!["above".to_owned()],
        features: vec!["questions".to_owned()],
        questions: vec![question()],
        ..PollResponse::default()
    };
    let acts = bench.answer(poll, Answer::Polled(asking.clone()));
    assert!(acts.contains(&Act::Answer(vec![question()])), "{acts:?}");
    assert!(bench.sleep() < POLL_MS, "whoever asks may have more to ask");
    let polled = |calls: Vec<_>| {
        calls.into_iter().find_map(|(id, call)| match call {
            Call::Poll(poll) => Some((id, poll)),
            _ => None,
        })
    };
    let (mut poll, made) = polled(bench.calls()).unwrap();
    assert_eq!(made.features, ["questions"], "the parent hears only now that they are answered here");
    let began = bench.now;
    for _ in 0..100 {
        bench.answer(poll, Answer::Polled(asking.clone()));
        bench.sleep();
        poll = polled(bench.calls()).unwrap().0;
    }
    assert!(bench.now - began >= 1_000, "{} ms for 100 polls", bench.now - began);
}

#[test]
fn a_manager_that_is_above_its_own_parent_answers_nothing() {
    let mut bench = Bench::registered();
    let (poll, _) = bench.call();
    let asking = PollResponse {
        id: "c1".to_owned(),
        rm_ids: vec![OWN.to_owned()],
        questions: vec![question()],
        ..PollResponse::default()
    };
    let acts = bench.answer(poll, Answer::Polled(asking));
    assert!(!acts.iter().any(|act| matches!(act, Act::Answer(_))), "{acts:?}");
}

/// A stage that goes on, of which the parent wants to hear every eight seconds.
fn measured(bench: &mut Bench, stage: u8) {
    let mut facts = facts(&[("21", stage, false)]);
    facts.0.get_mut("21").unwrap().interim_ms = Some(8_000);
    bench.link.note_facts(facts, bench.now);
}

/// The calls about it that are due; what else is to be done goes unanswered.
fn interims(bench: &mut Bench) -> Vec<domain::parent::CallId> {
    let calls = bench.calls();
    calls.into_iter().filter(|(_, call)| matches!(call, Call::Interim(_))).map(|(id, _)| id).collect()
}

#[test]
fn interim_reports_go_one_at_a_time_four_per_interval() {
    let mut bench = Bench::registered();
    measured(&mut bench, 0);
    assert_eq!(interims(&mut bench), []);
    bench.now = 2_000;
    let [first] = interims(&mut bench)[..] else { panic!("it is due") };
    bench.now = 9_000;
    assert_eq!(interims(&mut bench), [], "one is under way");
    // It took seven seconds: as long it is quiet. One that fails is not sent again, for the next one says more.
    bench.fail(first, away());
    bench.now = 15_999;
    assert_eq!(interims(&mut bench), []);
    bench.now = 16_000;
    let [second] = interims(&mut bench)[..] else { panic!("it is due") };
    bench.link.note_answer(second, Ok(Answer::Reported), bench.now);
    bench.now = 18_000;
    assert_eq!(interims(&mut bench).len(), 1);
}

#[test]
fn what_is_final_is_told_first_and_a_stage_that_is_over_no_more() {
    let mut bench = Bench::registered();
    measured(&mut bench, 0);
    bench.now = 1_000;
    bench.link.note_owed(7, "21".to_owned(), 0, bench.now);
    bench.now = 2_000;
    let calls = bench.calls();
    let [(result, _)] =
        calls.iter().filter(|(_, call)| matches!(call, Call::Result { .. })).collect::<Vec<_>>()[..]
    else {
        panic!("{calls:?}")
    };
    assert!(!calls.iter().any(|(_, call)| matches!(call, Call::Interim(_))), "{calls:?}");
    let acts = bench.answer(*result, Answer::Reported);
    let told = acts.iter().find_map(|act| match act {
        Act::Call(id, Call::Interim(_)) => Some(*id),
        _ => None,
    });
    // The stage is over: nobody waits for what is under way, and the next one has its own time.
    measured(&mut bench, 1);
    assert!(bench.acts().contains(&Act::GiveUp(told.unwrap())));
    bench.now = 3_999;
    assert_eq!(interims(&mut bench), []);
    bench.now = 4_000;
    assert_eq!(interims(&mut bench).len(), 1);
    bench.link.note_facts(facts(&[("21", 1, false)]), bench.now);
    bench.now = 60_000;
    assert_eq!(interims(&mut bench), [], "nobody above looks before it is over");
}
