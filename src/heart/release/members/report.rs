//! `POST /result`: what a child reports of its stages, and what follows for it.

use super::decide::Call;
use crate::{
    children::Variant,
    release::{
        assignment::{Assignment, FunctionSet, Led, Shows, Slot, Step},
        change::Change,
        command::{Decision, Refusal, Reply},
        deadline,
        decide::walk::Walk,
        manager::Agents,
        members,
        offer::{MAX_ATTEMPT, OfferKind, OfferName, Piece},
        state::State,
        summary::{Kept, Summary},
    },
};
use language::{Action, Strategy, render};
use model::{ChildStatus, Exclusion, Now, Outcome, StageStatus};

pub(in crate::release) fn decide(
    state: &State,
    child: &str,
    offer: &str,
    summaries: &[Summary],
    now: Now,
) -> Decision {
    let call = match Call::resolve(state, child, offer) {
        Ok(call) => call,
        Err(refusal) => return Decision::refused(refusal),
    };
    let Some(mut walk) = Walk::start(state, call.release, call.key, now) else {
        let (child, offer) = (child.to_owned(), offer.to_owned());
        return Decision::refused(Refusal::NeverOffered { child, offer });
    };
    walk.reinstate();
    let kept_even_if_refused = walk.changes.len();
    let mut late = Late::default();
    for summary in summaries {
        let taken = match call.name.kind {
            OfferKind::Undo(number) => undo(&mut walk, number, offer, summary),
            _ => Report::read(&walk, call.name, offer, summary)
                .and_then(|report| work(&mut walk, report, kept_even_if_refused, &mut late)),
        };
        if let Err(refusal) = taken {
            // All or none of what counts; what came too late is kept whatever else the call says.
            walk.changes.truncate(kept_even_if_refused);
            walk.changes.append(&mut late.changes);
            return Decision { changes: walk.changes, answer: Err(refusal) };
        }
    }
    let answer =
        if late.is_late { Err(Refusal::Late { offer: offer.to_owned() }) } else { Ok(Reply::Stored) };
    walk.changes.append(&mut late.changes);
    Decision { changes: walk.changes, answer }
}

/// What came too late, in one call.
#[derive(Default)]
struct Late {
    is_late: bool,
    changes: Vec<Change>,
}

/// Both ways in which an undo ends leave the base version.
fn undo(walk: &mut Walk<'_>, number: u16, offer: &str, summary: &Summary) -> Result<(), Refusal> {
    let stage = summary.stage_name.clone().unwrap_or_else(|| render::UNDO_STAGE.to_owned());
    let not_started = || Refusal::NotStarted { offer: offer.to_owned(), stage: stage.clone() };
    if stage != render::UNDO_STAGE {
        return Err(Refusal::UnknownStage { offer: offer.to_owned(), stage });
    }
    let undo = walk.assignment.undo().ok_or_else(not_started)?;
    if number > undo.number {
        return Err(not_started());
    }
    let Some(function) = undo.functions.first().filter(|_| number == undo.number) else {
        return Ok(()); // a repeat
    };
    if !undo.fetched {
        return Err(not_started());
    }
    let functions = undo.functions;
    // A manager takes everything back at once.
    let is_manager = walk.assignment.is_whole();
    let confirmed = if is_manager { functions } else { FunctionSet::of(function) };
    match summary.status {
        StageStatus::SuccessWaiting => Ok(()),
        StageStatus::Completed | StageStatus::Failure => {
            unconfirmed_below(walk, summary);
            for function in confirmed.iter() {
                walk.step(Step::UndoConfirmed { function: function as u8 });
            }
            walk.deployed_all(confirmed, Variant::Base);
            Ok(())
        }
        StageStatus::Error => {
            walk.step(Step::UndoOffered { functions });
            Ok(())
        }
        other => Err(Refusal::NotAReport(other)),
    }
}

/// What a manager could not take back counts here, too; the rest of what it says of its agents was said before.
fn unconfirmed_below(walk: &mut Walk<'_>, summary: &Summary) {
    let reported = walk.assignment.whole().map(|manager| manager.reported);
    if let Some((reported, said)) = reported.zip(summary.agents) {
        count(walk, Agents { unconfirmed: said.unconfirmed, ..reported });
    }
}

