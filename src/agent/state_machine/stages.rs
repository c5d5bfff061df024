//! The walk through an offer: versions are started, stages follow each other, the last one decides who serves.

use std::time::Duration;

use call_metrics::Interval;
use language::{Action, Stage, StageKind, offer::Offer};
use model::StageStatus;

use super::{
    Act, CountsReading, Ending, Function, Now, PendingResult, Phase, Plan, Routing, StateMachine, Testing,
    Walk,
    state::{Candidate, LeftBy},
    table::WHOLE,
};
use crate::{judge::Judge, measure::StageCounts, runtime::VersionId};
use protocol::{StageSummary, child::Why};

/// What was taken back is reported once its last calls are counted, but no later than this.
const LAST_CALLS_MS: u64 = 5_000;

/// The chance of a false alarm that an agent may take where nobody says more.
pub(super) const ALPHA: f64 = 1e-3;

/// For how long an offer that ended with an error is not taken up again.
const GIVEN_UP_MS: u64 = 3_000;

/// Why a stage has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has what it needs, or was told to end.
    InTime,
    /// All is to be taken back; why, if somebody here wants it.
    TakenBack(Option<String>),
    /// A limit was breached.
    Breached(String),
    /// Too few targets are healthy.
    Unhealthy(String),
    /// It has failed, and the manager wants what follows it all the same.
    Accepted,
}

impl StateMachine {
    /// Goes on with the offer in hand as far as it can.
    pub(super) fn go_on(&mut self, now: Now) {
        let Some(work) = &self.state.work else { return };
        match &work.phase {
            Phase::Fetching => {}
            Phase::Preparing(plan) => {
                let running = self.world.running.as_ref();
                let is_ready = |version: &VersionId| running.is_some_and(|running| running.contains(version));
                if plan.all().all(is_ready) && !self.waits_for_read_back() {
                    self.begin(now);
                }
            }
            Phase::Walking(_) => {
                self.look_at_ending(now);
                self.look_at_take_over(now);
                self.look_at_stage(now);
            }
        }
    }

    /// A version of the offer that is prepared could not be started.
    pub(super) fn could_not_start(&mut self, version: &VersionId, why: &str, now: Now) {
        let Some(Phase::Preparing(plan)) = self.state.work.as_ref().map(|work| &work.phase) else { return };
        if plan.all().any(|of| of == version) {
            self.note_unstarted(version, why);
            self.give_up(&format!("a version could not be started: {why}"), now);
        }
    }

    /// The offer in hand ends with an error before anything of it was tried.
    pub(super) fn give_up(&mut self, why: &str, now: Now) {
        let first = self.offer.as_ref().and_then(|offer| offer.stages.first());
        let name = first.map(|stage| stage.stage.name.clone());
        let Some(work) = self.state.work.take() else { return };
        self.offer = None;
        self.stops.unstarted += 1;
        // Whoever offers it again at once, under this name or another, has it begun again a little later.
        self.shunned.insert(work.offer.clone(), now.ms + GIVEN_UP_MS);
        self.tries.pause(Act::Poll, now.ms + GIVEN_UP_MS);
        self.warn(format!("{} ends with an error: {why}", work.offer));
        let summary = StageSummary { stage_name: name, ..StageSummary::without_calls(StageStatus::Error) };
        let summary = with_why(summary, Some(why));
        let summary = if work.walk().is_none() { because_of(summary, UNSTARTED) } else { summary };
        self.owe(work.offer, summary, "", false);
    }

