//! A machine that comes back under a new id. Agents keep their id in memory: after a restart they register anew, with
//! the same area byte for byte and from the same address, and what the one before them left running is theirs to take
//! back.
//!
//! The evidence is, all of it together:
//!
//! - the same place ([`crate::children`]), and nobody else who calls from there: where several do, it proves nothing;
//! - the old id has not called since the new one was born, for one machine runs one agent;
//! - the old id is silent for longer than agents ever are where it stands ([`silence_that_shows`]), set-up included;
//! - the new id has called again: it is no ghost.
//!
//! So whether somebody is a successor shows only with time: it is asked at a newcomer's second poll and at some ages
//! after that, when the old id misses a deadline and again for as long as it owes a roll-back ([`crate::children`]),
//! and when an operator forgets it. Should the old one call again after all, it was no successor, and both go on (see
//! [`Walk::reinstate`]). Who called when is kept in memory: of an id that has not called since the manager started
//! nothing speaks against its being gone.
//!
//! A successor goes on in the place of the old one, once in a release: a restart alone is no failure, and a version that
//! makes machines restart again and again is one.

use std::collections::BTreeSet;

use super::draft::{Walk, not_changed_later};
use crate::{
    children::{self, Child, places::are_same, recheck::Recheck},
    release::{
        assignment::{Assignment, FunctionSet, Step},
        change::Change,
        command::LastSeen,
        members,
        offer::MAX_ATTEMPT,
        settings::{MAX_RECHECKS_PER_TICK, Member},
        state::{Release, State},
    },
};
use model::{ChildKey, ChildStatus, Cordon, Exclusion, Now, Outcome, ReleaseKey, StageStatus, steps};

/// Ids that were replaced one after the other are followed so far.
const MAX_CHAIN: usize = 32;

/// A newcomer at the place of silent children is what they have become: it takes back what they may have left running,
/// and goes on for them.
pub(in crate::release) fn succeed(
    state: &State,
    seen: &dyn LastSeen,
    newcomer: ChildKey,
    now: Now,
) -> Vec<Change> {
    let Some(record) = state.children.get(newcomer) else { return Vec::new() };
    if !record.kind().forgets_its_id() || record.replaced.is_some() || was_replaced(state, newcomer) {
        return Vec::new();
    }
    let others: Vec<ChildKey> = state.books.at_place_of(record).filter(|child| *child != newcomer).collect();
    if others.iter().any(|child| is_live(state, seen, *child, now)) {
        return Vec::new();
    }
    let mut had_parts = false;
    let mut changes = Vec::new();
    for old in others {
        let Some(before) = state.children.get(old).filter(|before| may_follow(state, before, record)) else {
            continue;
        };
        let is_older = old < newcomer && !seen.called_since(old, record.born.served_ms);
        // One after the other: what is handed over next depends on what was.
        let waits = had_parts && !before.open.is_empty();
        let silent = silence(seen, old, now);
        if is_older && !waits && silent >= silence_that_shows(state, old, silent, now) {
            had_parts |= !before.open.is_empty();
            changes.extend(take_over(state, old, newcomer, now));
        }
    }
    changes
}

/// What came of looking again.
pub(in crate::release) struct Looked {
    pub done: Vec<Recheck>,
    /// The next looks.
    pub again: Vec<Recheck>,
    pub changes: Vec<Change>,
}

/// Looks again at the children of which that is due.
pub(in crate::release) fn look_again(state: &State, seen: &dyn LastSeen, now: Now) -> Looked {
    let due = state.books.rechecks(now.served_ms);
    let mut all = Looked { done: Vec::new(), again: Vec::new(), changes: Vec::new() };
    let mut taken = BTreeSet::new();
    for recheck in due.take(MAX_RECHECKS_PER_TICK) {
        steps::take(1);
        let child = recheck.child;
        let owes = parts(state, child).any(|(_, part)| part.owes_overdue());
        let found = if is_live(state, seen, child, now) {
            succeed(state, seen, child, now)
        } else if owes {
            inherit(state, seen, &[child], now)
        } else {
            Vec::new()
        };
        let both = || found.iter().filter_map(Change::child);
        // Who has a part in what was decided just now is looked at after that.
        if both().any(|child| taken.contains(&child)) {
            continue;
        }
        taken.extend(both());
        all.done.push(*recheck);
        let absence = state.children.get(child).map(|record| state.settings.absence.of_child(record));
        let next = |absence| recheck.next(!found.is_empty(), owes, now.served_ms, absence);
        all.again.extend(absence.and_then(next));
        all.changes.extend(found);
    }
    all
}

