//! The English of the page, in one place. What the API says in sentences of its own is shown as it is.

pub mod actions;
pub mod children;
pub mod compared;
pub mod map;
pub mod release;
pub mod releases;
mod script;
pub mod traffic;
pub mod trail;
pub mod tree;

pub use script::for_script;

pub const PRODUCT: &str = "Choirmaster";
pub const INTERNAL: &str =
    "This page could not be made. What happened is in the manager's log; looking again may help.";
pub const TO_RELEASES: &str = "All releases";
pub const SKIP: &str = "Skip to the content";
pub const NAVIGATION: &str = "Main";
pub const RELEASES: &str = "Releases";
pub const SIGN_IN: &str = "Sign in";
pub const SIGN_OUT: &str = "Sign out";
pub const TOKEN: &str = "Token";
pub const TOKEN_HINT: &str =
    "An operator's token of this manager. It is kept nowhere; a cookie that ends by itself speaks for it.";
pub const TOKEN_UNKNOWN: &str = "This token is not known here.";
pub const SIGNED_OUT: &str = "You are signed out.";
pub const SESSION_OVER: &str = "Your session is over";
pub const SESSION_OVER_DETAIL: &str =
    "Nothing was done. Sign in, look again, and repeat what you wanted to do.";
pub const UNPROVEN: &str =
    "Nothing was done: the form is not one of this session. Look again, and repeat what you wanted to do.";
pub const ONWARD: &str = "Continue";
pub const COLOURS: &str = "Colours";
pub const APPLY: &str = "Apply";
pub const OPEN_TO_ALL: &str = "no sign-in needed";

pub const KEYS: &str = "Keys";
pub const KEYS_ON: &str = "Keys of a single character do what is said here";
pub const CLOSE: &str = "Close";
/// Keys, and what they do.
pub const KEYS_DO: [(&str, &str); 7] = [
    ("/", "to the filters"),
    ("j", "to the next release"),
    ("k", "to the release before"),
    ("Enter", "opens the release"),
    ("Esc", "leaves a field, closes this"),
    ("?", "shows this"),
    ("Tab", "to whatever else can be used"),
];

pub const NO_RELEASES: &str = "There are no releases here yet.";
pub const NO_RELEASES_HOW: &str = "A developer posts one with: choirmaster release submit STRATEGY.yml";
pub const NONE_FOUND: &str = "No release fits these filters.";
pub const NEW_RELEASE: &str = "New release";
pub const STRATEGY_HINT: &str = "YAML. Functions are those in the manager's own folder; to send others along: choirmaster release submit.";
pub const CHECK: &str = "Check and plan";
pub const SUBMIT: &str = "Submit";
pub const NO_SUBMIT: &str = "Your token checks and plans strategies; to submit one takes the role operator.";
pub const THERE_ALREADY: &str = "Nothing happened: the same strategy was submitted before, as";
pub const SENT_ABOVE: &str =
    "It reaches beyond this manager, so it went to the one above, where it is shown:";
pub const PLAN: &str = "What it would do";
pub const FILTER_NAME: &str = "Name or id";
pub const FILTER_FUNCTION: &str = "Function or service";
pub const FILTER_LABEL: &str = "Label of the target";
pub const FILTER_AREA: &str = "Place, or west,south,east,north";
pub const SORT: &str = "Order";
pub const FILTER: &str = "Filter";
pub const FILTER_CLEAR: &str = "Show all";
pub const OLDER: &str = "Older releases";
pub const ANY: &str = "any";