    /// All versions run: the base versions serve, and the first stage begins.
    fn begin(&mut self, now: Now) {
        if let Err(why) = self.begin_services() {
            return self.give_up(&why, now);
        }
        let (Some(work), Some(offer)) = (&mut self.state.work, &self.offer) else { return };
        let Phase::Preparing(plan) = &work.phase else { return };
        for (function, [base, _]) in offer.functions.iter().zip(&plan.versions) {
            let routing = Routing { sticky: function.sticky.clone(), retry: function.retry };
            let known = self.state.functions.entry(function.name.clone());
            let known = known.or_insert_with(|| Function::serving(base.clone(), Routing::default()));
            known.replace(base.clone(), self.settings.keep_base_ms);
            known.candidate = None;
            known.by = None;
            // What an offer doesn't say stays as an operator set it.
            known.routing.sticky = routing.sticky.or(known.routing.sticky.take());
            known.routing.retry = routing.retry.or(known.routing.retry);
        }
        let plan: Plan = plan.clone();
        work.phase = Phase::Walking(Box::new(Walk { plan, testing: None, ending: None, taking_over: None }));
        self.enter(0);
    }

    /// A stage begins: its shares are to be in force.
    fn enter(&mut self, index: usize) {
        let (Some(work), Some(offer)) = (&mut self.state.work, &self.offer) else { return };
        let Some(stage) = offer.stages.get(index).map(|stage| &stage.stage) else { return };
        work.begun += 1;
        let split = format!("{}/{}#{}.{}", work.offer, stage.name, work.run, work.begun);
        let Some(walk) = work.walk_mut() else { return };
        let function = offer.functions.get(stage.subject).zip(walk.plan.versions.get(stage.subject));
        let (counts, candidate) = match (function, offer.services.get(stage.subject)) {
            (Some((function, [_, new])), _) => {
                let candidate = Candidate {
                    version: new.clone(),
                    share: u16::from(stage.new_traffic.min(100)) * (WHOLE / 100),
                    stage: stage.name.clone(),
                    split: split.clone(),
                    salt: offer.salt.clone(),
                };
                (StageCounts::new(&function.name, &split), Some(candidate))
            }
            (None, Some(service)) => {
                let names = service.variations.iter().map(|one| one.name.to_string()).collect();
                (StageCounts::of_service(service.name(), names, &split), None)
            }
            (None, None) => return,
        };
        walk.testing = Some(Testing {
            stage: index,
            counts: counts.in_stage(stage),
            judge: Judge::new(stage, offer.alpha.unwrap_or(ALPHA)),
            elapsed_ms: 0,
            announced: false,
            obstacle: None,
            told: false,
            kept: None,
        });
        let name = walk.testing.as_ref().map_or("", |testing| testing.counts.service()).to_owned();
        let text = format!("stage {} of {}: {} % of {name}", stage.name, offer.id, stage.new_traffic);
        let (shares, salt) = (self.shares_in(&name, stage), offer.salt.clone());
        if candidate.is_none() {
            self.share_service(&name, &shares, &split, &salt);
            self.share_those_behind(index, &split);
        } else if let Some(served) = self.state.functions.get_mut(&name) {
            served.candidate = candidate;
        }
        self.report_at_ms = 0;
        self.inform(text);
        self.dirty();
    }

    /// Takes in what was counted.
    pub(super) fn take_counts(&mut self, number: u64, counted: &CountsReading, now: Now) {
        if let CountsReading::Read(reading) = counted {
            self.world.left_in_flight = self.left_in_flight(&reading.in_flight);
        }
        let Some(walk) = self.state.work.as_mut().and_then(|work| work.walk_mut()) else { return };
        let (mut ending, mut testing) = (walk.ending.take(), walk.testing.take());
        let cut_of = |stage: usize| Some(self.offer.as_ref()?.stages.get(stage)?.interim?.cut_ms);
        if let Some(ending) = &mut ending {
            let cut = cut_of(ending.stage);
            take(&mut ending.counts, counted, |interval| self.interval_of(interval, cut?, now));
        }
        if let Some(testing) = &mut testing {
            let cut = cut_of(testing.stage);
            take(&mut testing.counts, counted, |interval| self.interval_of(interval, cut?, now));
        }
        if let Some(walk) = self.state.work.as_mut().and_then(|work| work.walk_mut()) {
            (walk.ending, walk.testing) = (ending, testing);
        }
        if self.world.last_count.is_some_and(|last| number >= last) {
            self.report_ended();
        }
        self.judge(now);
    }

