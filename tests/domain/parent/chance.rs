//! A parent that answers by chance, for hours of virtual time: nothing is lost, nothing comes out of order.

use std::collections::{BTreeMap, BTreeSet};

use domain::parent::{Act, Answer, Call, CallId, PollResponse, ToldStage, Trouble};
use proptest::prelude::*;

use super::{Bench, POLL_MS, away, facts};

/// What the parent does with one call.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Well,
    Away,
    Refuses(u16),
    /// It answers after so many milliseconds.
    Slow(u32),
    Shows(u8),
}

fn mood() -> impl Strategy<Value = Mood> {
    prop_oneof![
        3 => Just(Mood::Well),
        2 => Just(Mood::Away),
        1 => prop_oneof![Just(400), Just(404), Just(409), Just(401)].prop_map(Mood::Refuses),
        2 => (1_u32..90_000).prop_map(Mood::Slow),
        2 => (0_u8..6).prop_map(Mood::Shows),
    ]
}

/// What was seen so far, and what must hold of it.
#[derive(Default)]
struct Watch {
    /// Rows that are owed, by offer, in their order.
    owed: BTreeMap<String, Vec<u64>>,
    noted: BTreeSet<String>,
    polls: usize,
    asks: BTreeMap<String, usize>,
    next_row: u64,
}

impl Watch {
    fn row(&mut self) -> u64 {
        self.next_row += 1;
        self.next_row + 100
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Poll(_) => self.polls += 1,
            Call::Result { row, .. } => {
                assert!(
                    self.owed.values().any(|rows| rows.first() == Some(row)),
                    "{row} is not the next one"
                );
            }
            Call::EndStage { offer, .. } => {
                assert!(self.owed.get(offer).is_none_or(Vec::is_empty), "{offer} is owed a result");
                *self.asks.entry(offer.clone()).or_default() += 1;
            }
            Call::Take { offer, .. } => assert!(self.noted.contains(offer)),
            Call::Interim(ToldStage { offer, .. }) => {
                assert!(self.owed.get(offer).is_none_or(Vec::is_empty), "{offer} is owed a result");
            }
            Call::Ready(_) => {}
        }
        assert!(self.polls <= 1 && self.asks.values().all(|count| *count <= 1), "one call a lane");
    }

    fn over(&mut self, call: &Call) {
        match call {
            Call::Poll(_) => self.polls -= 1,
            Call::EndStage { offer, .. } => *self.asks.get_mut(offer).unwrap() -= 1,
            _ => {}
        }
    }
}

fn well(call: &Call, offer: Option<u8>) -> Answer {
    match call {
        Call::Poll(_) => {
            let offer = offer.map(|number| format!("o{number}"));
            Answer::Polled(PollResponse { id: "c1".to_owned(), offer, ..PollResponse::default() })
        }
        Call::Take { .. } => Answer::Taken,
        Call::Result { .. } | Call::Ready(_) | Call::Interim(_) => Answer::Reported,
        Call::EndStage { .. } => {
            Answer::EndStage { end: true, undo: false, skip: Vec::new(), accepted: false }
        }
    }
}

/// Carries out what the link wants, and answers how many calls began.
fn step(bench: &mut Bench, watch: &mut Watch, open: &mut Vec<(CallId, Call)>) -> usize {
    let mut began = 0;
    for act in bench.acts() {
        match act {
            Act::Call(id, call) => {
                watch.call(&call);
                open.push((id, call));
                began += 1;
            }
            Act::GiveUp(id) => {
                let place = open.iter().position(|(open, _)| *open == id).unwrap();
                watch.over(&open.remove(place).1);
            }
            Act::Note { offer } => {
                watch.noted.insert(offer.clone());
                let row = watch.row();
                bench.link.note_taking(row, offer);
            }
            Act::Enroll(id) => {
                bench.link.note_enrolled(id);
            }
            Act::Done(_)
            | Act::End { .. }
            | Act::Skip { .. }
            | Act::Accept { .. }
            | Act::Hold { .. }
            | Act::Answer(_)
            | Act::Disown { .. }
            | Act::Lineage(_)
            | Act::Say(_) => {}
        }
    }
    began
}

proptest! {
    #[test]
    fn a_parent_in_any_mood_loses_nothing_and_is_not_stormed(
        moods in proptest::collection::vec(mood(), 1..200),
        owed in proptest::collection::vec(0_u8..3, 0..12),
    ) {
        let mut bench = Bench::registered();
        let (mut watch, mut open) = (Watch::default(), Vec::new());
        bench.link.note_facts(facts(&[("o0", 0, true), ("o1", 2, false)]), 0);
        for number in owed {
            let (offer, row) = (format!("o{number}"), watch.row());
            watch.owed.entry(offer.clone()).or_default().push(row);
            bench.link.note_owed(row, offer, 0, 0);
        }
        // By chance, then well until all is said.
        let well_again = std::iter::repeat_n(Mood::Well, 200);
        let mut calls = 0;
        for mood in moods.into_iter().chain(well_again) {
            calls += step(&mut bench, &mut watch, &mut open);
            if open.is_empty() {
                bench.sleep();
                continue;
            }
            let (id, call) = open.remove(0);
            watch.over(&call);
            let answer = match mood {
                Mood::Well => Ok(well(&call, None)),
                Mood::Shows(number) => Ok(well(&call, Some(number))),
                Mood::Away => Err(away()),
                Mood::Refuses(status) => Err(Trouble::Refused { status, text: String::new() }),
                Mood::Slow(ms) => {
                    bench.now += u64::from(ms);
                    Ok(well(&call, None))
                }
            };
            // For good: the row is done with.
            if let Call::Result { row, .. } = &call
                && matches!(&answer, Ok(_) | Err(Trouble::Refused { status: 409, .. }))
            {
                watch.owed.values_mut().for_each(|rows| rows.retain(|owed| owed != row));
            }
            bench.link.note_answer(id, answer, bench.now);
        }
        prop_assert_eq!(bench.link.unsent(), 0);
        prop_assert!(watch.owed.values().all(Vec::is_empty));
        let polls_at_most = bench.now / POLL_MS + 2;
        // Polls, two questions, and the rest once each and again after each trouble.
        prop_assert!(calls as u64 <= 3 * polls_at_most + 400, "{} calls in {} ms", calls, bench.now);
    }
}