pub const CHILDREN: &str = "Children";
pub const NO_CHILDREN: &str = "No child has come here yet.";
pub const NO_CHILD_FOUND: &str = "No child fits these filters.";
pub const ROUTERS: &str = "Routers";
pub const NO_ROUTERS: &str = "There is no such router.";
pub const NOT_REACHED: &str = "could not be read";
pub const TAKES_NOTHING_OVER: &str = "takes no calls over at ports of other programs";
pub const SHARED: &str = "another program takes a part of the calls, past the router";
pub const LED: &str = "What it leads";
pub const LEADS_NOTHING: &str = "It leads no service.";
pub const ORDERS: &str = "What was asked of it, newest first";
pub const SERVICES: &str = "Services";
pub const NO_SERVICES: &str = "No router leads a service.";
pub const BY_ROUTER: &str = "At each router";
pub const NOT_PROVEN: &str = "not seen in force yet";
pub const OF_NO_RELEASE: &str = "of no release here";
pub const IN_RELEASE: &str = "a release is in hand";
pub const DRAINS: &str = "drains";
pub const NOT_LOOKED_AT: &str = "not looked at";
pub const TREE: &str = "Tree";
pub const TREE_OF_RELEASE: &str = "As they stand in the release";
pub const TREE_EMPTY: &str = "Nobody is here.";
pub const TREE_OPEN: &str = "Open";
pub const TREE_CLOSE: &str = "Close";
pub const MORE: &str = "More";
pub const AGENT: &str = "agent";
pub const MANAGER: &str = "release manager";
pub const OPEN: &str = "is taken";
pub const CORDONED: &str = "cordoned: takes no new work";
pub const DRAINED: &str = "drained: is left out";
pub const OUTSIDE: &str = "outside of this manager's area";
pub const NEVER_CALLED: &str = "not since this manager started";
pub const HAS_PART: &str = "Releases it has a part in";
pub const NO_PART: &str = "It has no part in a release that is not over.";
pub const RUNS: &str = "What it runs";
pub const RUNS_NOTHING: &str = "No release has changed what runs there.";
pub const AREA: &str = "Its area";
pub const TAKES_PART: &str = "Who takes part";
pub const BELOW: &str = "Below it";
pub const BELOW_WHOM: &str = "The address doesn't say which manager is asked.";
pub const PATH_BELOW: &str = "Managers that lead here";
pub const THIS_MANAGER: &str = "this manager";
pub const ASKED_NOW: &str = "The manager below said so when this page was made. Look again to ask it again.";
pub const ASKED_WHEN_OPENED: &str = "It is asked when these are opened, and nothing of its answer is kept.";
pub const ITS_CHILDREN: &str = "Its children";
pub const ITS_RELEASES: &str = "Its releases";
pub const ITS_OWN_PAGE: &str = "Its own page";
pub const RELEASES_BELOW: &str = "Releases of a manager below";
pub const NO_RELEASES_BELOW: &str = "It has no releases.";
pub const ACTIONS: &str = "Actions";
pub const NOTE_REQUIRED: &str = "Note: why (this release wants one; it goes into the audit trail)";
pub const NOTE: &str = "Note (optional; it goes into the audit trail)";
pub const TYPE_ID: &str = "To be sure, type the release's id:";
pub const NOT_TYPED: &str =
    "Nothing was done: this is an abort of many agents, and what was typed is not the release's id.";
pub const NO_ACTION: &str = "Nothing was done: the form says nothing that can be done to a release.";
pub const KEPT: &str = "What you wrote";
pub const SKIP_STAGE: &str = "Skip stage";
pub const RETRY_CHILD: &str = "Retry";
pub const RETRY_CHILD_DOES: &str = "Gives this child alone another attempt.";
pub const CHILD_RETRIED: &str = "You gave the child another attempt.";
pub const SKIP_CHILD: &str = "Leave out";
pub const SKIP_CHILD_DOES: &str =
    "Nobody waits for this child any more; what it got of the new version, it gives back.";
pub const CHILD_SKIPPED: &str = "You left the child out.";
pub const PROMOTE_TO_GATE: &str = "Promote to the next gate";
pub const PROMOTE_ALL: &str = "Promote through all that is left";

