//! Turns a command into changes or a refusal. Pure: the same state, command and time give the same decision.
//!
//! One file a subject; the match below does nothing but dispatch. [`super::advance`] applies what is decided here
//! and lets [`super::settle`] draw the consequences.

mod children;
mod end_stage;
mod extend_analysis;
mod fetch;
mod lead;
mod operate;
mod poll;
mod report;
mod skip;
mod submit;
mod successor;
mod tick;
mod upstream;
mod walk;

pub(super) use children::take_out;
pub use fetch::{NoOffer, form, peek};
pub(super) use operate::roll_back;
pub(super) use skip::again as skip_again;
pub(super) use submit::lacks_of;
pub use submit::membership;

use super::{
    analysis,
    change::Change,
    command::{Command, Decision, Refusal, Reply, Seen},
    offer::OfferName,
    state::{Release, State},
};
use model::{ChildKey, Now};

/// Decides one command.
pub fn decide(state: &State, seen: &dyn Seen, command: &Command, now: Now) -> Decision {
    match command {
        Command::Poll(poll) => poll::decide(state, seen, poll, now),
        Command::Fetch { child, offer } => called(state, child, fetch::decide(state, child, offer, now)),
        Command::Result { child, offer, summaries } => {
            called(state, child, report::decide(state, child, offer, summaries, now))
        }
        Command::EndStage { child, offer, stage } => {
            called(state, child, end_stage::decide(state, child, offer, stage, now))
        }
        Command::Submit { submission, dry_run } => submit::decide(state, submission, *dry_run, now),
        Command::Pause { release, reason } => operate::pause(state, release, reason, now).into(),
        Command::Resume { release } => operate::resume(state, release, now).into(),
        Command::Abort { release, note, by } => {
            operate::abort(state, release, note.as_deref(), by.as_deref(), now).into()
        }
        Command::Approve { release } => lead::approve(state, release, now).into(),
        Command::Promote { release } => lead::promote(state, release, now).into(),
        Command::Extend { release } => lead::extend(state, seen, release, now).into(),
        Command::ExtendAnalysis { release, for_ms, calls } => {
            extend_analysis::decide(state, release, *for_ms, *calls, now).into()
        }
        Command::SkipChild { release, child } => lead::skip_child(state, release, child, now).into(),
        Command::RetryChild { release, child } => lead::retry_child(state, release, child, now).into(),
        Command::Retry { release } => operate::retry(state, release, now).into(),
        Command::PlanAgain { release } => operate::plan_again(state, release, now).into(),
        Command::EndStageNow { release, stage } => operate::end_stage(state, release, stage, now).into(),
        Command::SkipStage { release, stage } => skip::decide(state, release, stage, false, now).into(),
        Command::UpstreamSkip { release, stage } => skip::decide(state, release, stage, true, now).into(),
        Command::UpstreamEnd { release, stage, undo } => {
            upstream::end(state, release, *stage, *undo, now).into()
        }
        Command::UpstreamDisowned { release, why } => upstream::disowned(state, release, why, now).into(),
        Command::UpstreamContinue { release, offer, waves, retries, amounts, turnouts } => {
            let counted = upstream::Counted { waves: *waves, amounts, turnouts };
            upstream::go_on(state, seen, (release, offer), &counted, *retries, now).into()
        }
        Command::UpstreamUndo { release, offer } => upstream::undo(state, release, offer, now).into(),
        Command::UpstreamHold { release, hold } => upstream::hold(state, release, *hold, now).into(),
        Command::NoteForwarded { release, to } => {
            let change = Change::ReleaseForwarded { id: release.clone(), to: to.clone() };
            Decision::new(vec![change], Reply::Done)
        }
        Command::RemoveRelease { release } => operate::remove(state, release).into(),
        Command::Forget { child, even_if_it_owes } => {
            children::forget(state, child, *even_if_it_owes, now).into()
        }
        Command::Label { child, key, value } => children::label(state, child, key, value.as_deref()).into(),
        Command::Cordon { child, cordon } => children::cordon(state, child, *cordon, now).into(),
        Command::Turnout(told) => submit::turnout(state, seen, told, now),
        Command::Looked(look) => analysis::looked(state, look).into(),
        Command::Tick => tick::decide(state, seen, now),
        Command::Recalled { then, .. } | Command::RecalledPart { then, .. } => decide(state, seen, then, now),
    }
}

/// A child that calls is no ghost and was not replaced, whatever it asks and however that is answered. That is noted with
/// the call itself, also where the release has left memory: it is no reason to bring all of that back.
fn called(state: &State, child: &str, mut decision: Decision) -> Decision {
    if let Some((child, record)) = state.children.by_id(child) {
        let took_part = record.unproven && matches!(decision.answer, Ok(Reply::Offer(_)));
        let mut signs = poll::signs_of_life(child, record);
        signs.extend(took_part.then_some(Change::ChildProven { child }));
        decision.changes.splice(0..0, signs);
    }
    decision
}

/// Whose call it is and about which offer, found out once for all calls of children.
struct Call<'a> {
    key: ChildKey,
    release: &'a Release,
    name: OfferName,
}

impl<'a> Call<'a> {
    /// Refuses children and offers that are not known here.
    fn resolve(state: &'a State, child: &str, offer: &str) -> Result<Self, Refusal> {
        let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
        let never = || Refusal::NeverOffered { child: child.to_owned(), offer: offer.to_owned() };
        let (known, name) = OfferName::candidates(offer)
            .find_map(|(id, name)| Some((state.known.get(id)?, name)))
            .ok_or_else(never)?;
        let release = state.release(known.key).ok_or(Refusal::NotInMemory(known.key))?;
        Ok(Self { key, release, name })
    }
}