    /// Whether a limit is breached.
    fn judge(&mut self, now: Now) {
        let (Some(offer), Some(work)) = (&self.offer, &mut self.state.work) else { return };
        let Some(testing) = work.walk_mut().and_then(|walk| walk.testing.as_mut()) else { return };
        let stage = offer.stages.get(testing.stage);
        if testing.kept.is_some() || stage.is_some_and(|of| of.stage.with_next) {
            return;
        }
        let elapsed = Duration::from_millis(testing.elapsed_ms);
        let is_tried = stage.is_some_and(|of| of.stage.new_traffic > 0);
        if (is_tried || testing.counts.is_asked())
            && let Some(breach) = testing.judge.look(&testing.counts, elapsed)
        {
            return self.end_stage(Outcome::Breached(breach.text), now);
        }
        self.look_at_split(now);
        if is_tried {
            self.look_at_health(now);
        }
    }

    /// Whether the stage in hand has come to its end, or may.
    fn look_at_stage(&mut self, now: Now) {
        let (Some(offer), Some(work)) = (&self.offer, &self.state.work) else { return };
        let Some(walk) = work.walk().filter(|walk| walk.ending.is_none()) else { return };
        let Some(testing) = walk.testing.as_ref().filter(|testing| testing.kept.is_none()) else { return };
        let Some(stage) = offer.stages.get(testing.stage).map(|stage| &stage.stage) else { return };
        if !self.is_in_force() {
            return;
        }
        let is_skipped = stage.with_next || work.skipped.contains(&stage.name);
        let is_ready = is_skipped || testing.counts.is_met(stage, Duration::from_millis(testing.elapsed_ms));
        if !is_ready {
            self.world.unknown_since_ms = None;
            return;
        }
        // Few calls at a small share may all have gone to the base version, and targets get none before they are known to be
        // healthy: the first call of what is tried is waited for, as long as the manager lets a stage without calls go on.
        if !is_skipped && stage.new_traffic > 0 && !testing.counts.is_tested(stage) {
            self.has_health(now);
            return;
        }
        let has_failed = !is_skipped && !testing.counts.conditions_hold(stage);
        let (ends_itself, announced) = (stage.kind == StageKind::AB, testing.announced);
        if !(is_skipped || has_failed || announced || self.has_health(now)) {
            return;
        }
        if has_failed || ends_itself {
            return self.end_stage(Outcome::InTime, now);
        }
        if !announced {
            self.announce();
        }
    }

    /// Says that the stage in hand may end.
    fn announce(&mut self) {
        let (Some(offer), Some(work), Some(testing)) = (&self.offer, &self.state.work, self.testing()) else {
            return;
        };
        let Some(stage) = offer.stages.get(testing.stage).map(|stage| &stage.stage) else { return };
        let summary = testing.counts.summary(stage, StageStatus::SuccessWaiting, self.reads);
        let summary = testing.with_obstacle(summary);
        let (offer, next) = (work.offer.clone(), written(offer, stage.on_success));
        if let Some(testing) = self.testing_mut() {
            testing.announced = true;
        }
        self.owe(offer, summary, &next, true);
    }

