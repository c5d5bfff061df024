//! How a release stands, as a shape, a colour and a word.

use maud::{Markup, html};

use crate::text::releases as words;

/// What the states of releases have in common for who looks from afar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateStyle {
    Waiting,
    Going,
    /// A person has to act.
    Asks,
    Back,
    Good,
    Mixed,
    Bad,
}

impl StateStyle {
    const fn class(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Going => "going",
            Self::Asks => "asks",
            Self::Back => "back",
            Self::Good => "good",
            Self::Mixed => "mixed",
            Self::Bad => "bad",
        }
    }

    /// A path within 16 by 16.
    const fn shape(self) -> &'static str {
        match self {
            // A ring.
            Self::Waiting => {
                "M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13zm0 2.5a4 4 0 1 0 0 8a4 4 0 0 0 0-8z"
            }
            // A triangle that points on.
            Self::Going => "M3 1.5l11.5 6.5l-11.5 6.5z",
            // A hand's breadth of bars: it is held.
            Self::Asks => "M3 2h3.5v12h-3.5zM9.5 2h3.5v12h-3.5z",
            // A triangle that points back.
            Self::Back => "M13 1.5l-11.5 6.5l11.5 6.5z",
            // A tick.
            Self::Good => "M1.5 8.5l2-2l3 3l6-6.5l2 2l-8 8.5z",
            // A diamond.
            Self::Mixed => "M8 .8l7.2 7.2l-7.2 7.2l-7.2-7.2z",
            // A cross.
            Self::Bad => {
                "M3.5 1.5l4.5 4.5l4.5-4.5l2 2l-4.5 4.5l4.5 4.5l-2 2l-4.5-4.5l-4.5 4.5l-2-2l4.5-4.5l-4.5-4.5z"
            }
        }
    }
}

/// The look and the words of a state of the API.
pub fn of(state: &str) -> (StateStyle, &str) {
    match state {
        "Planned" => (StateStyle::Waiting, words::PLANNED),
        "Running" => (StateStyle::Going, words::RUNNING),
        "Paused" => (StateStyle::Asks, words::PAUSED),
        "AwaitingApproval" => (StateStyle::Asks, words::AWAITING),
        "RollingBack" => (StateStyle::Back, words::ROLLING_BACK),
        "Done" => (StateStyle::Good, words::DONE),
        "DoneWithFailures" => (StateStyle::Mixed, words::WITH_FAILURES),
        "DoneUntested" => (StateStyle::Mixed, words::DONE_UNTESTED),
        "RolledBack" => (StateStyle::Back, words::ROLLED_BACK),
        "RolledBackUnproven" => (StateStyle::Bad, words::UNPROVEN),
        "Aborted" => (StateStyle::Bad, words::ABORTED),
        "NoParticipants" => (StateStyle::Mixed, words::NOBODY),
        other => (StateStyle::Mixed, other),
    }
}

/// Whether a release is not over.
pub fn is_open(state: &str) -> bool {
    matches!(state, "Planned" | "Running" | "Paused" | "AwaitingApproval" | "RollingBack")
}

pub fn badge(state: &str) -> Markup {
    let (look, words) = of(state);
    html! {
        span class={ "badge " (look.class()) } data-state=(state) {
            svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true" focusable="false" { path d=(look.shape()) fill="currentColor" {} }
            (words)
        }
    }
}
