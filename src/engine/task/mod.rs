//! The one task that writes.

pub(crate) mod chores;
mod publish;
mod round;
mod store_writer;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::yield_now,
    time::{Instant, timeout_at},
};

use self::{
    chores::Chores,
    publish::{publish, publish_all},
    round::{PendingCommand, Round},
    store_writer::StoreWriter,
};
use super::{
    audit::Actor,
    changed::Noted,
    clock::{Clock, ClockSource},
    error::EngineError,
    gather::Gathering,
    joining::revoked,
    load::Loading,
    mailbox::{By, Decision, Envelope},
    outbox::Effects,
    principals::Principal,
    stats::Stats,
    view::{MAX_RELEASES, View},
};
use ab_releases::{Kind, Names, tenant_of};
use domain::children::{self, Forgetting};
use domain::release::{
    advance,
    assignment::Step,
    change::Change,
    command::{Command, NoReply, Refusal, Reply},
    lifecycle, members, rollout,
    state::{Release, Snapshot, State},
};
use model::{ChildKey, Now, Outcome, ReleaseId, ReleaseKey};
use store::{
    StoreError, Writer,
    rows::{ArchiveRow, AuditRow, RegisteredRow},
};

/// Most commands in one commit.
const MAX_BATCH: usize = 1_024;

/// Deadlines are looked at no more often.
const TICK_EVERY: Duration = Duration::from_millis(200);

/// What an operator may set of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long the audit trail is kept, in serving time.
    pub audit_retention: Duration,
    /// How long releases that are over are kept, in serving time; `None`: for ever.
    pub history_retention: Option<Duration>,
    /// Who wants to know of the end of a release; nobody: no effect is stored.
    pub webhooks: Vec<String>,
    pub clock: ClockSource,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            audit_retention: Duration::from_hours(90 * 24),
            history_retention: None,
            webhooks: Vec::new(),
            clock: ClockSource::Machine,
        }
    }
}

#[derive(Debug)]
pub(super) struct Task {
    state: State,
    store_writer: StoreWriter,
    view: Arc<View>,
    clock: Clock,
    events: broadcast::Sender<Arc<Vec<AuditRow>>>,
    effects: Effects,
    settings: Settings,
    ticked: Instant,
    chores: Chores,
    gathering: Gathering,
}

impl Task {
    pub fn new(
        state: State,
        writer: Box<dyn Writer>,
        view: Arc<View>,
        clock: Clock,
        events: broadcast::Sender<Arc<Vec<AuditRow>>>,
        effects: Effects,
        settings: Settings,
    ) -> Self {
        let store_writer = StoreWriter::new(writer, clock.clone(), Arc::clone(&view));
        Self {
            state,
            store_writer,
            view,
            clock,
            events,
            effects,
            settings,
            ticked: Instant::now(),
            chores: Chores::new(),
            gathering: Gathering::default(),
        }
    }

    /// When the task must wake although nobody calls.
    fn wake_at(&self) -> Instant {
        let now = self.clock.now();
        let deadline = self
            .state
            .next_due(now)
            .map(|served_ms| Duration::from_millis(served_ms.saturating_sub(now.served_ms)))
            .map(|wait| (Instant::now() + wait).max(self.ticked + TICK_EVERY));
        let renewal = self.store_writer.renewal();
        deadline.map_or(renewal, |deadline| deadline.min(renewal))
    }

    fn take(&mut self, envelope: Envelope, now: Now, round: &mut Round) {
        match envelope {
            // Whoever asked has gone, and was told nothing: a stop waits for nobody.
            Envelope::Command { answer, .. } if self.view.is_draining() && answer.is_closed() => {}
            Envelope::Command { command, by, archive, answer } => {
                self.ask(PendingCommand { command, by, archive, answer }, now, round);
            }
            Envelope::Look(answer) => round.looks.push(answer),
            Envelope::EffectsDone(ids) => {
                round.changed = true;
                round.effects_done.extend(ids);
            }
            Envelope::PointersGone(keys) => {
                round.changed |= !keys.is_empty();
                round.pointers_gone.extend(keys);
            }
            Envelope::Keep { setting, event, stored } => {
                round.changed = true;
                round.touched.keep(&setting);
                if let Some((actor, event)) = event {
                    round.touched.event(&actor, event);
                }
                round.stored.push(stored);
            }
            Envelope::Effect { entry, stored } => {
                round.changed = true;
                round.touched.effect(&entry);
                round.stored.push(stored);
            }
            Envelope::Register { row, kind, event: (actor, event), in_use, stored } => {
                if let Some(release) = user_of(&self.state, &row, kind) {
                    let _ = in_use.send(release);
                    return;
                }
                round.changed = true;
                round.touched.know(Principal::acting(&row.tenant, &actor), now.wall_ms);
                round.touched.register(row);
                round.touched.event(&actor, event);
                round.stored.push(stored);
            }
            Envelope::Know { known, stored } => {
                round.changed = true;
                for known in known {
                    round.touched.know(known, now.wall_ms);
                }
                round.stored.push(stored);
            }
            Envelope::Note { event: (actor, event), stored } => {
                round.changed = true;
                round.touched.event(&actor, event);
                round.stored.push(stored);
            }
            Envelope::Stop(done) => round.stop = Some(done),
        }
    }