/// Who has come in the place of a child that misses a deadline of silence.
pub(in crate::release) fn instead_of(
    state: &State,
    seen: &dyn LastSeen,
    old: ChildKey,
    now: Now,
) -> Option<ChildKey> {
    let newcomer = alone_at_place_of(state, seen, old, now)?;
    let silent = silence(seen, old, now);
    (silent >= silence_that_shows(state, old, silent, now)).then_some(newcomer)
}

/// Whose undos have just become overdue.
pub(in crate::release) fn new_debtors(changes: &[Change]) -> BTreeSet<ChildKey> {
    let debtor = |change: &Change| {
        let Change::Members(members::Change::Stepped { child, step, .. }) = change else { return None };
        (*step == Step::UndoOverdue).then_some(*child)
    };
    changes.iter().filter_map(debtor).collect()
}

/// Hands the overdue undos of `debtors` to whoever calls from the very place now. A machine may have been restarted long
/// after it was done, when nothing was to be taken back yet.
pub(in crate::release) fn inherit<'a>(
    state: &State,
    seen: &dyn LastSeen,
    debtors: impl IntoIterator<Item = &'a ChildKey>,
    now: Now,
) -> Vec<Change> {
    let mut heirs = BTreeSet::new();
    let mut inherited = Vec::new();
    for old in debtors.into_iter().copied() {
        let Some(record) = state.children.get(old) else { continue };
        if silence(seen, old, now) < state.settings.absence.of_child(record).idle_ms() {
            continue;
        }
        let heir = heir(state, old).or_else(|| alone_at_place_of(state, seen, old, now));
        let Some(heir) = heir.filter(|heir| is_free(state, *heir)) else { continue };
        // What one takes over of two in the same release is decided one after the other; the second stays as it is.
        let owes = parts(state, old).filter(|(_, part)| part.pending_undo().is_some());
        let shared: Vec<(ChildKey, ReleaseKey)> = owes.map(|(release, _)| (heir, release.key)).collect();
        if shared.iter().all(|both| !heirs.contains(both)) {
            heirs.extend(shared);
            inherited.extend(take_over(state, old, heir, now));
        }
    }
    inherited
}

/// Who has come back in the place of a child of which somebody says that it is gone.
pub(in crate::release) fn now_there(state: &State, old: ChildKey) -> Option<ChildKey> {
    let record = state.children.get(old)?;
    if let Some(heir) = heir(state, old) {
        return Some(heir);
    }
    let is_later = |child: &ChildKey| {
        let other = state.children.get(*child).filter(|_| *child > old && is_free(state, *child));
        other.is_some_and(|other| may_follow(state, record, other))
    };
    let mut later = state.books.at_place_of(record).filter(is_later);
    let found = later.next()?;
    later.next().is_none().then_some(found)
}

/// Who stands for a child that was replaced, at the end of all who were.
pub(in crate::release) fn heir(state: &State, old: ChildKey) -> Option<ChildKey> {
    let by = |child: ChildKey| Some(state.children.get(child)?.replaced.as_deref()?.by);
    let mut heir = by(old)?;
    for _ in 0..MAX_CHAIN {
        match by(heir) {
            Some(next) => heir = next,
            None => return state.children.get(heir).map(|_| heir),
        }
    }
    None
}

/// The only one who calls from the place of a silent child, if that one came later, and the child was not heard since.
fn alone_at_place_of(state: &State, seen: &dyn LastSeen, old: ChildKey, now: Now) -> Option<ChildKey> {
    let record = state.children.get(old)?;
    let others = state.books.at_place_of(record).filter(|child| *child != old);
    let mut live = others.filter(|child| is_live(state, seen, *child, now));
    let newcomer = live.next().filter(|_| live.next().is_none()).filter(|newcomer| *newcomer > old)?;
    let other = state.children.get(newcomer).filter(|_| is_free(state, newcomer))?;
    let follows = may_follow(state, record, other) && !seen.called_since(old, other.born.served_ms);
    follows.then_some(newcomer)
}

/// For how long nothing was heard of a child, in milliseconds of serving time.
fn silence(seen: &dyn LastSeen, child: ChildKey, now: Now) -> u64 {
    seen.last_call(child).map_or(u64::MAX, |last| now.served_ms.saturating_sub(last))
}

