//! The clock by which modern children tell how long a call took.

use std::{str::FromStr, time::Duration};

use analysis::{Clock, Rounding};
use model::duration::read_go;

/// Finest step of a clock.
pub const MIN_CLOCK_STEP: Duration = Duration::from_micros(1);

/// Coarsest step of a clock.
pub const MAX_CLOCK_STEP: Duration = Duration::from_secs(1);

/// Nanoseconds of a millisecond.
const NS: f64 = 1e6;

/// A clock that counts in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallClock {
    pub step: Duration,
    pub rounding: Rounding,
}

impl CallClock {
    pub const MICROSECONDS: Self = Self { step: MIN_CLOCK_STEP, rounding: Rounding::Nearest };

    fn step_ns(self) -> f64 {
        self.step.as_nanos() as f64
    }

    /// What it shows of a time, both in milliseconds.
    pub fn read(self, ms: f64) -> f64 {
        let steps = ms * NS / self.step_ns();
        let steps = match self.rounding {
            Rounding::Nearest => steps.round(),
            Rounding::Down => steps.floor(),
        };
        // Divided once, so that it is the number that is written with the fewest digits.
        steps * self.step_ns() / NS
    }

    /// As it is told with what it measured.
    pub fn told(self) -> Clock {
        Clock::stepped(self.step_ns() / NS, self.rounding)
    }
}

/// `1ms`, `1us`, or `1ms,down` for one that cuts off what is not a whole step.
impl FromStr for CallClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "a clock looks like 1us, 1ms or 1ms,down; its step is from 1us to 1s in whole microseconds";
        let (step, rounding) = match text.split_once(',') {
            None => (text, Rounding::Nearest),
            Some((step, "nearest")) => (step, Rounding::Nearest),
            Some((step, "down")) => (step, Rounding::Down),
            Some(_) => return Err(EXPECTED.into()),
        };
        let step = match step.strip_suffix("us") {
            Some(number) => number.parse().map(Duration::from_micros).map_err(|_| EXPECTED)?,
            None => read_go(step).ok_or(EXPECTED)?,
        };
        let is_possible = (MIN_CLOCK_STEP..=MAX_CLOCK_STEP).contains(&step)
            && step.as_nanos().is_multiple_of(MIN_CLOCK_STEP.as_nanos());
        if is_possible { Ok(Self { step, rounding }) } else { Err(EXPECTED.into()) }
    }
}