    fn ask(&mut self, asked: PendingCommand, now: Now, round: &mut Round) {
        let reply = self.decide(&asked.command, &asked.by, now, round);
        if matches!(reply, Ok(Decision::Reply(Reply::Submitted { created: true, .. })))
            && !matches!(*asked.command, Command::Lifecycle(lifecycle::Command::Submit { dry_run: true, .. }))
        {
            round.archives.extend(asked.archive.clone());
        }
        let starts = matches!(*asked.command, Command::Workflows(domain::workflows::Command::Start { .. }));
        if starts && matches!(reply, Ok(Decision::Reply(_))) {
            round.archives.extend(asked.archive.clone());
        }
        round.asked.push((asked, reply));
    }

    fn decide(
        &mut self,
        command: &Command,
        by: &By,
        now: Now,
        round: &mut Round,
    ) -> Result<Decision, EngineError> {
        if matches!(command, Command::Lifecycle(lifecycle::Command::Submit { .. }))
            && self.state.next_release >= MAX_RELEASES
        {
            let limit = MAX_RELEASES as usize;
            return Err(Refusal::Limit { what: "releases of one store", limit }.into());
        }
        Stats::count(&self.view.stats.commands);
        self.state.commit = self.store_writer.next_seq();
        let (changes, answer) = advance(&mut self.state, self.view.children.as_ref(), command, now);
        if !changes.is_empty() {
            round.changed |= changes.iter().any(is_stored);
            round.touched.note(&self.state, &changes, &by.actor, by.note.as_deref(), now);
            round.touched.effects(&self.state, &changes, &self.settings.webhooks);
            self.revoke_tokens(&changes, by, round);
            count(&self.view.stats, &changes);
            self.warn_of_conflicts(&changes);
            if changes
                .iter()
                .any(|change| matches!(change, Change::Rollout(rollout::Change::TurnoutAsked { .. })))
            {
                self.view.questions.wanted.notify_one();
            }
        }
        if let Command::Recalled { release, .. } = command {
            round.touched.releases.insert(release.key);
        }
        match answer {
            Ok(reply) => Ok(Decision::Reply(reply)),
            Err(NoReply::Missing(key)) => Ok(Decision::Missing(key)),
            Err(NoReply::Refused(refusal)) => Err(refusal.into()),
        }
    }

    fn warn_of_conflicts(&self, changes: &[Change]) {
        for change in changes {
            let Change::Children(children::Change::SaysOtherwise { child, differs, .. }) = change else {
                continue;
            };
            let id = self.state.children.get(*child).map_or("?", |child| child.id.as_str());
            let differs = differs.join(", ");
            tracing::warn!(child = id, differs, "two agents seem to have one id: give each an id of its own");
        }
    }

    /// Whom an operator has forgotten doesn't come back with the token that it got by joining.
    fn revoke_tokens(&self, changes: &[Change], by: &By, round: &mut Round) {
        for change in changes {
            let Change::Children(children::Change::Forgotten { id, why: Forgetting::ByOperator, .. }) =
                change
            else {
                continue;
            };
            if let Some((setting, event)) = revoked(&self.view.tokens, id.as_str(), by.note.as_deref()) {
                round.touched.keep(&setting);
                round.touched.event(&by.actor, event);
            }
        }
    }

    fn tick(&mut self, now: Now, round: &mut Round) {
        let due = self.state.next_due(now).is_some_and(|due| due <= now.served_ms);
        if due && self.ticked.elapsed() >= TICK_EVERY {
            self.ticked = Instant::now();
            let by = By { actor: Actor::Timer, note: None };
            let _ = self.decide(&Command::Tick, &by, now, round);
        }
    }

