//! Folding a change into the state. Infallible: whether a change is right was decided before it was made.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::IpAddr,
    sync::Arc,
};

use super::{
    assignment::{Assignment, Dated, Fact, FunctionSet, ReleaseMs, Step},
    assignments::Assignments,
    change::{Change, Membership, Submitted},
    command::Command,
    deadline,
    gate::{ALL_OPEN, Reached, Turns},
    manager::Planned,
    places,
    recheck::Recheck,
    settings::{GHOST_AFTER, REPLACED_FOR},
    state::{Child, Counts, Deployment, End, Known, Profile, Release, ReleaseState, Replaced, State, Sweep},
    turnout::ASKED_FOR,
};
use language::Order;
use model::{ChildKey, ChildKind, Now, ReleaseKey, address::for_limits};

impl State {
    /// Folds one change in.
    pub fn apply(&mut self, change: &Change) {
        self.fold_in(change);
        if let Some(release) = change.release() {
            self.reschedule(release);
        }
    }

    fn fold_in(&mut self, change: &Change) {
        match change {
            Change::ChildArrived { child, record, .. } => self.arrive(*child, record),
            Change::ChildCalledAgain { child } => self.hear_again(*child),
            Change::ChildMoved { child, area } => self.move_child(*child, area.as_ref()),
            Change::ChildCalledFrom { child, address } => self.call_from(*child, *address),
            Change::ChildProven { child } => self.prove(*child),
            Change::ChildReplaced { child, by, now } => self.replace_child(*child, *by, *now),
            Change::ChildBack { child } => self.take_back_in(*child),
            Change::ChildReported { child, agents, profile } => {
                self.report(*child, *agents, profile.as_deref());
            }
            Change::ChildLabelled { child, key, value } => {
                self.label(*child, key, value.as_deref());
                self.look_whether_it_stays(*child);
            }
            Change::ChildCordoned { child, cordon } => {
                if let Some(child) = self.children.get_mut(*child) {
                    child.cordon = *cordon;
                }
                self.look_whether_it_stays(*child);
            }
            Change::ChildForgotten { child, .. } => self.forget(*child),
            Change::ReleaseSubmitted { release, submitted, now } => self.submit(*release, submitted, *now),
            Change::ReleaseStarted { release, membership, now } => {
                self.start(*release, membership, *now);
            }
            Change::ReleasePaused { release, pause, now } => self.with(*release, |release| {
                release.clock.pause(*now);
                release.asking = None;
                release.state = ReleaseState::Paused(pause.clone());
            }),
            // Nobody has begun it: whether its turn has come is seen to after this.
            Change::ReleaseResumed { release, .. } if self.release(*release).is_some_and(|r| r.deferred) => {
                self.with(*release, |release| release.deferred = false);
            }
            Change::ReleaseResumed { release, now } => {
                let level = self.release(*release).map_or(ALL_OPEN, |release| release.gates.stand.level);
                self.with(*release, |release| {
                    release.clock.resume(*now);
                    release.gates.stand.waived |= release.is_unproven();
                    if release.state.pause().is_some_and(|pause| pause.by.is_limit()) {
                        release.accepted = release.counts.bad();
                    }
                    release.accept_verdicts();
                    release.state = ReleaseState::Running;
                });
                self.fold(*release, Fact::Resumed { level }, *now);
            }
            Change::StageEnded { release, stage, now } => {
                self.fold(*release, Fact::StageEnded { stage: *stage }, *now);
            }
            Change::StageSkipped { release, stage, then, now } => {
                self.fold(*release, Fact::StageSkipped { stage: *stage, then: *then }, *now);
            }
            Change::UntestedRolledOut { release, now } => {
                self.fold(*release, Fact::UntestedRolledOut, *now);
            }
            Change::ReleaseAborted { release, why, end, now } => {
                self.with(*release, |release| {
                    release.clock.resume(*now);
                    release.ended = None;
                    release.state = ReleaseState::RollingBack { reason: why.text.clone(), end: *end };
                    (release.ending, release.first_fault) = (Some(why.clone()), None);
                });
                self.fold(*release, Fact::Aborted, *now);
            }
            Change::FaultNoted { release, child, ending } => self.with(*release, |release| {
                (release.ending, release.first_fault) = (Some(ending.clone()), Some(*child));
            }),
            Change::HeldAbove { release, held } => self.with(*release, |release| {
                if let Some(upstream) = &mut release.upstream {
                    upstream.held = *held;
                }
            }),
            Change::ReleaseRetried { release, now } => {
                self.with(*release, |release| {
                    (release.ending, release.first_fault) = (None, None);
                    if release.state.is_over() {
                        // Nobody else is in it: those who get another attempt meet the barriers anew.
                        release.gates.stand.level = release.gates.levels.barrier_from(0);
                        release.ended = None;
                    }
                    release.state = ReleaseState::Running;
                });
                self.fold(*release, Fact::Retried, *now);
            }
            Change::ReleaseEnded { release, end, unconfirmed, now } => {
                self.with(*release, |release| {
                    if matches!(end, End::Done | End::Untested) {
                        (release.ending, release.first_fault) = (None, None);
                    }
                    release.state = ReleaseState::Over { end: *end, unconfirmed: *unconfirmed };
                    release.ended = Some(*now);
                    release.end_analyses();
                });
            }
            Change::TurnoutAsked { release, now } => self.with(*release, |release| {
                let until = now.served_ms + ASKED_FOR.as_millis() as u64;
                release.asking = Some(until);
                if release.state != ReleaseState::Planned {
                    let due = release.at(*now) + ASKED_FOR.as_millis() as u64;
                    release.due_by(due);
                }
            }),
            Change::WavesPlanned { release, moved, managers, left_out, .. } => {
                self.with(*release, |release| release.replan_waves(moved, managers, *left_out));
            }
            Change::ReleaseReplanned { release, .. } => self.with(*release, Release::plan_again),
            Change::StageReported { release, stage, status, .. } => self.with(*release, |release| {
                let agents = release.agents();
                if let Some(upstream) = &mut release.upstream {
                    upstream.report(*stage, *status, agents);
                }
            }),
            Change::Recounted { release } => self.with(*release, |release| {
                let agents = release.agents();
                if let Some(said) = release.upstream.as_mut().and_then(|upstream| upstream.said.as_mut()) {
                    (said.agents, said.recounts) = (agents, said.recounts.saturating_add(1));
                }
            }),
            Change::ReleaseContinued { release, .. }
            | Change::UndoAwaited { release, .. }
            | Change::UndoReported { release, .. } => self.with(*release, |release| {
                if let Some(upstream) = &mut release.upstream {
                    upstream.apply(change);
                }
            }),
            Change::ChildJoined { release, child, instead_of, now, lacks } => {
                self.join(*release, *child, *instead_of, *lacks, *now);
            }
            Change::DeadlinesSeen { release, next, after } => {
                let (next, after) = (*next, *after);
                self.with(*release, |release| {
                    if let Some(after) = after {
                        release.sweep = Some(Sweep { after, next });
                    } else {
                        (release.next_deadline, release.sweep) = (next, None);
                    }
                });
            }
            Change::GateReached { .. }
            | Change::GateLeft { .. }
            | Change::ApprovalAsked { .. }
            | Change::ReleaseApproved { .. }
            | Change::WavesOpened { .. }
            | Change::LevelOpened { .. } => self.gate(change),
            Change::AnalysisBegan { release, .. }
            | Change::Looked { release, .. }
            | Change::AnalysisExtended { release, .. }
            | Change::VerdictGiven { release, .. } => {
                self.with(*release, |release| release.apply_analysis(change));
            }
            Change::StageTimed { release, stage, number, ended, now } => {
                self.with(*release, |release| release.apply_time(*stage, *number, *ended, *now));
            }
            Change::ChildrenSeen { looked, again, kept, gone } => {
                for recheck in looked {
                    self.rechecks.remove(recheck);
                }
                self.rechecks.extend(again);
                for entry in gone {
                    self.expiring.remove(*entry);
                }
                self.expiring.extend(kept.iter().copied());
            }
            Change::Child { release, child, step, at, .. } => self.step(*release, *child, step, *at),
            Change::ReleaseRemoved { id, .. } => {
                self.known.remove(id);
            }
            // Kept in the store alone.
            Change::ReleaseForwarded { .. } | Change::Numbers { .. } | Change::LateKept { .. } => {}
            Change::Deployed { child, release, function, variant } => {
                self.deploy(*child, *release, *function, *variant);
            }
        }
    }