/// Whether it calls as one does that has nothing in hand. One that was heard of once may be a ghost.
fn is_live(state: &State, seen: &dyn LastSeen, child: ChildKey, now: Now) -> bool {
    let settled = state.children.get(child).filter(|record| record.called_again);
    settled
        .is_some_and(|record| silence(seen, child, now) < state.settings.absence.of_child(record).idle_ms())
}

/// For how long a child must be silent before that shows that it is gone, in milliseconds. It is `silent` for so long.
///
/// One that has nothing in hand polls. One that sets up what it has in hand, or ends it, says nothing meanwhile, and how
/// long that may take is what the set-up's own deadline says. One that asks for the end of its stage does so every
/// second, but if its conditions fail it first goes back and then reports.
fn silence_that_shows(state: &State, child: ChildKey, silent: u64, now: Now) -> u64 {
    let Some(record) = state.children.get(child) else { return u64::MAX };
    let absence = state.settings.absence.of_child(record);
    let in_hand = parts(state, child).filter_map(|(release, part)| {
        let deadlines = state.settings.deadlines(&release.strategy, &state.children);
        let deadlines = deadlines.of_member(Member { child, part });
        match part.pending_undo() {
            Some(undo) if undo.fetched => Some(deadlines.setup_ms),
            _ if may_be_busy_with(part) && part.is_in_place() => Some(deadlines.setup_ms),
            _ if !may_be_busy_with(part) => None,
            _ => {
                // Its first call after the download comes when all is set up.
                let in_stage = release.at(now).saturating_sub(part.stage_since);
                let asks = part.stage_status != StageStatus::ShouldEnd
                    && in_stage > silent.saturating_add(absence.of_set_up_ms());
                Some(if asks { deadlines.setup_ms.min(absence.in_stage_ms()) } else { deadlines.setup_ms })
            }
        }
    });
    in_hand.max().unwrap_or(absence.idle_ms())
}

/// Whether the child may be at work on what it fetched. One poll since then shows nothing while the part goes on: it may
/// have been sent before the download that it came after.
fn may_be_busy_with(part: &Assignment) -> bool {
    part.is_in_hand() || (part.status == ChildStatus::Doing && part.fetched)
}

/// Whether the child may take another's place: an agent that is no ghost, and whose own place nobody has taken.
fn is_free(state: &State, child: ChildKey) -> bool {
    let is_agent =
        |record: &Child| record.called_again && record.kind().forgets_its_id() && record.replaced.is_none();
    state.children.get(child).is_some_and(is_agent) && !was_replaced(state, child)
}

/// Whether one may stand where the other stood. Nobody does where a child stands that has a token of its own: it comes back
/// under its own id. Nor does one that leads other routers, or runs something else: it is another program on the same machine.
fn may_follow(state: &State, old: &Child, newcomer: &Child) -> bool {
    are_same(old, newcomer)
        && abilities(old) == abilities(newcomer)
        && !state.settings.proven.contains(old.id.as_str())
}

/// The kinds of routers that a child leads, and what it runs, as far as it says so.
fn abilities(child: &Child) -> (&[String], Option<&[String]>) {
    let known = child.profile.as_deref().map(|profile| &profile.capabilities);
    (known.map_or(&[], |known| &known.routers), known.and_then(|known| known.runtimes.as_deref()))
}

fn was_replaced(state: &State, child: ChildKey) -> bool {
    parts(state, child).any(|(_, part)| part.rare().successor.is_some())
}

fn parts(state: &State, child: ChildKey) -> impl Iterator<Item = (&Release, &Assignment)> {
    let open = state.children.get(child).map(|record| record.open.as_slice()).unwrap_or_default();
    open.iter().filter_map(move |release| {
        let release = state.release(*release)?;
        Some((release, release.assignments.get(&child)?))
    })
}

/// A newcomer stands for a child from now on, in everything that child had a part in.
pub(in crate::release) fn take_over(
    state: &State,
    old: ChildKey,
    newcomer: ChildKey,
    now: Now,
) -> Vec<Change> {
    let Some(record) = state.children.get(old) else { return Vec::new() };
    let mut changes = vec![Change::Children(children::Change::Replaced { child: old, by: newcomer, now })];
    for release in record.open.iter().filter_map(|key| state.release(*key)) {
        let Some(mut walk) = Walk::start(state, release, old, now) else { continue };
        replace(&mut walk, newcomer, now);
        changes.append(&mut walk.changes);
    }
    changes
}