    /// Ends a round. If the store refuses the batch for good, the state is what the store has again, and each
    /// command is tried alone, so that only the guilty one fails.
    async fn finish(&mut self, mut round: Round, now: Now) -> Result<(), StoreError> {
        match self.try_finish(&mut round, now).await {
            Err(StoreError::Refused(why)) if !round.asked.is_empty() => {
                tracing::error!(%why, commands = round.asked.len(), "a batch was refused by the store");
                self.reload().await?;
                let alone = round.asked.len() == 1;
                for (asked, _) in round.asked {
                    if alone {
                        let _ = asked.answer.send(Err(EngineError::Failed));
                        continue;
                    }
                    let mut round = Round::default();
                    self.ask(asked, now, &mut round);
                    Box::pin(self.finish(round, now)).await?;
                }
                self.show(&mut round.looks);
                Ok(())
            }
            other => other,
        }
    }

    /// Back to what the store has.
    async fn reload(&mut self) -> Result<(), StoreError> {
        let mut loading = Loading::new(State::new(self.state.settings.clone()));
        self.store_writer.writer.load(&mut loading).await?;
        // What waits in the outbox is with whoever carries it out already.
        let (state, _) = loading.finish(self.clock.served_ms());
        self.state = state;
        publish_all(&self.state, &self.view);
        self.view.changed.note(Noted { all: true, ..Noted::default() });
        Ok(())
    }

    /// Commits what the round has gathered, publishes it, and answers.
    async fn try_finish(&mut self, round: &mut Round, now: Now) -> Result<(), StoreError> {
        let touched_children: Vec<ChildKey> = round.touched.children.iter().copied().collect();
        let whole: Vec<ReleaseKey> = round.touched.whole.iter().copied().collect();
        let releases: Vec<ReleaseKey> = round.touched.releases.iter().copied().collect();
        let removed = round.touched.removed.clone();
        let noted = self.view.changed.is_heard().then(|| round.touched.noted(&self.state));
        let seen = self.chores.seen_to_store(&self.state.children, &self.view, now);
        let (mut effects, mut pointers, mut audit, mut settings) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        if round.changed || !seen.is_empty() {
            let mut writes =
                std::mem::take(&mut round.touched).writes(&self.state, self.store_writer.next_seq(), now)?;
            writes.archives.extend(
                round
                    .archives
                    .iter()
                    .map(|(digest, bytes)| ArchiveRow { digest: digest.to_vec(), bytes: bytes.clone() }),
            );
            writes.outbox_done = std::mem::take(&mut round.effects_done);
            writes.pointers_gone = std::mem::take(&mut round.pointers_gone);
            writes.seen = seen;
            let began = Instant::now();
            let written = self.store_writer.commit(writes, now.served_ms).await?;
            self.gathering.committed(round.asked.len(), began.elapsed());
            (effects, pointers, audit) = (written.outbox, written.pointers, written.audit);
            settings = written.settings;
        }
        if !round.is_silent() {
            self.store_writer.hold_lease().await?;
        }
        for row in &effects {
            self.effects.send(row, now.served_ms);
        }
        for row in &pointers {
            self.effects.point(row);
        }
        for row in &settings {
            self.effects.token(row);
        }
        if !audit.is_empty() {
            let _ = self.events.send(Arc::new(audit));
        }
        for (digest, bytes) in round.archives.drain(..) {
            self.view.keep_archive(digest, bytes);
        }
        for (key, id) in &removed {
            self.view.releases.forget(id, *key);
            self.chores.remove_soon();
        }
        let closed = self.state.take_closed();
        publish(&self.state, &self.view, &touched_children, &whole, &releases, &closed).await;
        if let Some(noted) = noted {
            self.view.changed.note(noted);
        }
        for (asked, reply) in round.asked.drain(..) {
            let _ = asked.answer.send(reply);
        }
        for stored in round.stored.drain(..) {
            let _ = stored.send(());
        }
        self.show(&mut round.looks);
        Ok(())
    }

    /// Shows the state, as it is committed, to all who want to see it: one snapshot, made in no time.
    fn show(&self, looks: &mut Vec<oneshot::Sender<Arc<Snapshot>>>) {
        if looks.is_empty() {
            return;
        }
        let snapshot = Arc::new(self.state.snapshot());
        for look in looks.drain(..) {
            let _ = look.send(Arc::clone(&snapshot));
        }
    }

