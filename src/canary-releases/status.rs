//! Where a canary stands: its phase, how much of the calls it gets, and conditions as those of Kubernetes.
//!
//! All of it is read off its release each time, and nothing is kept. A condition is `True`, `False` or `Unknown`; what is not so yet is
//! `False`, what nobody can tell is `Unknown`. The time of its last transition is that of its status, not of its reason, so what is
//! `False` since the canary was submitted has that time. Times that no release keeps (a pause, a share that changed) are taken from what
//! routers told last, or counted back from now. Such a time may be too early, since routers tell nothing when it is the share to give that
//! changes, or too late, by as long as the manager was down.

use ab_releases::{Course, Recorded, percent};
use domain::{
    release::{
        ending::{Cause, Ending},
        pause::{Pause, PausedBy},
        state::{End, ReleaseState},
    },
    traffic::Sum,
};
use language::{Service, Strategy};
use protocol::{
    api::ShareRange,
    canary_releases::{CanaryCondition, CanaryPart, CanaryStatus},
    time::rfc3339,
};

use super::{
    marks,
    translate::{share_of, stages_of},
    words::listed,
};

/// The place of the canary among the variations of its strategy.
const CANARY: usize = 1;

/// What is known of a canary. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Life<'r> {
    pub strategy: &'r Strategy,
    pub course: Course<'r>,
    pub recorded: &'r Recorded,
    /// Nothing stands before its roll-out any more: somebody wants it to be adopted.
    pub is_open: bool,
    /// Why it was taken back, or a child that failed.
    pub ending: Option<&'r Ending>,
    pub submitted: i64,
    /// `None`: it is over, and nobody tells of it any more.
    pub live: Option<&'r Live>,
}

/// What is known of a canary only while somebody has it in hand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// What it waits for, in words.
    pub waits_for: Option<String>,
    /// Other releases that its routers have in hand; known only while none of these has begun it.
    pub busy: Vec<String>,
    /// Since when it is paused.
    pub paused: Option<i64>,
    /// Routers that are to lead its calls, or that have to prove that they don't any more.
    pub routers: u32,
    /// What they tell of each of its parts, in the order of the strategy's services.
    pub parts: Vec<Told>,
    /// When that changed last.
    pub told: Option<i64>,
    /// Those of them that can't be read, by their ids.
    pub unread: Vec<String>,
}

/// What routers tell of a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Routers that tell of it, or have proven that they give the canary nothing and lead none of its calls any more.
    pub routers: u32,
    /// What those tell. Of a router that serves one variation alone it is that one.
    pub sums: Vec<Sum>,
}

impl Told {
    /// Whether another program takes a part of its calls, past a router.
    fn is_shared(&self) -> bool {
        self.sums.iter().any(|sum| sum.shared > 0)
    }
}

/// Whether something is so.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    True,
    False,
    Unknown,
}

use Verdict::{False, True, Unknown};

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            True => "True",
            False => "False",
            Unknown => "Unknown",
        }
    }
}

/// Of a condition all but its type.
struct Found {
    verdict: Verdict,
    reason: &'static str,
    message: String,
    since: i64,
}

/// Where a canary stands.
#[must_use]
pub fn status(life: &Life<'_>) -> CanaryStatus {
    let conditions = [
        ("Accepted", life.accepted()),
        ("WeightInForce", life.weight_in_force()),
        ("Healthy", life.healthy()),
        ("Adopted", life.adopted()),
        ("Deprecated", life.deprecated()),
    ];
    let condition = |(kind, found): (&str, Found)| CanaryCondition {
        kind: kind.to_owned(),
        status: found.verdict.name().to_owned(),
        reason: found.reason.to_owned(),
        message: found.message,
        last_transition_time: rfc3339(found.since),
    };
    let of = |part: usize| {
        let seen = life.live.and_then(|live| life.seen(live, part));
        let seen =
            seen.map(|(lowest, highest)| ShareRange { lowest: percent(lowest), highest: percent(highest) });
        (percent(life.weight(part)), seen)
    };
    let parts = life.parts().map(|(at, service)| {
        let (weight, seen) = of(at);
        let ports = service.ports.iter().map(|port| i32::from(port.port)).collect();
        CanaryPart { name: service.name().to_owned(), ports, weight, seen }
    });
    let (weight, seen) = of(0);
    CanaryStatus {
        phase: life.phase().to_owned(),
        weight,
        seen,
        parts: if life.is_of_several() { parts.collect() } else { Vec::new() },
        conditions: conditions.into_iter().map(condition).collect(),
    }
}

