//! The one task that writes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::yield_now,
    time::{Instant, sleep, timeout_at},
};

use super::{
    audit::Actor,
    clock::{Clock, ClockSource, Sent},
    gather::Gathering,
    handle::{By, Effects, EngineError, Envelope, Heard, NamedArchive},
    load::Loading,
    stats::Stats,
    touched::Touched,
    trouble::Trouble,
    view::{MAX_RELEASES, View},
};
use heart::children;
use heart::release::{
    advance,
    change::Change,
    command::{Command, NoReply, Refusal, Reply},
    lifecycle, members, rollout,
    state::{Release, Snapshot, State},
};
use model::{ChildKey, Now, ReleaseKey};
use store::{
    LEASE_RENEWAL, Pruning, StoreError, Writer,
    rows::{ArchiveRow, AuditRow, Batch},
};

/// Most commands in one commit.
const MAX_BATCH: usize = 1_024;

/// Deadlines are looked at no more often.
const TICK_EVERY: Duration = Duration::from_millis(200);

/// Between two attempts of a commit that failed.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

/// Children published before others get a turn on this thread.
const PUBLISH_SLICE: usize = 1_000;

/// The time of a child's last call is stored at most once in this time.
const SEEN_EVERY: Duration = Duration::from_mins(5);

/// Looks for last calls to store this often.
const SEEN_SWEEP: Duration = Duration::from_secs(30);

/// Most last calls stored in one commit, and the time between two such commits: a small part of what commits carry, and
/// all children are looked at in time up to a million of them.
const SEEN_SLICE: usize = 500;
const SEEN_PACE: Duration = Duration::from_millis(100);

/// Old audit rows are removed this often, at most so many at once, and where there are more the next ones soon after: more
/// may be written in a minute.
const PRUNE_EVERY: Duration = Duration::from_mins(1);
const PRUNE_SLICE: u32 = 5_000;
const PRUNE_PACE: Duration = Duration::from_secs(1);

/// Most rows of removed releases that go at once, and the time until the next go if there are more.
const REMOVE_SLICE: u32 = 2_000;
const REMOVE_PACE: Duration = Duration::from_secs(1);

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
    writer: Box<dyn Writer>,
    view: Arc<View>,
    clock: Clock,
    events: broadcast::Sender<Arc<Vec<AuditRow>>>,
    effects: Effects,
    settings: Settings,
    seq: u64,
    renewed: Instant,
    ticked: Instant,
    swept: Instant,
    prune_at: Instant,
    /// When it is looked at next whether rows of removed releases are left.
    remove_at: Instant,
    sweep_at: u32,
    gathering: Gathering,
    trouble: Trouble,
}

/// A command in hand, kept until its batch is committed: if the store refuses the batch, each is tried alone.
struct PendingCommand {
    command: Arc<Command>,
    by: By,
    archive: Option<NamedArchive>,
    answer: oneshot::Sender<Result<Heard, EngineError>>,
}

/// What one round of the task has gathered.
#[derive(Default)]
struct Round {
    touched: Touched,
    changed: bool,
    asked: Vec<(PendingCommand, Result<Heard, EngineError>)>,
    /// Who wants to see the state once this is committed.
    looks: Vec<oneshot::Sender<Arc<Snapshot>>>,
    archives: Vec<NamedArchive>,
    effects_done: Vec<u64>,
    pointers_gone: Vec<u64>,
    /// Who waits for the commit alone.
    stored: Vec<oneshot::Sender<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Round {
    /// Whether nobody learns anything from it.
    fn is_silent(&self) -> bool {
        !self.changed && self.asked.is_empty() && self.looks.is_empty()
    }
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
        let seq = writer.lease().seq;
        let now = Instant::now();
        let (renewed, ticked, swept, prune_at) = (now, now, now, now + PRUNE_EVERY);
        Self {
            state,
            writer,
            view,
            clock,
            events,
            effects,
            settings,
            seq,
            renewed,
            ticked,
            swept,
            prune_at,
            remove_at: now,
            sweep_at: 0,
            gathering: Gathering::default(),
            trouble: Trouble::default(),
        }
    }

    fn publish_all(&self) {
        for (id, known) in &self.state.known {
            self.view.releases.know(id, known.key);
        }
        for key in self.state.releases.keys() {
            self.view.publish_release(&self.state, *key);
        }
        for (key, _) in self.state.children.iter() {
            self.view.children.publish(&self.state, key);
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
        let renewal = self.renewed + LEASE_RENEWAL;
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
            Envelope::Keep { setting, stored } => {
                round.changed = true;
                round.touched.keep(&setting);
                round.stored.push(stored);
            }
            Envelope::Effect { entry, stored } => {
                round.changed = true;
                round.touched.effect(&entry);
                round.stored.push(stored);
            }
            Envelope::Stop(done) => round.stop = Some(done),
        }
    }