    /// Lets others run for a moment if more commands are likely to come, and takes those along.
    #[expect(
        clippy::disallowed_methods,
        reason = "others run in real time, wherever the manager's clock stands"
    )]
    async fn gather(
        &mut self,
        backlog: usize,
        inbox: &mut mpsc::Receiver<Envelope>,
        envelopes: &mut Vec<Envelope>,
    ) {
        let Some(wait) = self.gathering.wait(backlog) else { return };
        let taken = envelopes.len();
        // A clock that is turned by hand stands still meanwhile.
        let began = std::time::Instant::now();
        while taken + inbox.len() < wait.until.min(MAX_BATCH) && began.elapsed() < wait.limit {
            yield_now().await;
        }
        self.gathering.waited(taken, inbox.len());
        while envelopes.len() < MAX_BATCH
            && let Ok(envelope) = inbox.try_recv()
        {
            envelopes.push(envelope);
        }
    }
}

/// Runs until it is told to stop, the lease is lost, or the store refuses for good. Says `ready` once readers find
/// everything in the view.
pub(super) async fn run(
    task: Task,
    inbox: mpsc::Receiver<Envelope>,
    ready: oneshot::Sender<()>,
) -> Result<(), StoreError> {
    let (view, clock) = (Arc::clone(&task.view), task.clock.clone());
    let ended = rounds(task, inbox, ready).await;
    // Nothing is published any more: no answer may be given from now on, and nobody need wait for one.
    clock.close();
    view.waiters.wake_all();
    ended
}

async fn rounds(
    mut task: Task,
    mut inbox: mpsc::Receiver<Envelope>,
    ready: oneshot::Sender<()>,
) -> Result<(), StoreError> {
    task.view.children.listen_from(task.clock.served_ms());
    publish_all(&task.state, &task.view);
    task.store_writer.hold_lease().await?;
    let _ = ready.send(());
    let mut envelopes = Vec::with_capacity(MAX_BATCH);
    loop {
        let wake_at = task.wake_at();
        let backlog = inbox.len();
        match timeout_at(wake_at, inbox.recv_many(&mut envelopes, MAX_BATCH)).await {
            Ok(0) => break,
            Ok(_) => task.gather(backlog, &mut inbox, &mut envelopes).await,
            Err(_) => {}
        }
        let now = task.clock.now();
        task.view.children.decide_at(now.served_ms);
        let mut round = Round::default();
        for envelope in envelopes.drain(..) {
            task.take(envelope, now, &mut round);
        }
        task.tick(now, &mut round);
        let stop = round.stop.take();
        task.finish(round, now).await?;
        if let Some(done) = stop {
            task.store_writer.writer.release().await?;
            let _ = done.send(());
            return Ok(());
        }
        task.store_writer.renew().await?;
        let (retention, served_ms) = (task.settings.audit_retention, task.clock.served_ms());
        task.chores.prune(&mut task.store_writer, retention, served_ms).await;
        task.chores.remove_rows(&mut task.store_writer).await;
    }
    task.store_writer.writer.release().await
}

/// A release that is not over and names this, or will register it once it has ended well.
fn user_of(state: &State, row: &RegisteredRow, kind: Kind) -> Option<ReleaseId> {
    let open = state.releases.values().filter(|release| !release.state.is_over());
    let open = open.filter(|release| tenant_of(release.id.as_str()) == row.tenant);
    let adopts = |release: &Release| release.adopts.as_ref().is_some_and(|adopted| adopted.id == row.id);
    let mut using =
        open.filter(|release| adopts(release) || Names::of(&release.strategy).uses(kind, &row.name));
    using.next().map(|release| release.id.clone())
}

fn is_stored(change: &Change) -> bool {
    !matches!(
        change,
        Change::Members(members::Change::DeadlinesSeen { .. })
            | Change::Children(children::Change::Seen { .. } | children::Change::Paced { .. })
            | Change::Rollout(rollout::Change::TurnoutAsked { .. })
    )
}

fn count(stats: &Stats, changes: &[Change]) {
    for change in changes {
        let Change::Members(change) = change else { continue };
        match change {
            members::Change::Stepped { step: Step::Ended { outcome: Outcome::Lost, .. }, .. } => {
                Stats::count(&stats.lost_results);
            }
            members::Change::LateKept { .. } => Stats::count(&stats.late_results),
            members::Change::Joined { .. }
            | members::Change::DeadlinesSeen { .. }
            | members::Change::Stepped { .. }
            | members::Change::Numbers { .. }
            | members::Change::Deployed { .. } => {}
        }
    }
}