impl Life<'_> {
    /// The registered release of which it is.
    pub(super) fn release(&self) -> &str {
        self.marked(marks::RELEASE)
    }

    /// The version that it runs.
    pub(super) fn version(&self) -> &str {
        self.marked(marks::VERSION)
    }

    fn marked(&self, key: &str) -> &str {
        self.strategy.annotations.get(key).map(String::as_str).unwrap_or_default()
    }

    fn phase(&self) -> &'static str {
        match self.course.state {
            ReleaseState::Planned => "Pending",
            ReleaseState::Running if self.is_open => "Adopting",
            ReleaseState::Running if self.has_begun() => "Canary",
            ReleaseState::Running => "Starting",
            ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. } => "Held",
            ReleaseState::RollingBack { end: End::Aborted, .. } => "Deprecating",
            ReleaseState::RollingBack { .. } => "RollingBack",
            ReleaseState::Over { end, unconfirmed } => match (end, unconfirmed) {
                (End::Done, _) => "Adopted",
                (End::Aborted, 0) => "Deprecated",
                (End::Aborted, _) => "DeprecatedUnproven",
                (End::RolledBack, 0) => "RolledBack",
                (End::RolledBack, _) => "RolledBackUnproven",
                (End::NoParticipants, _) => "NoParticipants",
                (End::DoneWithFailures | End::Untested, _) => "Failed",
            },
        }
    }

    /// What has a weight of its own, with its place.
    fn parts(&self) -> impl Iterator<Item = (usize, &Service)> {
        self.strategy.services.iter().enumerate()
    }

    fn is_of_several(&self) -> bool {
        self.strategy.services.len() > 1
    }

    /// What a part is to get now, in units of 0.01 %.
    fn weight(&self, part: usize) -> u16 {
        let takes_over = *self.course.state == ReleaseState::Running && self.is_open;
        let is_shared = match self.course.state {
            ReleaseState::Running | ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. } => {
                self.has_begun() && !self.course.is_back && !takes_over
            }
            ReleaseState::Planned | ReleaseState::RollingBack { .. } | ReleaseState::Over { .. } => false,
        };
        if is_shared {
            return stages_of(self.strategy).nth(part).flatten().map_or(0, share_of);
        }
        // All of them, or none.
        let shares =
            if takes_over { self.recorded.all_to(CANARY) } else { self.course.shares(self.recorded) };
        shares.get(CANARY).copied().unwrap_or_default()
    }

    /// What it is to get now, in words.
    fn gets(&self) -> String {
        let all: Vec<u16> = self.parts().map(|(at, _)| self.weight(at)).collect();
        match all.first() {
            Some(first) if all.iter().any(|weight| weight != first) => {
                let each = self.parts().zip(&all);
                let each = each.map(|((_, of), weight)| format!("{} % of {}", percent(*weight), of.name()));
                format!("the canary gets {}", listed(each))
            }
            first => {
                let weight = percent(first.copied().unwrap_or_default());
                format!("the canary gets {weight} % of the calls")
            }
        }
    }

    /// Whether a router has begun it.
    fn has_begun(&self) -> bool {
        self.course.times.iter().any(|timed| timed.stage.is_some())
    }

    /// When the first router began it.
    fn began(&self) -> i64 {
        let began = self.course.times.iter().filter(|timed| timed.stage.is_some());
        began.map(|timed| timed.began_ms).min().unwrap_or(self.submitted)
    }

    fn ended(&self) -> i64 {
        self.course.ended.unwrap_or(self.submitted)
    }

    /// What all its routers tell of the canary of a part.
    fn sum(&self, part: usize) -> Option<&Sum> {
        let name = &self.strategy.services.get(part)?.variations.get(CANARY)?.name;
        self.live?.parts.get(part)?.sums.iter().find(|sum| sum.variation == name.as_str())
    }

    /// The lowest and the highest share that its routers were read back to give it of a part; `None`: no router yet.
    fn seen(&self, live: &Live, part: usize) -> Option<(u16, u16)> {
        let sum = self.sum(part);
        let seen = sum.and_then(|sum| sum.seen);
        // Who tells of others alone gives it nothing.
        if sum.map_or(0, |sum| sum.routers) < live.parts.get(part)?.routers {
            return Some((0, seen.map_or(0, |(_, highest)| highest)));
        }
        seen
    }

    /// Whether its routers do with a part what is wanted of them now.
    fn is_in_force(&self, live: &Live, part: usize) -> bool {
        match self.seen(live, part) {
            // Nobody has to give it anything.
            None => live.routers == 0,
            Some(seen) => {
                let wanted = self.weight(part);
                let mut sums = live.parts.iter().skip(part).take(1).flat_map(|told| &told.sums);
                seen == (wanted, wanted) && sums.all(|sum| sum.unproven == 0)
            }
        }
    }

    /// When its routers told last that anything had changed.
    fn told(&self) -> i64 {
        self.live.and_then(|live| live.told).unwrap_or_else(|| self.began())
    }

    fn since_submitted(&self, verdict: Verdict, reason: &'static str, message: impl Into<String>) -> Found {
        Found { verdict, reason, message: message.into(), since: self.submitted }
    }

    fn since_ended(&self, verdict: Verdict, reason: &'static str, message: impl Into<String>) -> Found {
        Found { verdict, reason, message: message.into(), since: self.ended() }
    }

    fn since_told(&self, verdict: Verdict, reason: &'static str, message: impl Into<String>) -> Found {
        Found { verdict, reason, message: message.into(), since: self.told() }
    }

    /// Why it was taken back, or what failed.
    fn why(&self) -> &str {
        self.ending.map_or("nothing more is known", |ending| &ending.text)
    }

    fn waits_for(&self) -> &str {
        self.live.and_then(|live| live.waits_for.as_deref()).unwrap_or("it waits for its turn")
    }

    fn accepted(&self) -> Found {
        let busy = self.live.map(|live| live.busy.as_slice()).unwrap_or_default();
        match self.course.state {
            ReleaseState::Over { end: End::NoParticipants, .. } => {
                let name = &self.recorded.release;
                let message =
                    format!("no router takes part in it: `choirmaster release show {name}` says why not");
                self.since_ended(False, "NoParticipants", message)
            }
            ReleaseState::Running if !self.has_begun() && !busy.is_empty() => {
                let busy = listed(busy);
                let message = format!("a router of it has {busy} in hand, and begins it once that is over");
                self.since_submitted(True, "Waiting", message)
            }
            ReleaseState::Planned => self.since_submitted(True, "Waiting", self.waits_for()),
            ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }
            | ReleaseState::RollingBack { .. }
            | ReleaseState::Over { .. } => self.since_submitted(True, "Submitted", "it was submitted"),
        }
    }

    /// Whether its routers do what is wanted of them now.
    fn weight_in_force(&self) -> Found {
        let (weight, gets) = (percent(self.weight(0)), self.gets());
        match (self.course.state, self.live) {
            (ReleaseState::Over { end: End::NoParticipants, .. }, _) => {
                self.since_ended(Unknown, "NoParticipants", "no router takes part in it")
            }
            (ReleaseState::Over { end: End::DoneWithFailures, .. }, _) if !self.course.is_back => self
                .since_ended(
                    False,
                    "Failed",
                    format!("some of its routers failed, so not all give it {weight} %"),
                ),
            (ReleaseState::Over { unconfirmed, .. }, _) if *unconfirmed > 0 => {
                self.since_ended(Unknown, "Unproven", unproven(*unconfirmed))
            }
            (ReleaseState::Over { .. }, _) => self.since_ended(True, "Ended", gets),
            (_, None) => self.since_submitted(Unknown, "NotReported", "nobody tells of it"),
            (state, Some(live)) => {
                let goes_back = matches!(state, ReleaseState::RollingBack { .. });
                if !goes_back && !self.has_begun() {
                    return self.since_submitted(False, "NotBegun", "no router has begun it");
                }
                self.at_routers(live, gets)
            }
        }
    }

    /// The same of one that routers have in hand. `gets`: what is said where it is so.
    fn at_routers(&self, live: &Live, gets: String) -> Found {
        let all = live.routers;
        if !live.unread.is_empty() {
            let message = format!("what is in force can't be read at {}", listed(&live.unread));
            return self.since_told(Unknown, "Unreachable", message);
        }
        let telling = live.parts.iter().map(|told| told.routers).min().unwrap_or_default();
        if telling < all {
            let message = format!("{telling} of {} tell what they do with its calls", routers(all));
            return self.since_told(Unknown, "NotReported", message);
        }
        let is_shared = |part: &usize| live.parts.get(*part).is_some_and(Told::is_shared);
        if let Some((_, service)) = self.parts().find(|(part, _)| is_shared(part)) {
            let message = format!(
                "another program still takes a part of the calls of {}, past a router of it: let it close its port, or end it",
                service.name()
            );
            return self.since_told(False, "PortShared", message);
        }
        let Some((part, service)) = self.parts().find(|(part, _)| !self.is_in_force(live, *part)) else {
            let at = if all == 0 { String::new() } else { format!(" at {}", routers(all)) };
            return self.since_told(True, "InForce", gets + &at);
        };
        let wanted = self.weight(part);
        let now = match self.seen(live, part) {
            Some(seen) if seen == (wanted, wanted) => "a router has yet to prove that it does".to_owned(),
            Some((lowest, highest)) if lowest == highest => format!("gets {} %", percent(lowest)),
            Some((lowest, highest)) => format!("gets {} to {} %", percent(lowest), percent(highest)),
            None => "what it gets was not read back yet".to_owned(),
        };
        let whose = if self.is_of_several() { service.name() } else { "the calls" };
        let message = format!("the canary is to get {} % of {whose}, and {now}", percent(wanted));
        self.since_told(False, "Shifting", message)
    }

    fn healthy(&self) -> Found {
        let paused = |reason: &'static str, pause: &Pause| Found {
            verdict: False,
            reason,
            message: pause.reason.clone(),
            since: self.live.and_then(|live| live.paused).unwrap_or_else(|| self.told()),
        };
        match self.course.state {
            ReleaseState::Over { .. } => self.since_ended(Unknown, "Ended", "it is over, and nobody looks"),
            ReleaseState::RollingBack { .. } => {
                self.since_told(Unknown, "RollingBack", "it goes back, and nobody looks")
            }
            ReleaseState::Paused(pause) => match pause.by {
                PausedBy::Limit | PausedBy::Unproven | PausedBy::Analysis => paused("Failed", pause),
                PausedBy::Agent => paused("Obstacle", pause),
                PausedBy::Operator | PausedBy::Parent { .. } => self.as_measured(),
            },
            ReleaseState::Planned | ReleaseState::Running | ReleaseState::AwaitingApproval { .. } => {
                self.as_measured()
            }
        }
    }

    /// By what routers tell of the canary's targets and calls.
    fn as_measured(&self) -> Found {
        if !self.has_begun() {
            return self.since_submitted(Unknown, "NotBegun", "no router has begun it");
        }
        if self.course.is_back || !self.course.failed.is_empty() {
            return self.since_told(False, "Failed", self.why());
        }
        let sums: Vec<&Sum> = self.parts().filter_map(|(part, _)| self.sum(part)).collect();
        let calls = sums.iter().fold(0_u64, |calls, sum| calls.saturating_add(sum.calls));
        let errors = sums.iter().fold(0_u64, |errors, sum| errors.saturating_add(sum.errors));
        let calls = if calls > 0 { format!("; {errors} of its {calls} calls failed") } else { String::new() };
        let seen = sums.iter().filter(|sum| sum.targets > 0).map(|sum| (sum.healthy, sum.targets));
        // Where nobody looks at those of one part, nobody knows of all.
        let are_known = seen.clone().all(|(healthy, _)| healthy.is_some());
        let known = seen.filter_map(|(healthy, all)| Some((healthy?, all)));
        let (healthy, all) = known.fold((0_u32, 0_u32), |(healthy, all), (of_healthy, of_all)| {
            (healthy.saturating_add(of_healthy), all.saturating_add(of_all))
        });
        if healthy < all {
            let message = format!("{healthy} of {all} targets of the canary are healthy{calls}");
            self.since_told(False, "TargetsUnhealthy", message)
        } else if all > 0 && are_known {
            let message = format!("{all} of {all} targets of the canary are healthy{calls}");
            self.since_told(True, "TargetsHealthy", message)
        } else {
            let message = format!("nothing judges it{calls}");
            Found { verdict: Unknown, reason: "NotJudged", message, since: self.began() }
        }
    }

    fn adopted(&self) -> Found {
        let not = |reason: &'static str, message: String| self.since_submitted(False, reason, message);
        let stays = |what: &str| {
            let why = self.ending.map_or_else(String::new, |ending| format!(": {}", ending.text));
            format!("{what}, and release {} stays as it was{why}", self.release())
        };
        let is_silent = self.ending.is_some_and(|ending| ending.cause == Cause::NoAnswer);
        match self.course.state {
            ReleaseState::Over { end: End::Done, .. } => {
                let message = format!("version {} of {} serves alone", self.version(), self.release());
                self.since_ended(True, "Adopted", message)
            }
            ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }
            | ReleaseState::Over { end: End::DoneWithFailures, .. }
                if is_silent =>
            {
                not("NoAnswer", stays("the canary gave its calls back"))
            }
            ReleaseState::RollingBack { end: End::Aborted, .. }
            | ReleaseState::Over { end: End::Aborted, .. } => {
                not("Deprecated", "it was deprecated".to_owned())
            }
            ReleaseState::RollingBack { .. } | ReleaseState::Over { end: End::RolledBack, .. } => {
                not("RolledBack", stays("it was rolled back"))
            }
            ReleaseState::Over { end: End::DoneWithFailures, .. } => {
                not("Failed", stays("not all its routers gave it all calls"))
            }
            ReleaseState::Over { end: End::Untested, .. } => {
                not("Untested", stays("it ended without the calls that it takes"))
            }
            ReleaseState::Over { end: End::NoParticipants, .. } => {
                not("NoParticipants", "no router takes part in it".to_owned())
            }
            ReleaseState::AwaitingApproval { .. } => not("AwaitingApproval", self.waits_for().to_owned()),
            ReleaseState::Running if self.is_open => {
                not("Adopting", "its routers ask it once more, and give it all calls".to_owned())
            }
            ReleaseState::Paused(pause) if self.is_open => not("Held", pause.reason.clone()),
            ReleaseState::Planned | ReleaseState::Running | ReleaseState::Paused(_) => {
                not("NotAsked", "nobody has adopted it".to_owned())
            }
        }
    }

    fn deprecated(&self) -> Found {
        let not = |reason: &'static str, message: String| self.since_submitted(False, reason, message);
        let back = || format!("all calls go to the version that served before: {}", self.why());
        match self.course.state {
            ReleaseState::RollingBack { reason, end } => {
                let word = if *end == End::Aborted { "Deprecating" } else { "RollingBack" };
                not(word, format!("its routers give its calls back: {reason}"))
            }
            ReleaseState::Over { end: End::Aborted | End::RolledBack, unconfirmed: count @ 1.. } => {
                not("Unproven", unproven(*count))
            }
            ReleaseState::Over { end: End::Aborted, .. } => self.since_ended(True, "Deprecated", back()),
            ReleaseState::Over { end: End::RolledBack, .. } => self.since_ended(True, "RolledBack", back()),
            ReleaseState::Over { end: End::Done, .. } => {
                not("Adopted", "it was adopted: release another version".to_owned())
            }
            ReleaseState::Planned
            | ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }
            | ReleaseState::Over {
                end: End::DoneWithFailures | End::Untested | End::NoParticipants, ..
            } => not("NotAsked", "nobody has deprecated it".to_owned()),
        }
    }
}

fn routers(count: u32) -> String {
    format!("{count} {}", if count == 1 { "router" } else { "routers" })
}

fn unproven(count: u32) -> String {
    let have = if count == 1 { "has" } else { "have" };
    format!("{} {have} not proven that the version that served before has all calls", routers(count))
}