/// Takes in what a manager says of its agents.
fn count(walk: &mut Walk<'_>, agents: Agents) {
    if walk.assignment.whole().is_some_and(|manager| manager.reported != agents) {
        walk.step(Step::Counted { agents, recount: None });
    }
}

/// A manager that is done says anew what became of its agents: some were tried again there, or have proven the way back.
/// What was said before and comes late changes nothing.
fn recount(walk: &mut Walk<'_>, report: &Report<'_>, number: u32) {
    let assignment = &walk.assignment;
    let Some((manager, agents)) = assignment.whole().zip(report.summary.agents) else {
        return;
    };
    let is_last = report.name.attempt == assignment.named && assignment.status.is_over();
    if is_last && number > manager.recounts {
        walk.step(Step::Counted { agents, recount: Some(number) });
    }
}

/// One summary, and which stage of which offer it is about.
struct Report<'s> {
    name: OfferName,
    offer: &'s str,
    piece: Piece,
    slot: Slot,
    summary: &'s Summary,
    kept: Kept,
}

impl<'s> Report<'s> {
    fn read(walk: &Walk<'_>, name: OfferName, offer: &'s str, summary: &'s Summary) -> Result<Self, Refusal> {
        let is_told = matches!(summary.status, StageStatus::InProgress | StageStatus::SuccessWaiting);
        if !is_told && !summary.status.is_over() {
            return Err(Refusal::NotAReport(summary.status));
        }
        let kept = summary.keep();
        let strategy = walk.strategy();
        let stage = || summary.stage_name.clone().unwrap_or_default();
        let piece = walk
            .assignment
            .piece_of(name, strategy)
            .filter(|_| walk.assignment.was_offered(name, strategy))
            .ok_or_else(|| Refusal::NotStarted { offer: offer.to_owned(), stage: stage() })?;
        let slot = match &summary.stage_name {
            Some(stage) => find_slot(strategy, piece, stage),
            None => Some(unnamed(walk, name, piece, &kept)),
        };
        let slot = slot.ok_or_else(|| Refusal::UnknownStage { offer: offer.to_owned(), stage: stage() })?;
        let kept = match says_otherwise(walk, piece, slot, summary) {
            Some(next) => summary.keep_with_next(next),
            None => kept,
        };
        Ok(Self { name, offer, piece, slot, summary, kept })
    }

    fn waits(&self) -> bool {
        self.summary.status == StageStatus::SuccessWaiting
    }

    /// It says how far a stage is that goes on.
    fn is_preliminary(&self) -> bool {
        self.waits() || self.summary.status == StageStatus::InProgress
    }

    /// By which a repeat is known once it came too late.
    fn late_digest(&self) -> u64 {
        self.kept.digest ^ u64::from(self.slot.0).rotate_left(56) ^ u64::from(self.name.attempt)
    }

    fn not_started(&self, strategy: &Strategy) -> Refusal {
        Refusal::NotStarted { offer: self.offer.to_owned(), stage: stage_name(strategy, self.slot) }
    }

    /// The answer where a result of this stage is stored.
    fn beside(&self, stored: u64, strategy: &Strategy) -> Result<(), Refusal> {
        if stored == self.kept.digest || self.is_preliminary() {
            return Ok(());
        }
        let (offer, stage) = (self.offer.to_owned(), stage_name(strategy, self.slot));
        Err(Refusal::EndedOtherwise { offer, stage })
    }

    fn keep_late(&self, walk: &Walk<'_>) -> Change {
        Change::Members(members::Change::LateKept {
            release: walk.release.key,
            child: walk.child,
            stage: Some(stage_name(walk.strategy(), self.slot)),
            summary: Box::new(self.summary.clone()),
        })
    }
}