    fn with(&mut self, key: ReleaseKey, change: impl FnOnce(&mut Release)) {
        if let Some(release) = self.releases.get_mut(&key) {
            change(release);
        }
    }

    fn arrive(&mut self, key: ChildKey, record: &Child) {
        self.hold_child(key, record.clone());
        if self.is_newcomer(key, record) {
            self.rechecks.insert(Recheck::first(key, record.born.served_ms, &self.settings));
        }
    }

    /// Takes a child in; from the store also those that are no newcomers any more.
    pub fn hold_child(&mut self, key: ChildKey, record: Child) {
        let born = record.born.served_ms;
        if !record.called_again || record.unproven {
            self.expiring.insert((born + ms(GHOST_AFTER) + 1, key));
        }
        if let Some(replaced) = &record.replaced {
            self.expiring.insert((replaced.at + ms(REPLACED_FOR), key));
            // No release is planned for it.
        } else {
            self.areas.insert(key, record.area.as_deref(), record.counted_agents());
        }
        if let Some(place) = places::place(&record) {
            self.places.insert(place, key);
        }
        self.count_unproven(&record, 1);
        self.children.insert(key, record);
    }

    fn hear_again(&mut self, key: ChildKey) {
        let Some(child) = self.shared.children.get_mut(key) else { return };
        child.called_again = true;
        // It can't become a ghost any more, so nobody has to look whether it has.
        if !child.unproven {
            self.expiring.remove((child.born.served_ms + ms(GHOST_AFTER) + 1, key));
        }
    }