    /// The stage in hand ends: what follows is decided, and reported once it is in force.
    pub(super) fn end_stage(&mut self, outcome: Outcome, now: Now) {
        let (Some(offer), Some(work)) = (&self.offer, &self.state.work) else { return };
        let Some(walk) = work.walk().filter(|walk| walk.ending.is_none()) else { return };
        let Some(testing) = &walk.testing else { return };
        let Some(stage) = offer.stages.get(testing.stage).map(|stage| &stage.stage) else { return };
        let is_skipped = work.skipped.contains(&stage.name);
        if self.is_to_keep(stage, testing, is_skipped, &outcome) {
            return self.keep(&outcome);
        }
        match &outcome {
            Outcome::InTime | Outcome::Accepted | Outcome::TakenBack(Some(_)) => {}
            Outcome::TakenBack(None) => self.stops.managed += 1,
            Outcome::Breached(_) | Outcome::Unhealthy(_) => self.stops.judged += 1,
        }
        let is_unhealthy = matches!(outcome, Outcome::Unhealthy(_));
        let is_kept = outcome == Outcome::Accepted;
        let keeps_services = matches!(outcome, Outcome::TakenBack(Some(_)));
        let kept = testing.kept.clone();
        let Verdict { status, action, why } = verdict(stage, testing, is_skipped, outcome);
        let text = format!("stage {} of {}: {status:?}", stage.name, offer.id);
        let next = written(offer, action);
        let Some(walk) = self.state.work.as_mut().and_then(|work| work.walk_mut()) else { return };
        let Some(Testing { stage, counts, .. }) = walk.testing.take() else { return };
        walk.ending = Some(Ending {
            stage,
            counts,
            status: status.wire(),
            next,
            why: why.clone(),
            is_unhealthy,
            is_kept,
            is_silent: false,
            keeps_services,
        });
        self.world.ending_since_ms = None;
        self.world.last_count = None;
        self.world.emptied.clear();
        match &why {
            Some(why) => self.warn(format!("{text}: {why}")),
            None => self.inform(text),
        }
        if let Some(why) = why.or(kept).filter(|_| action == Action::Rollback) {
            self.note_failed(stage, &why);
        }
        self.dirty();
        match action {
            Action::Stage(next) => self.enter(next),
            Action::Rollout => self.take_over(),
            Action::Rollback => self.settle_roles(false),
        }
        // Nobody waits for the next look.
        self.world.count_at_ms = now.ms;
    }

    /// One version alone serves each function of the offer.
    pub(super) fn settle_roles(&mut self, is_rollout: bool) {
        let (Some(offer), Some(work)) = (&self.offer, &self.state.work) else { return };
        let Some(plan) = work.plan() else { return };
        for (at, (function, [base, new])) in offer.functions.iter().zip(&plan.versions).enumerate() {
            let Some(served) = self.state.functions.get_mut(&function.name) else { continue };
            served.candidate = None;
            let stage = offer.stages.iter().rev().find(|stage| stage.stage.subject == at);
            let by = stage.map(|last| LeftBy {
                offer: work.offer.clone(),
                stage: last.stage.name.clone(),
                versions: [base.clone(), new.clone()],
            });
            if is_rollout {
                served.replace(new.clone(), self.settings.keep_base_ms);
            } else {
                served.stable = base.clone();
                served.kept = None;
            }
            served.by = by;
        }
        self.decide_services(is_rollout);
    }

    /// Waits until what follows the ended stage is in force, and its last calls are counted.
    fn look_at_ending(&mut self, now: Now) {
        let Some(walk) = self.state.work.as_ref().and_then(|work| work.walk()) else { return };
        let is_decided = walk.ending.is_some() && walk.taking_over.is_none();
        if !is_decided || !self.is_in_force() || self.world.last_count.is_some() {
            return;
        }
        if self.world.ending_since_ms.is_none() {
            // One may be under way that began before.
            self.world.first_after = self.world.counting + 1;
        }
        let since = *self.world.ending_since_ms.get_or_insert(now.ms);
        let empties_within_ms = self.settings.abilities.empties_within_ms;
        let is_late = now.ms.saturating_sub(since) >= LAST_CALLS_MS + empties_within_ms.unwrap_or(0);
        // Of a service the counts say how many calls are left; these have to be read after what follows came into force.
        let is_asked = self.world.counting > self.world.first_after;
        let has_none = walk.ending.as_ref().is_some_and(|ending| ending.counts.in_flight() == 0);
        let is_empty = || self.without_share().iter().all(|one| self.world.emptied.contains(one));
        let is_quiet = match empties_within_ms {
            _ if !walk.plan.versions.is_empty() => true,
            None => is_asked && has_none && self.world.left_in_flight == 0,
            Some(_) => is_empty(),
        };
        let wanted = self.wanted_versions();
        let left = walk.plan.versions.iter().flatten().filter(|version| !wanted.contains(*version));
        let is_drained = |version: &VersionId| {
            self.world.drained.contains(version) || !self.state.versions.contains_key(version)
        };
        let is_over = walk.testing.is_some() || is_late || is_quiet && left.into_iter().all(is_drained);
        if is_over && now.ms.saturating_sub(since) >= self.settings.abilities.counts_after_ms {
            // One may be under way that began before.
            self.world.last_count = Some(self.world.counting + 1);
            self.world.count_at_ms = now.ms;
        }
    }