/// What a child says that it runs after a stage that ended, where its offer says otherwise. The offer is what counts here;
/// a child that does something else is worth knowing of.
fn says_otherwise<'s>(walk: &Walk<'_>, piece: Piece, slot: Slot, summary: &'s Summary) -> Option<&'s str> {
    let said = summary.says_next.as_deref().filter(|_| summary.status.is_over())?;
    // A manager that says nothing leaves it to the strategy.
    if walk.assignment.is_whole() && said.is_empty() {
        return None;
    }
    let strategy = walk.strategy();
    let success = summary.status == StageStatus::Completed;
    let next = slot.stage_index().filter(|_| piece == Piece::Whole && summary.status != StageStatus::Error);
    let next = match next.map(|stage| strategy.next(stage, success)) {
        Some(Action::Stage(next)) => strategy.stages.get(next).map_or("", |stage| &stage.name),
        _ => "",
    };
    (said != next).then_some(said)
}

/// The stage that a summary without a name is about: the one the child is in, unless it repeats the last stored.
fn unnamed(walk: &Walk<'_>, name: OfferName, piece: Piece, kept: &Kept) -> Slot {
    if piece != Piece::Whole {
        return piece.slot();
    }
    let assignment = &walk.assignment;
    let path = walk.strategy().success_path();
    let before = |attempt: u16| attempt >= name.attempt && attempt < assignment.named;
    let is_current = name.attempt == assignment.named;
    let ended = |stage: &usize| {
        let slot = Slot::stage(*stage);
        match assignment.mark(slot) {
            mark if is_current => mark.map(|mark| mark.digest),
            _ => assignment.marks().iter().find(|m| m.slot == slot && before(m.attempt)).map(|m| m.digest),
        }
    };
    let last = path.iter().rposition(|stage| ended(stage).is_some());
    let stage = match last {
        None => path.first(),
        Some(last) if ended(&path[last]) == Some(kept.digest) => path.get(last),
        // After a failure an agent walks on to what is listed next.
        Some(last) => path.get(last + 1).or_else(|| path.get(last)),
    };
    Slot::stage(stage.copied().unwrap_or_default())
}

/// The slot of a stage by its name in an offer: `None` if that offer has none of this name. All roll-outs call theirs
/// the same: which function one is of, only the offer tells.
pub(in crate::release) fn find_slot(strategy: &Strategy, piece: Piece, stage: &str) -> Option<Slot> {
    let slot = match piece {
        Piece::Rollout(function) => {
            return (stage == render::ROLLOUT_STAGE).then_some(Slot::rollout(function));
        }
        Piece::Stage(index) => Some(usize::from(index)),
        Piece::Whole => None,
    };
    let found = strategy.stages.iter().position(|other| other.name == stage)?;
    let is_listed = slot.map_or_else(|| strategy.success_path().contains(&found), |only| only == found);
    is_listed.then_some(Slot::stage(found))
}

/// What a stage is called in an offer.
pub(in crate::release) fn stage_name(strategy: &Strategy, slot: Slot) -> String {
    match slot.stage_index() {
        Some(index) => strategy.stages.get(index).map_or_else(String::new, |stage| stage.name.clone()),
        None => render::ROLLOUT_STAGE.to_owned(),
    }
}

fn work(
    walk: &mut Walk<'_>,
    report: Report<'_>,
    changes_before: usize,
    late: &mut Late,
) -> Result<(), Refusal> {
    if let Some(number) = report.summary.recount {
        recount(walk, &report, number);
        return Ok(());
    }
    let is_current = report.name == walk.assignment.offer_name();
    if !is_current || walk.assignment.status.is_over() {
        return past(walk, &report, changes_before, late);
    }
    if !walk.assignment.fetched {
        return Err(report.not_started(walk.strategy()));
    }
    if let Some(mark) = walk.assignment.mark(report.slot) {
        return report.beside(mark.digest, walk.strategy());
    }
    if report.summary.status == StageStatus::InProgress {
        return under_way(walk, &report);
    }
    if report.slot != walk.assignment.slot {
        return skipped(walk, &report, changes_before, late);
    }
    if let Some(agents) = report.summary.agents {
        count(walk, agents);
    }
    if report.waits() {
        return wait(walk, report.slot, report.kept);
    }
    ended(walk, report.slot, report.summary, report.kept);
    Ok(())
}

