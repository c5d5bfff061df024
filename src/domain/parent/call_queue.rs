//! One call after the other, with a pause that grows after each failure.

use super::{
    CallId,
    act::{Act, Errand, Notice, Trouble},
};

/// The longest pause between two attempts while something fails, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 60_000;

/// Doublings after which a pause grows no more.
const MAX_DOUBLINGS: u32 = 10;

/// Random numbers from a seed: two managers that lost their parent at once must not come back at once.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 1. `SplitMix64`.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Twice as long after each failure, half of it by chance.
    pub fn pause(&mut self, poll_ms: u64, failures: u32) -> u64 {
        let longest = LONGEST_PAUSE_MS.max(poll_ms);
        let pause = poll_ms.saturating_mul(1 << failures.min(MAX_DOUBLINGS)).min(longest);
        (pause as f64 * (0.5 + 0.5 * self.roll())) as u64
    }
}

/// What kind of failure it was, as far as a new line in the log is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneKind {
    Passing,
    Refused(u16),
}

#[derive(Debug)]
pub struct Lane {
    errand: Errand,
    /// The call that is under way, and when it began.
    under_way: Option<(CallId, u64)>,
    /// Not before.
    pub due: u64,
    failures: u32,
    trouble: Option<LaneKind>,
    /// Whether anybody was told yet that it works.
    said: bool,
}

impl Lane {
    pub fn new(errand: Errand, due: u64) -> Self {
        Self { errand, under_way: None, due, failures: 0, trouble: None, said: false }
    }

    pub fn is_free(&self) -> bool {
        self.under_way.is_none()
    }

    pub fn works(&self) -> bool {
        self.said && self.trouble.is_none()
    }

    pub fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    pub fn begin(&mut self, call: CallId, now: u64) {
        self.under_way = Some((call, now));
    }

    /// When the call under way began.
    pub fn began(&self) -> Option<u64> {
        self.under_way.map(|(_, began)| began)
    }

    /// The call under way is over; false: it was another one.
    pub fn end(&mut self, call: CallId) -> bool {
        let is_it = self.under_way.is_some_and(|(under_way, _)| under_way == call);
        if is_it {
            self.under_way = None;
        }
        is_it
    }

    /// Takes the call under way back.
    pub fn give_up(&mut self) -> Option<CallId> {
        self.under_way.take().map(|(call, _)| call)
    }

    pub fn succeed(&mut self, due: u64, acts: &mut impl Extend<Act>) {
        let is_news = self.trouble.is_some() || (!self.said && self.errand == Errand::Poll);
        (self.failures, self.trouble, self.due, self.said) = (0, None, due, true);
        acts.extend(is_news.then_some(Act::Say(Notice::Works(self.errand))));
    }

    pub fn fail(
        &mut self,
        trouble: &Trouble,
        now: u64,
        poll_ms: u64,
        dice: &mut Dice,
        acts: &mut impl Extend<Act>,
    ) {
        let (kind, why) = match trouble {
            Trouble::Passing(why) => (LaneKind::Passing, why.clone()),
            Trouble::Refused { status, text } => {
                (LaneKind::Refused(*status), format!("it answered {status}: {text}"))
            }
        };
        self.failures = self.failures.saturating_add(1);
        self.due = now + dice.pause(poll_ms, self.failures);
        if self.trouble.replace(kind) != Some(kind) {
            acts.extend([Act::Say(Notice::Fails { errand: self.errand, why })]);
        }
    }
}
