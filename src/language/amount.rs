//! A number of agents, given as such or as a share of all.

use serde::{Deserialize, Serialize};

use super::{
    diagnostic::quoted,
    scalar::{ScalarFault, fault},
};

/// 100 %, in millionths.
const WHOLE: u32 = 1_000_000;

/// Digits after the point that a percentage may have: one agent of a million is 0.0001 %.
const MAX_FRACTION_DIGITS: usize = 4;

/// So many agents, or such a share of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Count(u32),
    /// A share in millionths, 0 to 1,000,000, so that it is exact: 12.5 % is 125,000.
    Share(u32),
}

/// What a share comes to where it is no whole number of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Waves: 1 % of 50 agents is one agent.
    Up,
    /// Limits: 1 % of 50 agents is none.
    Down,
}

impl Amount {
    /// All.
    pub const WHOLE: Self = Self::Share(WHOLE);

    /// How many of `agents` that is, never more than there are.
    pub fn of(self, agents: u32, round: Round) -> u32 {
        match self {
            Self::Count(count) => count.min(agents),
            Self::Share(share) => {
                let (agents, whole) = (u64::from(agents) * u64::from(share), u64::from(WHOLE));
                let share = match round {
                    Round::Up => agents.div_ceil(whole),
                    Round::Down => agents / whole,
                };
                share as u32
            }
        }
    }

    pub const fn is_none(self) -> bool {
        matches!(self, Self::Count(0) | Self::Share(0))
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => write!(f, "{}%", f64::from(*share) / 10_000.0),
        }
    }
}

/// `3` or `12.5%`.
pub(super) fn amount(text: &str) -> Result<Amount, ScalarFault<Amount>> {
    let wrong = || {
        fault(
            format!("{} is neither a count nor a percentage", quoted(text)),
            "write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%",
        )
    };
    let trimmed = text.trim();
    let Some(percent) = trimmed.strip_suffix('%') else {
        let all_digits = !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit());
        return trimmed.parse().ok().filter(|_| all_digits).map(Amount::Count).ok_or_else(wrong);
    };
    let share = millionths(percent.trim_end()).ok_or_else(wrong)?;
    if share > u64::from(WHOLE) {
        return Err(fault(format!("{} is more than all", quoted(text)), "write at most 100%"));
    }
    Ok(Amount::Share(share as u32))
}

fn millionths(percent: &str) -> Option<u64> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let fits = !whole.is_empty()
        && whole.len() <= 9
        && fraction.len() <= MAX_FRACTION_DIGITS
        && !percent.ends_with('.')
        && all_digits(whole)
        && all_digits(fraction);
    fits.then(|| format!("{whole}{fraction:0<MAX_FRACTION_DIGITS$}").parse().ok())?
}