/// What a child has measured so far of the stage that it has in hand. It refreshes its numbers and changes nothing else.
fn under_way(walk: &mut Walk<'_>, report: &Report<'_>) -> Result<(), Refusal> {
    let (assignment, slot) = (&walk.assignment, report.slot);
    if slot != assignment.slot {
        return Err(report.not_started(walk.strategy()));
    }
    // A roll-out measures nothing.
    if slot.stage_index().is_none() {
        return Ok(());
    }
    // Who is ready to end it stays so.
    let waits = assignment.stage_status >= StageStatus::SuccessWaiting;
    let status = if waits { StageStatus::SuccessWaiting } else { StageStatus::InProgress };
    let summary = Box::new(Summary { status, ..report.summary.clone() }.keep());
    let (release, child) = (walk.release.key, walk.child);
    walk.changes.push(Change::Members(members::Change::Numbers { release, child, slot, status, summary }));
    Ok(())
}

/// The child is in a later stage already: what it reported of the current one never came.
fn skipped(
    walk: &mut Walk<'_>,
    report: &Report<'_>,
    changes_before: usize,
    late: &mut Late,
) -> Result<(), Refusal> {
    if walk.changes.len() > changes_before {
        // Nothing was lost on the way within one call.
        return Err(report.not_started(walk.strategy()));
    }
    walk.give_up(Outcome::Lost);
    if report.waits() {
        return Ok(());
    }
    late.changes.append(&mut walk.changes.split_off(changes_before));
    keep(walk, report, late);
    Ok(())
}

/// A report about an offer that is over for this child.
fn past(
    walk: &mut Walk<'_>,
    report: &Report<'_>,
    changes_before: usize,
    late: &mut Late,
) -> Result<(), Refusal> {
    let assignment = &walk.assignment;
    if report.name == assignment.offer_name() && !assignment.fetched {
        return Err(report.not_started(walk.strategy()));
    }
    // An agent repeats this every second until it is answered well, whatever became of the release.
    if report.is_preliminary() {
        return Ok(());
    }
    if report.name.attempt == assignment.named {
        if let Some(mark) = assignment.mark(report.slot) {
            return report.beside(mark.digest, walk.strategy());
        }
    } else if assignment.marks().iter().any(|mark| {
        let earlier = mark.attempt >= report.name.attempt && mark.attempt < assignment.named;
        earlier && mark.slot == report.slot && mark.digest == report.kept.digest
    }) {
        return Ok(());
    }
    if walk.changes.len() > changes_before {
        // An earlier summary of this very call ended it: nothing was late.
        return Err(report.not_started(walk.strategy()));
    }
    keep(walk, report, late);
    Ok(())
}

/// Keeps what came too late, and draws from it what it shows of the versions that run now.
fn keep(walk: &mut Walk<'_>, report: &Report<'_>, late: &mut Late) {
    late.is_late = true;
    if walk.assignment.late().contains(&report.late_digest()) {
        return;
    }
    late.changes.push(report.keep_late(walk));
    let before = walk.changes.len();
    let strategy = walk.strategy();
    let status = report.summary.status;
    // What an earlier attempt left behind was replaced by what the present one tests.
    let is_replaced = report.name.attempt < walk.assignment.named && walk.assignment.has_begun();
    let shows = if is_replaced {
        Shows::Nothing
    } else if report.name.attempt < walk.assignment.named {
        earlier_shows(&walk.assignment, strategy, report.piece, report.slot, status)
    } else {
        shows(&walk.assignment, strategy, report.piece, report.slot, status)
    };
    walk.step(Step::Late { slot: Some(report.slot), status, shows, digest: report.late_digest() });
    unconfirmed_below(walk, report.summary);
    let functions = match walk.assignment.led {
        Led::Whole(_) => walk.assignment.current_functions(strategy),
        Led::Stepwise(_) => FunctionSet::of(report.slot.function(strategy)),
    };
    match shows {
        Shows::New => {
            walk.deployed_all(functions, Variant::New);
            walk.offer_undo();
        }
        Shows::Base => functions.iter().for_each(|function| confirm_by_late_result(walk, function)),
        Shows::Nothing => {}
    }
    late.changes.append(&mut walk.changes.split_off(before));
}