pub const PROGRESS: &str = "Progress";
pub const WAVES: &str = "Waves";
pub const LIMITS: &str = "Limits";
pub const WAVE_OPEN: &str = "its turn has come";
pub const WAVE_CLOSED: &str = "comes later";
pub const STAGES: &str = "Stages";
pub const JUDGED: &str = "What judges it";
pub const BASE: &str = "base";
pub const NEW: &str = "new";
pub const NO_VALUES: &str = "no values";
pub const UNBOUNDED: &str = "no bound";
pub const AS_RATIO: &str = "New to base, as a ratio (1: the same)";
pub const AS_DIFFERENCE: &str = "New less base (0: the same)";
pub const COMPARED_KEY: &str =
    "Dotted: the same. Dashed: what the strategy bears. Diamond: the estimate, on its interval.";
pub const COMPARED_QUANTILES: &str =
    "Marks stand at the median, boxes end at the 95th percentile, lines at the 99th.";
pub const COMPARED_TABLE: &str = "Base and new in numbers";
pub const COMPARED_WHAT: &str = "Of what was measured";
pub const COMPARED_NOT_YET: &str = "Nothing has been compared yet.";
pub const COMPARED_NO_CALLS: &str = "No values of either version have been measured.";
pub const COMPARED_NO_ESTIMATE: &str = "There is not enough to say how far apart they are.";
pub const COMPARED_WITH_LIMITS: &str =
    "What is measured is held against fixed limits and not against the base version.";
pub const COMPARED_UNREADABLE: &str = "What was found can't be drawn; it is below as the API has it.";
pub const STRATEGY: &str = "Strategy";
pub const EXCLUDED: &str = "Who does not take part";
pub const TRAFFIC: &str = "Who gets which share of calls";
pub const NOT_YET: &str = "not yet";

/// What becomes of those who take part in a release.
pub const SUCCEEDED: &str = "succeeded";
pub const UNTESTED: &str = "untested";
pub const TAKEN_BACK: &str = "taken back";
pub const FAILED: &str = "failed";
pub const TIMED_OUT: &str = "timed out";
pub const UNREACHABLE: &str = "unreachable";
pub const LOST: &str = "lost";
pub const LEFT_OUT: &str = "left out";
pub const AT_WORK: &str = "at work";
pub const TO_COME: &str = "to come";
pub const NOT_OVER: &str = "not over";
pub const GOING_BACK: &str = "going back";
pub const NOT_PROVEN_BACK: &str = "not proven to be back";
pub const ENDED_EARLY: &str = "ended early";
pub const NOBODY_YET: &str = "nobody yet";

pub fn none_of(all: &str) -> String {
    format!("none of {all}")
}

pub fn parts_of(parts: &[String], all: &str) -> String {
    format!("{}, of {all}", parts.join(", "))
}

/// What the colours are called to choose one.
pub const fn scheme(scheme: crate::visit::Scheme) -> &'static str {
    use crate::visit::Scheme::{Dark, Light, System};
    match scheme {
        System => "As the system",
        Light => "Light",
        Dark => "Dark",
    }
}

/// `1 child`, `3 children`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// With a space between each three digits, as the SI has it: `12 345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            // Narrow, and no line ends there.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number in four significant digits; very large and very small ones with a power of ten.
pub fn figures(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let before = value.abs().log10().floor();
    let decimals = (3.0 - before).clamp(0.0, 7.0) as usize;
    let written = format!("{value:.decimals$}");
    if written.contains('.') {
        return written.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    written
}

/// A share from 0 to 1 in percent.
pub fn percent(share: f64) -> String {
    format!("{} %", figures(share * 100.0))
}

/// How near a limit is of which so many of at most so many are used up.
pub fn near_limit(used: u32, most: u32) -> String {
    match most.checked_sub(used) {
        None => "the limit is passed".to_owned(),
        Some(0) => "one more passes the limit".to_owned(),
        Some(left) => format!("{} more are borne", grouped(left.into())),
    }
}

/// What a limit of a strategy counts.
pub fn limit(name: &str) -> String {
    name.trim_start_matches("max_").replace('_', " ")
}

/// Texts by name, as scripts read them.
fn json(texts: &[(&str, &str)]) -> String {
    let texts = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).into()));
    serde_json::Value::Object(texts.collect()).to_string()
}