    fn ask(&mut self, asked: PendingCommand, now: Now, round: &mut Round) {
        let reply = self.decide(&asked.command, &asked.by, now, round);
        if matches!(reply, Ok(Heard::Reply(Reply::Submitted { created: true, .. })))
            && !matches!(*asked.command, Command::Lifecycle(lifecycle::Command::Submit { dry_run: true, .. }))
        {
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
    ) -> Result<Heard, EngineError> {
        if matches!(command, Command::Lifecycle(lifecycle::Command::Submit { .. }))
            && self.state.next_release >= MAX_RELEASES
        {
            let limit = MAX_RELEASES as usize;
            return Err(Refusal::Limit { what: "releases of one store", limit }.into());
        }
        Stats::count(&self.view.stats.commands);
        let (changes, answer) = advance(&mut self.state, self.view.children.as_ref(), command, now);
        if !changes.is_empty() {
            round.changed |= changes.iter().any(is_stored);
            round.touched.note(&self.state, &changes, &by.actor, by.note.as_deref(), now);
            round.touched.effects(&self.state, &changes, &self.settings.webhooks);
            count(&self.view.stats, &changes);
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
            Ok(reply) => Ok(Heard::Reply(reply)),
            Err(NoReply::Missing(key)) => Ok(Heard::Missing(key)),
            Err(NoReply::Refused(refusal)) => Err(refusal.into()),
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
        self.writer.load(&mut loading).await?;
        // What waits in the outbox is with whoever carries it out already.
        let (state, _) = loading.finish(self.clock.served_ms());
        self.state = state;
        self.publish_all();
        Ok(())
    }

    /// Commits what the round has gathered, publishes it, and answers.
    async fn try_finish(&mut self, round: &mut Round, now: Now) -> Result<(), StoreError> {
        let touched_children: Vec<ChildKey> = round.touched.children.iter().copied().collect();
        let whole: Vec<ReleaseKey> = round.touched.whole.iter().copied().collect();
        let releases: Vec<ReleaseKey> = round.touched.releases.iter().copied().collect();
        let removed = round.touched.removed.clone();
        let seen = self.seen_to_store(now);
        let (mut effects, mut pointers, mut audit) = (Vec::new(), Vec::new(), Vec::new());
        if round.changed || !seen.is_empty() {
            let mut writes = std::mem::take(&mut round.touched).writes(&self.state, self.seq, now)?;
            writes.archives.extend(
                round
                    .archives
                    .iter()
                    .map(|(digest, bytes)| ArchiveRow { digest: digest.to_vec(), bytes: bytes.clone() }),
            );
            writes.outbox_done = std::mem::take(&mut round.effects_done);
            writes.pointers_gone = std::mem::take(&mut round.pointers_gone);
            writes.seen = seen;
            let epoch = self.writer.lease().epoch;
            let batch = Batch { epoch, seq: self.seq, served_ms: now.served_ms, writes };
            let began = Instant::now();
            self.commit(&batch).await?;
            self.gathering.committed(round.asked.len(), began.elapsed());
            self.seq += 1;
            (effects, pointers, audit) = (batch.writes.outbox, batch.writes.pointers, batch.writes.audit);
        }
        if !round.is_silent() {
            self.hold_lease().await?;
        }
        for row in &effects {
            self.effects.send(row, now.served_ms);
        }
        for row in &pointers {
            self.effects.point(row);
        }
        if !audit.is_empty() {
            let _ = self.events.send(Arc::new(audit));
        }
        for (digest, bytes) in round.archives.drain(..) {
            self.view.keep_archive(digest, bytes);
        }
        for (key, id) in &removed {
            self.view.releases.forget(id, *key);
            self.remove_at = Instant::now();
        }
        let closed = self.state.take_closed();
        publish(&self.state, &self.view, &touched_children, &whole, &releases, &closed).await;
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

    /// Commits until the store says that it is done, or that it never will be.
    async fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let began = Instant::now();
        loop {
            let sent = self.clock.sending();
            match self.writer.commit(batch).await {
                Ok(()) => {
                    self.view.stats.committed(began.elapsed());
                    self.renewed(sent);
                    self.trouble.over(&self.view);
                    return Ok(());
                }
                Err(error) if error.passes() => {
                    Stats::count(&self.view.stats.commit_retries);
                    self.trouble.met(&self.view, &error, Instant::now());
                    sleep(COMMIT_RETRY).await;
                }
                Err(error) => {
                    tracing::error!(seq = batch.seq, %error, "a commit was refused; nothing of it is kept");
                    return Err(error);
                }
            }
        }
    }

    fn renewed(&mut self, sent: Sent) {
        self.renewed = Instant::now();
        self.clock.renewed(sent);
    }

    /// Returns while the lease is fresh. It is not after a standstill, of this process or of the store: then another
    /// manager may have taken it, and what is in memory here, even what was committed just before, may be out of date.
    async fn hold_lease(&mut self) -> Result<(), StoreError> {
        while !self.clock.is_serving() {
            self.try_renew().await?;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        if self.renewed.elapsed() < LEASE_RENEWAL {
            return Ok(());
        }
        self.try_renew().await
    }

    /// Renews the lease, or waits a moment where the store does not answer.
    async fn try_renew(&mut self) -> Result<(), StoreError> {
        let sent = self.clock.sending();
        match self.writer.renew(self.clock.served_ms()).await {
            Ok(()) => {
                self.renewed(sent);
                self.trouble.over(&self.view);
            }
            Err(error) if error.passes() => {
                self.trouble.met(&self.view, &error, Instant::now());
                sleep(COMMIT_RETRY).await;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next slice of last calls that are to be stored.
    fn seen_to_store(&mut self, now: Now) -> Vec<(u32, i64)> {
        let pause = if self.sweep_at == 0 { SEEN_SWEEP } else { SEEN_PACE };
        if self.swept.elapsed() < pause {
            return Vec::new();
        }
        self.swept = Instant::now();
        let every = SEEN_EVERY.as_millis() as u64;
        let from = self.sweep_at.checked_sub(1).map(ChildKey);
        let mut seen = Vec::new();
        self.sweep_at = 0;
        for (looked, (key, _)) in self.state.children.after(from).enumerate() {
            if looked >= SEEN_SLICE {
                break;
            }
            self.sweep_at = key.0 + 1;
            if let Some(served) = self.view.children.entry(key).and_then(|entry| entry.seen_to_store(every)) {
                let ago = now.served_ms.saturating_sub(served).cast_signed();
                seen.push((key.0, now.wall_ms - ago));
            }
        }
        if self.state.children.after(self.sweep_at.checked_sub(1).map(ChildKey)).next().is_none() {
            self.sweep_at = 0;
        }
        seen
    }

    async fn prune(&mut self) {
        if Instant::now() < self.prune_at {
            return;
        }
        let retention_ms = self.settings.audit_retention.as_millis() as u64;
        let pruning = Pruning { served_ms: self.clock.served_ms(), retention_ms, limit: PRUNE_SLICE };
        let gone = self.writer.prune_audit(pruning).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "old audit rows could not be removed");
            0
        });
        self.prune_at = Instant::now() + prune_again(gone);
    }

    /// A part of the rows of releases that have left the history.
    async fn remove_rows(&mut self) {
        if Instant::now() < self.remove_at {
            return;
        }
        let pause = match self.writer.prune_history(REMOVE_SLICE).await {
            Ok(gone) if gone == u64::from(REMOVE_SLICE) => REMOVE_PACE,
            Ok(_) => PRUNE_EVERY,
            Err(error) => {
                tracing::warn!(%error, "rows of old releases could not be removed");
                PRUNE_EVERY
            }
        };
        self.remove_at = Instant::now() + pause;
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
    task.publish_all();
    task.hold_lease().await?;
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
            task.writer.release().await?;
            let _ = done.send(());
            return Ok(());
        }
        task.renew().await?;
        task.prune().await;
        task.remove_rows().await;
    }
    task.writer.release().await
}

/// Shows readers what a commit has made true.
async fn publish(
    state: &State,
    view: &View,
    children: &[ChildKey],
    whole: &[ReleaseKey],
    releases: &[ReleaseKey],
    closed: &BTreeMap<ReleaseKey, Release>,
) {
    for key in releases.iter().chain(closed.keys()) {
        view.publish_release(state, *key);
    }
    // One without participants is over in the commit that made it, and known all the same.
    for (key, release) in closed {
        view.releases.know(&release.id, *key);
    }
    view.releases.publish_places(state);
    for key in children {
        view.children.publish(state, *key);
    }
    for key in whole {
        let Some(release) = state.release(*key).or_else(|| closed.get(key)) else { continue };
        for (place, child) in release.assignments.keys().enumerate() {
            view.children.publish(state, *child);
            if place % PUBLISH_SLICE == PUBLISH_SLICE - 1 {
                yield_now().await;
            }
        }
    }
}

/// When to remove the next old audit rows, after so many.
const fn prune_again(gone: u64) -> Duration {
    if gone < PRUNE_SLICE as u64 { PRUNE_EVERY } else { PRUNE_PACE }
}

fn is_stored(change: &Change) -> bool {
    !matches!(
        change,
        Change::Members(members::Change::DeadlinesSeen { .. })
            | Change::Children(children::Change::Seen { .. })
            | Change::Rollout(rollout::Change::TurnoutAsked { .. })
    )
}

fn count(stats: &Stats, changes: &[Change]) {
    use heart::release::assignment::Step;
    use model::Outcome;
    for change in changes {
        match change {
            Change::Members(members::Change::Stepped {
                step: Step::Ended { outcome: Outcome::Lost, .. },
                ..
            }) => {
                Stats::count(&stats.lost_results);
            }
            Change::Members(members::Change::LateKept { .. }) => Stats::count(&stats.late_results),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_audit_rows_can_be_removed_than_are_written() {
        // With every commit one, and commits as fast as the fastest store makes them.
        let removed_in_a_minute = u64::from(PRUNE_SLICE) * (60 / prune_again(PRUNE_SLICE.into()).as_secs());
        assert!(removed_in_a_minute >= 60 * 2_000);
        assert_eq!(prune_again(u64::from(PRUNE_SLICE) - 1), PRUNE_EVERY);
    }
}