/// A late result that proves the base version makes an undo needless, unless the child has it in hand already.
fn confirm_by_late_result(walk: &mut Walk<'_>, function: usize) {
    walk.deployed(function, Variant::Base);
    let waits =
        walk.assignment.pending_undo().is_some_and(|undo| !undo.fetched && undo.functions.contains(function));
    if waits {
        walk.step(Step::UndoConfirmed { function: function as u8 });
    }
}

fn wait(walk: &mut Walk<'_>, slot: Slot, kept: Kept) -> Result<(), Refusal> {
    if let Some(stage) = slot.stage_index()
        && walk.assignment.stepwise().is_some()
        && !walk.assignment.ends_on_signal(stage, walk.strategy())
    {
        return Err(Refusal::DoesNotWait { stage: stage_name(walk.strategy(), slot) });
    }
    if walk.assignment.stage_status >= StageStatus::SuccessWaiting {
        let (release, child) = (walk.release.key, walk.child);
        let (status, summary) = (StageStatus::SuccessWaiting, Box::new(kept));
        walk.changes.push(Change::Members(members::Change::Numbers {
            release,
            child,
            slot,
            status,
            summary,
        }));
        return Ok(());
    }
    walk.step_with(Step::Waiting { slot }, Some(kept));
    if walk.release.is_running() && walk.release.gates.may_end(slot) {
        walk.step(Step::Signalled);
    }
    Ok(())
}

fn ended(walk: &mut Walk<'_>, slot: Slot, summary: &Summary, kept: Kept) {
    if let Some(why) = untested(walk, slot, summary) {
        return ended_untested(walk, slot, summary, kept, why);
    }
    let strategy = walk.strategy();
    let piece = walk.assignment.piece();
    let stage = slot.stage_index().and_then(|index| strategy.stages.get(index));
    let completed = summary.status == StageStatus::Completed;
    // A manager has judged its children itself.
    let verdict = match stage.filter(|_| walk.assignment.stepwise().is_some()) {
        Some(stage) if completed => summary.judge_quantiles(stage),
        _ => Ok(()),
    };
    let success = completed && verdict.is_ok();
    let function = walk.assignment.current_function(strategy);
    let functions = walk.assignment.current_functions(strategy);
    let shows = shows(&walk.assignment, strategy, piece, slot, summary.status);
    let (status, digest) = (summary.status, kept.digest);
    walk.step_with(Step::Reported { slot, status, digest, shows, why: verdict.err() }, Some(kept));
    match shows {
        Shows::Base => walk.deployed_all(functions, Variant::Base),
        Shows::New => walk.deployed_all(functions, Variant::New),
        Shows::Nothing => {}
    }
    match piece {
        Piece::Whole if walk.assignment.is_whole() => {
            let wanted = summary.why.as_ref().is_some_and(|why| why.cause.is_wanted());
            after_manager(walk, slot, success, wanted);
        }
        Piece::Whole => after_whole(walk, slot, success, function),
        Piece::Stage(_) => after_stage(walk, slot, success, function),
        Piece::Rollout(rolled_out) => after_rollout(walk, rolled_out, success),
    }
    // Nothing proves what an agent runs that reports an error of its own; nor does the end of one function's stage
    // prove anything of the others.
    let unproven = summary.status == StageStatus::Error || piece != Piece::Whole;
    if walk.assignment.status == ChildStatus::Failed && unproven {
        if shows == Shows::Nothing {
            walk.deployed_all(functions, Variant::Unknown);
        }
        walk.offer_undo();
    }
}