    fn count_unproven(&mut self, record: &Child, more: isize) {
        let Some(address) = record.address.filter(|_| record.unproven).map(for_limits) else { return };
        let count = self.unproven.entry(address).or_default();
        *count = count.saturating_add_signed(more);
        if *count == 0 {
            self.unproven.remove(&address);
        }
    }

    /// Changes a child, and where it is found.
    fn change_child(&mut self, key: ChildKey, change: impl FnOnce(&mut Child)) {
        let Some(child) = self.children.get_mut(key) else { return };
        let before = places::place(child);
        change(child);
        let after = places::place(child);
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.places.remove(before, key);
        }
        if let Some(after) = after {
            self.places.insert(after, key);
        }
    }

    fn move_child(&mut self, key: ChildKey, area: Option<&Arc<str>>) {
        self.change_child(key, |child| child.registration_mut().area = area.cloned());
        self.areas.move_to(key, area.map(AsRef::as_ref));
    }

    fn call_from(&mut self, key: ChildKey, address: IpAddr) {
        if let Some(mut child) = self.children.get(key).filter(|child| child.unproven).cloned() {
            self.count_unproven(&child, -1);
            child.registration_mut().address = Some(address);
            self.count_unproven(&child, 1);
        }
        self.change_child(key, |child| child.registration_mut().address = Some(address));
    }

    fn prove(&mut self, key: ChildKey) {
        if let Some(child) = self.children.get(key).cloned() {
            self.count_unproven(&child, -1);
        }
        self.change_child(key, |child| child.unproven = false);
    }

    fn replace_child(&mut self, key: ChildKey, by: ChildKey, now: Now) {
        let at = now.served_ms;
        self.expiring.insert((at + ms(REPLACED_FOR), key));
        self.change_child(key, |child| child.replaced = Some(Box::new(Replaced { by, at })));
        self.areas.remove(key);
    }

    fn take_back_in(&mut self, key: ChildKey) {
        self.change_child(key, |child| child.replaced = None);
        if let Some(child) = self.shared.children.get(key) {
            self.shared.areas.insert(key, child.area.as_deref(), child.counted_agents());
        }
    }

    fn report(&mut self, key: ChildKey, agents: u32, profile: Option<&Profile>) {
        self.change_child(key, |child| {
            let registration = child.registration_mut();
            registration.agents = agents;
            registration.profile = profile.cloned().map(Box::new);
        });
        if let Some(child) = self.shared.children.get(key) {
            self.shared.areas.count(key, child.counted_agents());
        }
    }

    fn label(&mut self, key: ChildKey, label: &str, value: Option<&str>) {
        let Some(child) = self.children.get_mut(key) else { return };
        let labels = child.labels.get_or_insert_default();
        match value {
            Some(value) => labels.insert(label.to_owned(), value.to_owned()),
            None => labels.remove(label),
        };
        if labels.is_empty() {
            child.labels = None;
        }
    }

    /// One that brought its id along stays while operators say something of it: what they said may have been all.
    fn look_whether_it_stays(&mut self, key: ChildKey) {
        if self.children.get(key).is_some_and(|child| child.unproven) {
            self.expiring.insert((0, key));
        }
    }

    fn forget(&mut self, key: ChildKey) {
        self.areas.remove(key);
        if let Some(child) = self.children.remove(key) {
            self.count_unproven(&child, -1);
            if let Some(place) = places::place(&child) {
                self.places.remove(place, key);
            }
        }
        let of_child = (key, 0)..=(key, u32::MAX);
        let deployed: Vec<(ChildKey, u32)> = self.deployments.range(of_child).map(|(of, _)| *of).collect();
        for of in deployed {
            self.set_deployment(of, None);
        }
    }

    fn set_deployment(&mut self, of: (ChildKey, u32), deployment: Option<Deployment>) {
        let before = match deployment {
            Some(deployment) => {
                *self.deployed.entry(deployment.release).or_default() += 1;
                self.deployments.insert(of, deployment)
            }
            None => self.deployments.remove(&of),
        };
        let Some(before) = before else { return };
        if let Some(count) = self.deployed.get_mut(&before.release) {
            *count -= 1;
            if *count == 0 {
                self.deployed.remove(&before.release);
            }
        }
    }

    fn submit(&mut self, key: ReleaseKey, submitted: &Submitted, now: Now) {
        self.next_release = self.next_release.max(key.0 + 1);
        self.known.insert(submitted.id.clone(), Known { key, digest: submitted.digest });
        self.releases.insert(key, Release::new(key, submitted, now));
    }

    /// Holds a release that comes from the store.
    pub fn hold(&mut self, mut release: Release) {
        let key = release.key;
        self.next_release = self.next_release.max(key.0 + 1);
        self.known.insert(release.id.clone(), Known { key, digest: release.digest });
        // What was decided of some of its children in this very batch is not in the store yet.
        let parts =
            self.closed.get(&key).filter(|closed| closed.is_part).map(|closed| closed.assignments.iter());
        for (child, part) in parts.into_iter().flatten() {
            if let Some(assignment) = release.assignments.get_mut(child) {
                release.counts.remove(assignment, &release.gates);
                assignment.clone_from(part);
                release.counts.add(assignment, &release.gates);
            }
        }
        for child in release.assignments.keys() {
            if let Some(child) = self.children.get_mut(*child)
                && let Err(at) = child.open.binary_search(&key)
            {
                child.open.insert(at, key);
            }
        }
        self.releases.insert(key, release);
        self.reschedule(key);
    }

    fn start(&mut self, key: ReleaseKey, membership: &Membership, now: Now) {
        self.overtake(key);
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let Membership { members, excluded, waves, managers, lacks, left_out } = membership;
        release.state = ReleaseState::Running;
        release.asking = None;
        release.left_out = *left_out;
        release.started = Some(now);
        release.started_at = release.at(now);
        release.members = Arc::clone(members);
        release.excluded.clone_from(excluded);
        release.turns = Turns::new(members, waves, managers);
        release.managers = managers.iter().map(|(child, planned)| (*child, planned.clone())).collect();
        release.gates.stand.opened = release.started_at;
        let wave = |at: usize| waves.get(at).copied().unwrap_or_default();
        let member = |(at, child): (usize, &ChildKey)| {
            let lacks = lacks.get(at).copied().unwrap_or_default();
            let part = release.fresh_part(*child, lacks, release.started_at);
            (*child, Assignment { wave: wave(at), ..part })
        };
        let mut assignments: Assignments = members.iter().enumerate().map(member).collect();
        // It is planned once more: who had a part in it has another attempt, or the part that it had.
        for (child, before) in &release.assignments {
            let mut part = before.clone();
            if let Some(fresh) = assignments.get(child) {
                part.apply(&Step::Retried, &release.strategy, release.started_at);
                part.wave = fresh.wave;
                part.lead_as(fresh, &release.strategy);
            }
            assignments.insert(*child, part);
        }
        release.assignments = assignments;
        release.counts = Counts::default();
        for assignment in release.assignments.values() {
            release.counts.add(assignment, &release.gates);
        }
        let deadlines = self.shared.settings.deadlines(&release.strategy);
        let soonest = |part| deadline::soonest(part, deadlines, &release.strategy, &release.gates);
        release.next_deadline = release.assignments.values().map(soonest).min().unwrap_or(ReleaseMs::MAX);
        for child in members.iter() {
            // A release that waited in the queue may start after one that was submitted later.
            if let Some(child) = self.shared.children.get_mut(*child)
                && let Err(at) = child.open.binary_search(&key)
            {
                child.open.insert(at, key);
            }
        }
    }

    fn join(
        &mut self,
        key: ReleaseKey,
        child: ChildKey,
        instead_of: Option<ChildKey>,
        lacks: FunctionSet,
        now: Now,
    ) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let order = release.strategy.rollout.as_ref().map(|rollout| &rollout.order);
        let alone = matches!(order, Some(Order::LocationSequential { .. }));
        let old = instead_of.and_then(|old| release.assignments.get(&old));
        let own = old.map(|old| old.wave).filter(|wave| *wave < release.gates.stand.waves);
        let wave = own.unwrap_or_else(|| release.turns.join(&release.members, child, alone));
        // Those barriers that others are on their way to have begun without it, unless it comes for one of them.
        let is_late = instead_of.is_none() && wave < release.gates.stand.waves;
        let joined = if is_late { release.gates.stand.level.saturating_add(1) } else { 0 };
        let manager = self.shared.children.get(child).filter(|record| record.kind() == ChildKind::Rm);
        if let Some(record) = manager {
            let planned = Planned { agents: record.counted_agents(), ..Planned::default() };
            release.managers.insert(child, planned);
        }
        let mut newcomer = Assignment {
            wave,
            facts: release.facts.len() as u16,
            ..release.fresh_part(child, lacks, release.at(now))
        };
        newcomer.change_rare(|rare| rare.joined = Some(joined));
        release.joined += 1;
        release.counts.add(&newcomer, &release.gates);
        let deadlines = self.shared.settings.deadlines(&release.strategy);
        let soonest = deadline::soonest(&newcomer, deadlines, &release.strategy, &release.gates);
        release.due_by(soonest);
        release.assignments.insert(child, newcomer);
        if let Some(record) = self.shared.children.get_mut(child)
            && let Err(place) = record.open.binary_search(&key)
        {
            record.open.insert(place, key);
        }
    }

    fn gate(&mut self, change: &Change) {
        match change {
            Change::GateReached { release, gate, now } => self.with(*release, |release| {
                let at = release.at(*now);
                release.gates.stand.reached = Some(Reached { gate: *gate, at, approved: false });
                release.due_by(release.gate_due());
            }),
            Change::GateLeft { release } => self.with(*release, |release| {
                release.asking = None;
                release.gates.stand.reached = None;
                release.state = ReleaseState::Running;
            }),
            Change::ApprovalAsked { release, what, now } => self.with(*release, |release| {
                let since = release.at(*now);
                release.state = ReleaseState::AwaitingApproval { what: what.clone(), since };
                release.due_by(release.gate_due());
            }),
            Change::ReleaseApproved { release, .. } => self.with(*release, |release| {
                if let Some(reached) = &mut release.gates.stand.reached {
                    reached.approved = true;
                }
                release.state = ReleaseState::Running;
            }),
            Change::WavesOpened { release, to, now, .. } => self.open_waves(*release, *to, *now),
            Change::LevelOpened { release, level, now } => {
                self.with(*release, |release| {
                    release.gates.stand.level = *level;
                    release.gates.stand.reached = None;
                    release.gates.stand.waived = false;
                    release.state = ReleaseState::Running;
                    // The fold below takes each child out of the counts as it was and puts it in as it is.
                    release.recount();
                });
                self.fold(*release, Fact::Opened { level: *level }, *now);
            }
            _ => {}
        }
    }

    /// Costs as much as there are members in the waves that open.
    fn open_waves(&mut self, key: ReleaseKey, to: u32, now: Now) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let before = release.gates.clone();
        let at = release.at(now);
        let stand = &mut release.gates.stand;
        stand.waves = to + 1;
        stand.opened = at;
        stand.reached = None;
        stand.waived = false;
        release.asking = None;
        stand.level = release.gates.levels.barrier_from(0);
        // The manager above may open one while an operator here has paused it.
        if !matches!(release.state, ReleaseState::Paused { .. }) {
            release.state = ReleaseState::Running;
        }
        let deadlines = self.shared.settings.deadlines(&release.strategy);
        let mut due = ReleaseMs::MAX;
        for child in release.turns.between(before.stand.waves, to + 1) {
            let Some(assignment) = release.assignments.get_mut(child) else { continue };
            release.counts.remove(assignment, &before);
            assignment.since = at;
            release.counts.add(assignment, &release.gates);
            due = due.min(deadline::soonest(assignment, deadlines, &release.strategy, &release.gates));
        }
        release.due_by(due);
        if release.counts.in_play > 0 && before.stand.level != release.gates.stand.level {
            release.recount();
        }
    }

    /// Folds a fact into every assignment of a release.
    fn fold(&mut self, key: ReleaseKey, fact: Fact, now: Now) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        let dated = Dated { fact, at: release.at(now) };
        release.facts.push(dated);
        let deadlines = self.shared.settings.deadlines(&release.strategy);
        let mut next = ReleaseMs::MAX;
        for assignment in release.assignments.values_mut() {
            release.counts.remove(assignment, &release.gates);
            assignment.fold(&dated, &release.strategy, &release.gates.levels);
            release.counts.add(assignment, &release.gates);
            release.attempt = release.attempt.max(assignment.attempt);
            next = next.min(deadline::soonest(assignment, deadlines, &release.strategy, &release.gates));
        }
        release.due_by(next);
    }

    fn step(&mut self, key: ReleaseKey, child: ChildKey, step: &Step, at: ReleaseMs) {
        let Some(release) = self.shared.releases.get_mut(&key) else { return };
        if let Step::StandsInFor { .. } = step
            && !release.assignments.contains_key(&child)
        {
            // A member goes on as one after the undo; anybody else has no other part in the release.
            let stand_in = Assignment::stand_in(at, release.facts.len() as u16);
            release.counts.add(&stand_in, &release.gates);
            release.assignments.insert(child, stand_in);
            if let Some(record) = self.shared.children.get_mut(child)
                && let Err(place) = record.open.binary_search(&key)
            {
                record.open.insert(place, key);
            }
        }
        let Some(assignment) = release.assignments.get_mut(&child) else { return };
        release.counts.remove(assignment, &release.gates);
        assignment.apply(step, &release.strategy, at);
        release.counts.add(assignment, &release.gates);
        release.attempt = release.attempt.max(assignment.attempt);
        let deadlines = self.shared.settings.deadlines(&release.strategy);
        let soonest = deadline::soonest(assignment, deadlines, &release.strategy, &release.gates);
        release.due_by(soonest);
        // Who tries again is no fault any more.
        if *step == Step::Retried && release.first_fault == Some(child) {
            (release.ending, release.first_fault) = (None, None);
        }
        let unproven = release.unproven();
        let is_repaired = matches!(step, Step::Counted { .. })
            && release.counts.failures() == 0
            && !release.was_aborted_below();
        if let ReleaseState::Over { end, unconfirmed } = &mut release.state {
            *unconfirmed = unproven;
            // Those that ended badly below, or were not tested, were tried again there.
            if matches!(end, End::DoneWithFailures | End::Untested) && is_repaired {
                *end = if release.counts.agents.are_untested() { End::Untested } else { End::Done };
                (release.ending, release.first_fault) = (None, None);
            }
        }
    }

    /// Lets every release leave memory that a command touched or recalled, and that nothing keeps. Only after all
    /// changes of the command: one of them may drop an undo that the next offers again.
    pub fn let_go_of_closed(&mut self, command: &Command, changes: &[Change]) {
        if let Command::Recalled { release, .. } = command {
            self.let_go(release.key);
        }
        for key in changes.iter().filter_map(Change::release) {
            self.let_go(key);
        }
    }

    /// A release that is over and owes nobody an undo leaves memory.
    pub fn let_go(&mut self, key: ReleaseKey) {
        if self.releases.get(&key).is_none_or(Release::is_open) {
            return;
        }
        self.last_left = self.decided;
        if let Some(release) = self.take_out(key) {
            self.closed.insert(key, release);
        }
    }

    /// The part of a child leaves memory again, with what has become of it if that is to be stored.
    pub(super) fn put_aside(&mut self, key: ReleaseKey, is_to_be_stored: bool) {
        let Some(part) = self.take_out(key).filter(|_| is_to_be_stored) else { return };
        match self.closed.entry(key) {
            Entry::Vacant(place) => drop(place.insert(part)),
            Entry::Occupied(mut before) => {
                for (child, assignment) in &part.assignments {
                    before.get_mut().assignments.insert(*child, assignment.clone());
                }
            }
        }
    }

    fn take_out(&mut self, key: ReleaseKey) -> Option<Release> {
        let release = self.releases.remove(&key)?;
        self.reschedule(key);
        for child in release.assignments.keys() {
            if let Some(child) = self.children.get_mut(*child) {
                child.open.remove(key);
            }
        }
        Some(release)
    }

    /// The releases that left memory since the last call: what is stored of them is made from here.
    pub fn take_closed(&mut self) -> BTreeMap<ReleaseKey, Release> {
        std::mem::take(&mut self.closed)
    }

    fn deploy(
        &mut self,
        child: ChildKey,
        release: ReleaseKey,
        function: usize,
        variant: super::change::Variant,
    ) {
        let Some(name) = self
            .shared
            .releases
            .get(&release)
            .and_then(|r| r.strategy.functions.get(function))
            .map(|f| &f.name)
        else {
            return;
        };
        let number = self.functions.intern(name);
        self.set_deployment((child, number), Some(Deployment { release, variant }));
    }

    /// Takes in what the store says of a deployment.
    pub fn hold_deployment(&mut self, child: ChildKey, function: &str, deployment: Deployment) {
        let number = self.functions.intern(function);
        self.set_deployment((child, number), Some(deployment));
    }
}

const fn ms(time: std::time::Duration) -> u64 {
    time.as_millis() as u64
}
