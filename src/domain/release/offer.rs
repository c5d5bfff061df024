//! What an offer is called.
//!
//! A release hands an agent one offer a stage, and then the roll-out; a manager below gets the whole strategy in one.
//! Their names follow from what they are, so nothing needs to remember them: the first is called like the release, the
//! others carry a suffix.
//!
//! | name | offer |
//! |---|---|
//! | `21` | the first: the first stage alone; to a manager below, the whole strategy |
//! | `21.3` | the third stage of the strategy, alone |
//! | `21.rollout`, `21.rollout.2` | the roll-out of the first, second function |
//! | `21.undo`, `21.undo.2` | the first, second undo of this child |
//! | `21.r2`, `21.r2.3` | the same in the second attempt |
//!
//! Two releases whose names could be taken for each other's offers are refused at submission
//! ([`OfferName::could_be_offer_of`]).

use std::fmt::Write as _;

/// Highest attempt of a release: names of offers stay short.
pub const MAX_ATTEMPT: u16 = 999;

/// Highest number of an undo; a child that loses more of them is offered the last one again.
pub const MAX_UNDO: u16 = 999;

/// Which part of a release an offer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The whole strategy, as managers below get it, and agents that are led in place.
    Whole,
    /// One stage, by its index in the strategy.
    Stage(u8),
    /// The roll-out of one function, by its index.
    Rollout(u8),
}

/// The part of an offer's id that follows the release's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OfferName {
    /// From 1 to [`MAX_ATTEMPT`].
    pub attempt: u16,
    pub kind: OfferKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OfferKind {
    First,
    /// Index of a stage, from 1.
    Stage(u8),
    Rollout(u8),
    /// From 1 to [`MAX_UNDO`]; undos are counted over all attempts.
    Undo(u16),
}

impl OfferName {
    pub const fn of(piece: Unit, attempt: u16) -> Self {
        let kind = match piece {
            Unit::Whole | Unit::Stage(0) => OfferKind::First,
            Unit::Stage(index) => OfferKind::Stage(index),
            Unit::Rollout(function) => OfferKind::Rollout(function),
        };
        Self { attempt, kind }
    }

    pub const fn undo(number: u16) -> Self {
        Self { attempt: 1, kind: OfferKind::Undo(number) }
    }

    /// The id of this offer of the release called `release`.
    pub fn id(self, release: &str) -> String {
        let mut id = release.to_owned();
        if self.attempt > 1 {
            let _ = write!(id, ".r{}", self.attempt);
        }
        let _ = match self.kind {
            OfferKind::First => Ok(()),
            OfferKind::Stage(index) => write!(id, ".{}", u32::from(index) + 1),
            OfferKind::Rollout(0) => write!(id, ".rollout"),
            OfferKind::Rollout(function) => write!(id, ".rollout.{}", u32::from(function) + 1),
            OfferKind::Undo(1) => write!(id, ".undo"),
            OfferKind::Undo(number) => write!(id, ".undo.{number}"),
        };
        id
    }

    /// Reads what follows the release's id: `""`, `".3"`, `".r2.undo"`. Only the spelling that [`Self::id`] gives.
    pub fn parse_suffix(suffix: &str) -> Option<Self> {
        let first = Self { attempt: 1, kind: OfferKind::First };
        if suffix.is_empty() {
            return Some(first);
        }
        let mut words = suffix.strip_prefix('.')?.split('.').peekable();
        let mut attempt = 1;
        if let Some(number) = words.peek().and_then(|word| word.strip_prefix('r')).and_then(|n| number(n, 2))
        {
            attempt = number;
            words.next();
        }
        let kind = match (words.next(), words.next()) {
            (None, None) if attempt > 1 => OfferKind::First,
            (Some("rollout"), None) => OfferKind::Rollout(0),
            (Some("rollout"), Some(n)) => OfferKind::Rollout(u8::try_from(number(n, 2)? - 1).ok()?),
            (Some("undo"), None) if attempt == 1 => OfferKind::Undo(1),
            (Some("undo"), Some(n)) if attempt == 1 => OfferKind::Undo(number(n, 2)?),
            (Some(n), None) => OfferKind::Stage(u8::try_from(number(n, 2)? - 1).ok()?),
            _ => return None,
        };
        if words.next().is_some() || attempt > MAX_ATTEMPT {
            return None;
        }
        Some(Self { attempt, kind })
    }

    /// Splits an offer id at every place where a release's id may end, longest first.
    pub fn candidates(offer: &str) -> impl Iterator<Item = (&str, Self)> {
        std::iter::once(offer.len())
            .chain(offer.rmatch_indices('.').map(|(at, _)| at).take(MAX_SUFFIX_WORDS))
            .filter_map(|at| Some((&offer[..at], Self::parse_suffix(&offer[at..])?)))
    }

    /// Whether `id` could be the name of an offer, other than the first, of the release called `release`.
    pub fn could_be_offer_of(id: &str, release: &str) -> bool {
        id != release && id.strip_prefix(release).is_some_and(|suffix| Self::parse_suffix(suffix).is_some())
    }
}

/// Most words in the suffix of an offer: `.r2.rollout.3`.
const MAX_SUFFIX_WORDS: usize = 3;

/// A number from `least` to 999 without leading zeros.
fn number(text: &str, least: u16) -> Option<u16> {
    let plain = text.len() <= 3 && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| plain && *n >= least)
}