    /// Whether all that is left to do is to wait for the last calls of what lost its share.
    pub(super) fn waits_for_last_calls(&self) -> bool {
        let walk = self.state.work.as_ref().and_then(|work| work.walk());
        walk.is_some_and(|walk| walk.ending.is_some() && walk.testing.is_none() && walk.taking_over.is_none())
            && self.is_in_force()
            && self.world.last_count.is_none()
    }

    fn report_ended(&mut self) {
        (self.world.last_count, self.world.ending_since_ms) = (None, None);
        let (Some(offer), Some(work)) = (&self.offer, &mut self.state.work) else { return };
        let Some(walk) = work.walk_mut() else { return };
        let Some(ending) = walk.ending.take() else { return };
        let is_over = walk.testing.is_none();
        let is_rollback = ending.next == written(offer, Action::Rollback) && !ending.keeps_services;
        let name = work.offer.clone();
        let Some(stage) = offer.stages.get(ending.stage) else { return };
        let status = StageStatus::from_wire(ending.status.into()).unwrap_or(StageStatus::Error);
        let summary = ending.counts.summary(&stage.stage, status, self.reads);
        let summary = with_why(summary, ending.why.as_deref());
        let summary = match (ending.is_kept, ending.is_unhealthy, ending.is_silent) {
            (true, ..) => because_of(summary, KEPT),
            (false, true, _) => because_of(summary, HEALTH),
            (false, false, true) => because_of(summary, SILENT),
            (false, false, false) => summary,
        };
        self.state.owed.retain(|owed| !(owed.waits && owed.offer == name));
        self.owe(name, summary, &ending.next, false);
        if is_over {
            self.end_services(is_rollback);
            self.state.work = None;
            self.offer = None;
        }
    }

    pub(super) fn owe(&mut self, offer: String, summary: StageSummary, next: &str, waits: bool) {
        self.state.count += 1;
        let number = self.state.count;
        self.state.owed.push_back(PendingResult { number, offer, summary, next: next.to_owned(), waits });
        self.dirty();
    }
}

/// How a stage has ended, and what follows.
struct Verdict {
    status: StageStatus,
    action: Action,
    /// What a person should know of it.
    why: Option<String>,
}

/// Stages lead to later ones, or to an end: who reads an offer refuses others.
fn verdict(stage: &Stage, testing: &Testing, is_skipped: bool, outcome: Outcome) -> Verdict {
    let is_tested = is_tested(stage, testing);
    let ended_well = testing.kept.is_none()
        && holds(stage, testing, is_skipped)
        && !matches!(outcome, Outcome::Breached(_) | Outcome::Unhealthy(_));
    let (status, action) = match (ended_well, is_tested) {
        (true, _) => (StageStatus::Completed, stage.on_success),
        (false, true) => (StageStatus::Failure, stage.on_failure),
        (false, false) => (StageStatus::Failure, Action::Rollback),
    };
    let (action, why) = match outcome {
        Outcome::InTime => (action, None),
        Outcome::TakenBack(why) => (Action::Rollback, why),
        Outcome::Breached(why) | Outcome::Unhealthy(why) => (action, Some(why)),
        Outcome::Accepted => (stage.on_success, testing.kept.clone()),
    };
    let unsaid = || testing.counts.why_unjudged(stage).or_else(|| testing.counts.asked_in_words());
    let why = why.or_else(|| unsaid().filter(|_| !ended_well));
    // Without calls nothing is broken.
    let broken = || testing.counts.broken_condition(stage).filter(|_| !ended_well && is_tested);
    let why = why.or_else(broken);
    // Who takes back what went well by himself has to say that it didn't.
    let status = if why.is_some() { StageStatus::Failure } else { status };
    Verdict { status, action, why }
}

