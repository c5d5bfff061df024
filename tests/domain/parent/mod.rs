//! The link to the parent, driven by hand and by chance, on a clock of the test's own.

mod area;
mod chance;
mod rules;

use domain::{
    parent::{
        Act, Answer, Call, CallId, FromParent, Link, LinkInputs, PauseState, PollResponse, Settings, Trouble,
    },
    release::parent::Waiting,
};
use model::ReleaseId;

/// Between two polls, in milliseconds.
const POLL_MS: u64 = 3_000;

const OWN: &str = "rm-own";

/// A link that is registered, and all that it has asked for.
struct Bench {
    link: Link,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let settings = Settings { poll_ms: POLL_MS, own_id: OWN.to_owned(), seed: 1 };
        let mut link = Link::new(settings, 0);
        link.note_below(true);
        Self { link, now: 0 }
    }

    /// The same with an id.
    fn registered() -> Self {
        let mut bench = Self::new();
        bench.link.note_enrolled("c1".to_owned());
        bench
    }

    /// All that is to be done now.
    fn acts(&mut self) -> Vec<Act> {
        std::iter::from_fn(|| self.link.next_act(self.now)).collect()
    }

    /// The calls among it.
    fn calls(&mut self) -> Vec<(CallId, Call)> {
        let call = |act| match act {
            Act::Call(id, call) => Some((id, call)),
            _ => None,
        };
        self.acts().into_iter().filter_map(call).collect()
    }

    /// The one call that is to be made now.
    fn call(&mut self) -> (CallId, Call) {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls.into_iter().next().unwrap()
    }

    fn answer(&mut self, call: CallId, answer: Answer) -> Vec<Act> {
        self.link.note_answer(call, Ok(answer), self.now);
        self.acts()
    }

    fn fail(&mut self, call: CallId, trouble: Trouble) -> Vec<Act> {
        self.link.note_answer(call, Err(trouble), self.now);
        self.acts()
    }

    /// Time goes on until the link wants to be asked again.
    fn sleep(&mut self) -> u64 {
        let before = self.now;
        self.now = self.link.wakes_at().unwrap().max(self.now);
        self.now - before
    }

    fn waits(&mut self, offer: &str, stage: u8, is_ready: bool) {
        self.link.note_facts(facts(&[(offer, stage, is_ready)]), self.now);
    }
}

fn away() -> Trouble {
    Trouble::Passing("connection refused".to_owned())
}

fn polled(offer: Option<&str>) -> Answer {
    Answer::Polled(PollResponse {
        id: "c1".to_owned(),
        offer: offer.map(str::to_owned),
        ..PollResponse::default()
    })
}

/// Releases from above, each in a stage of which the parent is to be asked.
fn facts(stages: &[(&str, u8, bool)]) -> LinkInputs {
    let from_parent = stages.iter().map(|(offer, stage, is_ready)| {
        let waiting = Waiting {
            offer: (*offer).to_owned(),
            stage: *stage,
            name: format!("stage {stage}"),
            is_ready: *is_ready,
            failures: None,
        };
        let release = ReleaseId::parse(offer).unwrap();
        (
            (*offer).to_owned(),
            FromParent {
                release,
                waiting: Some(waiting),
                interim_ms: None,
                pause: PauseState::No,
                skipped: Vec::new(),
            },
        )
    });
    LinkInputs(from_parent.collect())
}