/// Why a stage of an agent has tested nothing, if so.
fn untested(walk: &Walk<'_>, slot: Slot, summary: &Summary) -> Option<&'static str> {
    let assignment = &walk.assignment;
    let stage = slot.stage_index().and_then(|stage| walk.strategy().stages.get(stage))?;
    if !assignment.is_led_stepwise() {
        return None;
    }
    let told = assignment.idle().is_some_and(|idle| idle.told);
    match summary.status {
        StageStatus::Failure if stage.new_traffic > 0 && summary.has_no_calls() => {
            Some("the new version got no call")
        }
        StageStatus::Completed if told && !summary.has_calls(stage.min_calls.max(1)) => {
            Some("it got fewer calls than its minimum")
        }
        _ => None,
    }
}

/// Highest attempt that a stage without calls is offered again as: retries by hand need some, too.
const MAX_IDLE_ATTEMPT: u16 = MAX_ATTEMPT - 100;

/// Nothing failed, and nothing was tested. Who ended the stage by itself tries it again, as long as it may.
fn ended_untested(walk: &mut Walk<'_>, slot: Slot, summary: &Summary, kept: Kept, why: &str) {
    let by_itself = walk.assignment.stage_status < StageStatus::ShouldEnd;
    let deadlines = walk.state.settings.deadlines(walk.strategy()).of_member(&walk.assignment);
    let longest = deadline::without_calls(&walk.assignment, walk.strategy()).unwrap_or(deadlines.stage_ms);
    let has_time = walk.at < walk.assignment.stage_begun().saturating_add(longest);
    let functions = walk.assignment.current_functions(walk.strategy());
    let (status, digest) = (summary.status, kept.digest);
    let step = Step::Reported { slot, status, digest, shows: Shows::Base, why: Some(why.to_owned()) };
    walk.step_with(step, Some(kept));
    walk.deployed_all(functions, Variant::Base);
    let piece = walk.assignment.piece();
    match walk.release.instead_of(piece) {
        skipped if skipped != piece => walk.step(Step::NextOffer { piece: skipped }),
        _ if by_itself && has_time && walk.assignment.attempt < MAX_IDLE_ATTEMPT => {
            walk.step(Step::StageAgain);
        }
        _ => {
            walk.step(Step::Ended { status: ChildStatus::Done, outcome: Outcome::Untested });
            drop_overtaken_undo(walk);
        }
    }
}

/// An agent that was handed all stages walks by itself: success leads to the next stage, failure to the end.
fn after_whole(walk: &mut Walk<'_>, slot: Slot, success: bool, function: usize) {
    let action = slot.stage_index().map_or(Action::Rollback, |stage| walk.strategy().next(stage, success));
    match action {
        Action::Stage(next) => walk.step(Step::StageBegan { slot: Slot::stage(next) }),
        Action::Rollout if success => finish(walk, success, Some((function, Variant::New))),
        Action::Rollout | Action::Rollback => finish(walk, success, Some((function, Variant::Base))),
    }
}

/// A manager below reports the stages of the success path: whatever its children went through, it succeeded or failed; or
/// somebody there wanted no more of it.
fn after_manager(walk: &mut Walk<'_>, slot: Slot, success: bool, wanted: bool) {
    if !success && wanted {
        let outcome = Outcome::Excluded(Exclusion::AbortedBelow);
        return walk.step(Step::Ended { status: ChildStatus::Failed, outcome });
    }
    let next = slot.stage_index().map_or(Action::Rollback, |stage| walk.strategy().next(stage, true));
    match next {
        Action::Stage(next) if success => walk.step(Step::StageBegan { slot: Slot::stage(next) }),
        _ => {
            let wave = walk.assignment.wave;
            let later = walk.assignment.whole().and_then(|manager| manager.wave_after(wave));
            match later.filter(|_| success) {
                Some(wave) => walk.step(Step::NextWave { wave }),
                None => finish(walk, success, None),
            }
        }
    }
}

/// A stage that was offered alone: the manager walks the graph.
fn after_stage(walk: &mut Walk<'_>, slot: Slot, success: bool, function: usize) {
    let strategy = walk.strategy();
    let Some(stage) = slot.stage_index() else { return };
    match strategy.next(stage, success) {
        Action::Stage(next) => match next_piece(walk, Piece::Stage(next as u8)) {
            Some(piece) => walk.step(Step::NextOffer { piece }),
            None => finish(walk, success, Some((function, Variant::Base))),
        },
        Action::Rollout if success && walk.assignment.rolls_out_itself(stage, strategy) => {
            finish(walk, true, Some((function, Variant::New)));
        }
        Action::Rollout => walk.step(Step::NextOffer { piece: Piece::Rollout(0) }),
        Action::Rollback => finish(walk, success, Some((function, Variant::Base))),
    }
}

/// What the child runs in the place of a piece: stages that are skipped, or that test what it does not run, are passed
/// over. `None`: nothing is left for it.
fn next_piece(walk: &Walk<'_>, piece: Piece) -> Option<Piece> {
    let mut piece = piece;
    // Each turn passes over a stage.
    for _ in 0..=walk.strategy().stages.len() {
        let next = walk.assignment.fitting(walk.release.instead_of(piece), walk.strategy())?;
        if next == piece {
            break;
        }
        piece = next;
    }
    Some(piece)
}

/// One function after the other; if one fails, those before it are undone.
fn after_rollout(walk: &mut Walk<'_>, function: u8, success: bool) {
    let next = walk.assignment.fitting(Piece::Rollout(function + 1), walk.strategy());
    match next {
        _ if !success => finish(walk, false, None),
        Some(piece) => walk.step(Step::NextOffer { piece }),
        None => finish(walk, true, Some((usize::from(function), Variant::New))),
    }
}

fn finish(walk: &mut Walk<'_>, success: bool, runs: Option<(usize, Variant)>) {
    let (status, outcome) = match walk.assignment.outcome {
        _ if !success => (ChildStatus::Failed, Outcome::Failed),
        // The others have passed, and it has what they have.
        Some(Outcome::Untested) => (ChildStatus::Done, Outcome::Untested),
        _ => (ChildStatus::Done, Outcome::Succeeded),
    };
    if let Some((function, variant)) = runs {
        walk.deployed(function, variant);
    }
    walk.step(Step::Ended { status, outcome });
    if success {
        drop_overtaken_undo(walk);
    }
}

/// An undo of what an earlier attempt may have left is overtaken by what this one has made of it.
fn drop_overtaken_undo(walk: &mut Walk<'_>) {
    if walk.assignment.pending_undo().is_some_and(|undo| !undo.fetched) {
        walk.step(Step::UndoDropped);
    }
}

/// What a report proves of the version that the child runs now. See how agents behave in the text of
/// [`crate::release`]: an agent acts before it reports, and after a failure it may walk on to the next stage.
fn shows(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Piece,
    slot: Slot,
    status: StageStatus,
) -> Shows {
    let success = match status {
        StageStatus::Completed => true,
        StageStatus::Failure => false,
        _ => return Shows::Nothing,
    };
    if assignment.is_whole() {
        // It reports a failure when everything is taken back, and walks on nowhere.
        let next = slot.stage_index().map_or(Action::Rollback, |stage| strategy.next(stage, true));
        return match next {
            _ if !success => Shows::Base,
            Action::Rollout => Shows::New,
            Action::Rollback => Shows::Base,
            Action::Stage(_) => Shows::Nothing,
        };
    }
    match piece {
        Piece::Rollout(_) => {
            if success {
                Shows::New
            } else {
                Shows::Base
            }
        }
        // Both ends of a stage are a roll-back.
        Piece::Stage(_) => {
            let rolls_out = |stage| assignment.rolls_out_itself(stage, strategy);
            if success && slot.stage_index().is_some_and(rolls_out) { Shows::New } else { Shows::Base }
        }
        Piece::Whole => {
            let Some(stage) = slot.stage_index() else { return Shows::Nothing };
            match strategy.next(stage, success) {
                Action::Rollout if success => Shows::New,
                Action::Stage(_) => Shows::Nothing,
                // Only after the last stage of the file is there nothing to walk on to.
                _ if strategy.success_path().last() == Some(&stage) => Shows::Base,
                _ => Shows::Nothing,
            }
        }
    }
}

/// The same of a report about an offer of an earlier attempt, which an earlier build may have handed out: its last stage
/// may have rolled out.
fn earlier_shows(
    assignment: &Assignment,
    strategy: &Strategy,
    piece: Piece,
    slot: Slot,
    status: StageStatus,
) -> Shows {
    let Some(stage) = slot.stage_index().filter(|_| assignment.stepwise().is_some()) else {
        return shows(assignment, strategy, piece, slot, status);
    };
    if strategy.rollout.is_some() {
        return shows(assignment, strategy, piece, slot, status);
    }
    match strategy.next(stage, true) {
        Action::Rollout if status == StageStatus::Completed => Shows::New,
        _ => Shows::Nothing,
    }
}
