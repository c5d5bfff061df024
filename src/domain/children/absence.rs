//! After how much silence a child is not there any more.

use std::time::Duration;

use super::Child;

/// What an operator sets of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absences {
    idle: Duration,
}

/// How long one child may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// A child that has nothing in hand polls every 3 s. One that is silent for so long is not there, if another calls
    /// from its place.
    pub idle: Duration,
}

impl Default for Absences {
    fn default() -> Self {
        Self::of_all(Duration::from_secs(10))
    }
}

impl Absences {
    /// All children alike.
    pub const fn of_all(idle: Duration) -> Self {
        Self { idle }
    }

    /// What holds where nothing is known of the child.
    pub const fn configured(self) -> Duration {
        self.idle
    }

    /// That of a child. Whatever makes a difference between children makes it here.
    pub const fn of_child(self, _child: &Child) -> Absence {
        Absence { idle: self.idle }
    }
}

impl Absence {
    pub const fn idle_ms(self) -> u64 {
        ms(self.idle)
    }

    /// A child that asks every second for the end of its stage was silent for so long: it is not there any more, unless
    /// its conditions failed and it goes back before it reports. That takes as long as one function's deployment: some
    /// 6 s where it was measured, and this is twenty times that.
    pub fn in_stage_ms(self) -> u64 {
        ms(self.idle * 12)
    }

    /// Calls that come so much later than a download were not made for it any more: the set-up is over.
    pub fn of_set_up_ms(self) -> u64 {
        ms(self.idle / 5)
    }
}

const fn ms(time: Duration) -> u64 {
    time.as_millis() as u64
}