fn is_tested(stage: &Stage, testing: &Testing) -> bool {
    stage.new_traffic == 0 || testing.counts.is_tested(stage)
}

/// Whether what was counted is good enough.
fn holds(stage: &Stage, testing: &Testing, is_skipped: bool) -> bool {
    let elapsed = Duration::from_millis(testing.elapsed_ms);
    let is_passed_over = is_skipped && !testing.counts.is_met(stage, elapsed);
    stage.with_next || is_passed_over || (is_tested(stage, testing) && testing.counts.conditions_hold(stage))
}

/// Whether a stage that ends so has failed by itself, and not for want of calls.
pub(super) fn has_failed(stage: &Stage, testing: &Testing, is_skipped: bool, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Breached(_) | Outcome::Unhealthy(_) => true,
        Outcome::InTime => is_tested(stage, testing) && !holds(stage, testing, is_skipped),
        Outcome::TakenBack(_) | Outcome::Accepted => false,
    }
}

/// Why a stage has failed that ends so, in a sentence.
pub(super) fn why_failed(stage: &Stage, testing: &Testing, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Breached(why) | Outcome::Unhealthy(why) | Outcome::TakenBack(Some(why)) => why.clone(),
        Outcome::InTime | Outcome::Accepted | Outcome::TakenBack(None) => {
            let why = testing.counts.why_unjudged(stage).or_else(|| testing.counts.asked_in_words());
            let why = why.or_else(|| testing.counts.broken_condition(stage));
            why.unwrap_or_else(|| "its conditions don't hold at its end".to_owned())
        }
    }
}

/// What follows a stage, as it is written in strategies and results.
pub(super) fn written(offer: &Offer, action: Action) -> String {
    match action {
        Action::Rollout => "rollout".to_owned(),
        Action::Rollback => "rollback".to_owned(),
        Action::Stage(next) => {
            offer.stages.get(next).map_or_else(String::new, |stage| stage.stage.name.clone())
        }
    }
}

/// Takes in what came of a look at the counts.
fn take(
    counts: &mut StageCounts,
    counted: &CountsReading,
    interval_of: impl FnMut(&Interval) -> Option<u32>,
) {
    match counted {
        CountsReading::Read(reading) => counts.take(reading, interval_of),
        CountsReading::Not(why) => counts.take_none(why),
    }
}

/// The cause that is told where targets were away.
const HEALTH: &str = "health";

/// The cause that is told where what was to take over answered no more.
const SILENT: &str = "no_answer";

/// The cause that is told of a stage that has failed and keeps its shares, or was gone on from all the same.
pub(super) const KEPT: &str = "kept";

/// The cause that is told where nothing of an offer was begun: what serves is what served before.
const UNSTARTED: &str = "unstarted";

pub(super) fn because_of(summary: StageSummary, cause: &str) -> StageSummary {
    let why = summary.why.map(|why| Why { cause: cause.to_owned(), ..why });
    StageSummary { why, ..summary }
}

pub(super) fn with_why(summary: StageSummary, text: Option<&str>) -> StageSummary {
    let why =
        text.map(|text| Why { cause: "limit".to_owned(), text: text.to_owned(), ..Why::default() }.fitted());
    StageSummary { why, ..summary }
}