/// Ends the part of a child in one release, and hands it, and what is to be undone, to the one that took its place.
pub(in crate::release) fn replace(walk: &mut Walk<'_>, newcomer: ChildKey, now: Now) {
    if walk.assignment.status == ChildStatus::Todo {
        let goes_on = Course::of(walk, newcomer);
        if goes_on == Course::Begins {
            begin_for(walk, newcomer, now);
        }
        let outcome = Outcome::Excluded(Exclusion::Replaced);
        walk.step(Step::Ended { status: ChildStatus::No, outcome });
        walk.step(Step::ReplacedBy { successor: newcomer, at_work: false });
    }
    let begun = walk.assignment.status == ChildStatus::Doing;
    let undoing = walk.assignment.pending_undo().map(|undo| undo.functions);
    if !begun && undoing.is_none() {
        return;
    }
    let course = if begun { Course::of(walk, newcomer) } else { Course::Ends };
    let mut functions = undoing.unwrap_or_default();
    if begun {
        functions = functions.union(walk.assignment.may_run_new());
        let outcome =
            if course == Course::Ends { Outcome::Lost } else { Outcome::Excluded(Exclusion::Replaced) };
        walk.step(Step::Ended { status: ChildStatus::Failed, outcome });
    }
    if undoing.is_some() {
        walk.step(Step::UndoDropped);
    }
    walk.step(Step::ReplacedBy { successor: newcomer, at_work: begun });
    // What a later release changed there is no leftover any more.
    let functions = not_changed_later(walk.state, walk.release, newcomer, functions);
    let begins = course == Course::Begins;
    if functions.is_empty() && !begins {
        return;
    }
    let wave = walk.assignment.wave;
    walk.push_for(newcomer, Step::StandsInFor { predecessor: walk.child, functions, wave }, None);
    // One that is at work, or has rolled out, has replaced what it found by what it tests.
    let own = walk.release.assignments.get(&newcomer);
    let decides_itself =
        own.is_some_and(|part| part.status == ChildStatus::Doing || part.outcome == Some(Outcome::Succeeded));
    if !decides_itself && !functions.is_empty() {
        let owed = own.and_then(Assignment::pending_undo).map(|undo| undo.functions);
        let functions = functions.union(owed.unwrap_or_default());
        walk.push_for(newcomer, Step::UndoOffered { functions }, None);
    }
    if begins {
        walk.push_for(newcomer, Step::Retried, None);
    }
}

/// A newcomer begins in the place of one that has not begun.
fn begin_for(walk: &mut Walk<'_>, newcomer: ChildKey, now: Now) {
    let (release, instead_of) = (walk.release.key, Some(walk.child));
    // The same machine, as far as is known: it runs what that one ran.
    let lacks = walk.assignment.lacks_in(&walk.release.strategy);
    let Some(own) = walk.release.assignments.get(&newcomer) else {
        walk.changes.push(Change::Members(members::Change::Joined {
            release,
            child: newcomer,
            instead_of,
            lacks,
            now,
        }));
        return;
    };
    // It takes back already what another one left, and still does so first.
    let (predecessor, wave) = (own.rare().predecessor.unwrap_or(walk.child), walk.assignment.wave);
    walk.push_for(newcomer, Step::StandsInFor { predecessor, functions: FunctionSet::EMPTY, wave }, None);
    walk.push_for(newcomer, Step::Retried, None);
}

/// What becomes of the part of a child whose place another takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// It ends here: nobody goes on with it.
    Ends,
    /// The newcomer has a part of its own.
    GoesOn,
    /// The newcomer begins it anew.
    Begins,
}

impl Course {
    fn of(walk: &Walk<'_>, newcomer: ChildKey) -> Self {
        let (state, release) = (walk.state, walk.release);
        let Some(record) = state.children.get(newcomer) else { return Self::Ends };
        // A machine that is restarted a second time in the same release may be so because of it.
        let again =
            walk.assignment.status == ChildStatus::Doing && walk.assignment.rare().predecessor.is_some();
        if !release.is_under_way() || again || walk.assignment.is_whole() {
            return Self::Ends;
        }
        let own = release.assignments.get(&newcomer);
        let stands_in = Some(Outcome::Excluded(Exclusion::Successor));
        match own {
            Some(part) if part.outcome == stands_in && part.attempt >= MAX_ATTEMPT => Self::Ends,
            Some(part) if part.outcome != stands_in && part.status == ChildStatus::No => Self::Ends,
            Some(part) if part.outcome != stands_in => Self::GoesOn,
            _ if record.cordon != Cordon::Open || release.unfit(state, newcomer).is_some() => Self::Ends,
            _ => Self::Begins,
        }
    }
}
