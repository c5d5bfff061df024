//! The task that runs the link.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    task::{AbortHandle, Id, JoinSet},
    time::{Instant, sleep_until},
};

use super::{CallTrouble, PATIENCE, ParentCaller, call::Own};
use crate::{
    By, Engine, EngineError,
    audit::Actor,
    effect::{Entry, ParentStageResult, PendingEffect, ToParent},
    questions,
    settings::{Enrolled, Setting},
};
use domain::{
    parent::{
        self as link, Act, Answer, Below, Call, CallId, Errand, Link, LinkInputs, Notice, Question, Row,
        Survey,
    },
    release::{command::Command, parent, state::Snapshot},
};
use protocol::{child, question::QuestionAnswer};
use store::rows::AuditRow;

/// Commits are looked at no more often: one that follows another closely waits for the next look.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Facts are never older, even if no commit told of a change.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(3);

/// Questions of the parent that are answered at once; more wait until they time out.
const MAX_ANSWERING: usize = 64;

/// How a task ended.
enum Ended {
    Call(CallId, Result<Answer, CallTrouble>),
    Looked(Result<Below, CallTrouble>),
    /// A question of the parent.
    Answered(String),
}

/// The engine is gone.
struct Gone;

impl From<EngineError> for Gone {
    fn from(_: EngineError) -> Self {
        Self
    }
}

pub(super) struct Driver {
    caller: Arc<ParentCaller>,
    link: Link,
    began: Instant,
    owed: mpsc::UnboundedReceiver<PendingEffect<ToParent>>,
    events: broadcast::Receiver<Arc<Vec<AuditRow>>>,
    tasks: JoinSet<Ended>,
    /// So that a call can be given up, and so that one that broke off is known.
    calls: HashMap<CallId, AbortHandle>,
    results: HashMap<Row, Arc<ParentStageResult>>,
    /// Questions of the parent that are being answered.
    answering: HashMap<String, AbortHandle>,
    below: Arc<Below>,
    /// Something may have changed below since the last look.
    is_below_stale: bool,
    is_looking: bool,
    look_below_at: Instant,
    facts_at: Instant,
    /// A commit came after the last look.
    is_stale: bool,
}

impl Driver {
    /// `id`: the one that the parent gave.
    pub fn new(
        caller: Arc<ParentCaller>,
        id: Option<String>,
        owed: mpsc::UnboundedReceiver<PendingEffect<ToParent>>,
    ) -> Self {
        let settings = link::Settings {
            poll_ms: caller.settings.poll.as_millis() as u64,
            own_id: caller.engine.view().kept.identity().to_owned(),
            seed: rand::random(),
        };
        let now = Instant::now();
        let mut link = Link::new(settings, 0);
        if let Some(id) = id {
            link.note_enrolled(id);
        }
        Self {
            link,
            began: now,
            owed,
            events: caller.engine.events(),
            caller,
            tasks: JoinSet::new(),
            calls: HashMap::new(),
            results: HashMap::new(),
            answering: HashMap::new(),
            below: Arc::new(Below::default()),
            is_below_stale: true,
            is_looking: false,
            look_below_at: now,
            facts_at: now,
            is_stale: true,
        }
    }

    pub async fn run(mut self) {
        while self.turn().await.is_ok() {}
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Does all that is to be done now, and waits for the next thing.
    async fn turn(&mut self) -> Result<(), Gone> {
        self.look_below();
        if self.look_at() <= Instant::now() {
            self.look().await?;
        }
        while let Some(act) = self.link.next_act(self.now()) {
            self.carry_out(act).await?;
        }
        self.caller.engine.view().lineage.link.set(self.link.is_up(), self.link.unsent());
        if self.caller.id().as_deref() != self.link.id() {
            *self.caller.id() = self.link.id().map(str::to_owned);
        }
        let wake = self.wake();
        tokio::select! {
            () = sleep_until(wake) => {}
            row = self.owed.recv() => {
                self.take(row.ok_or(Gone)?);
                self.look().await?;
            }
            committed = self.events.recv() => self.notice(committed)?,
            Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => match ended {
                Ok((_, Ended::Call(call, answer))) => self.answered(call, answer).await?,
                Ok((_, Ended::Looked(below))) => self.looked(below)?,
                Ok((_, Ended::Answered(question))) => {
                    self.answering.remove(&question);
                }
                Err(error) => self.broke_off(&error),
            }
        }
        Ok(())
    }

    fn wake(&self) -> Instant {
        let link = self.link.wakes_at().map(|at| self.began + Duration::from_millis(at));
        let below = (self.is_below_stale && !self.is_looking).then_some(self.look_below_at);
        [Some(self.look_at()), link, below].into_iter().flatten().min().unwrap_or(self.look_at())
    }

    /// When the facts are to be looked at.
    fn look_at(&self) -> Instant {
        self.facts_at + if self.is_stale { LOOK_EVERY } else { LOOK_AT_LEAST_EVERY }
    }

    /// Looks at the state. Results that were owed before that look are known to the link with it.
    async fn look(&mut self) -> Result<(), Gone> {
        let facts = self.caller.engine.read(PATIENCE, LinkInputs::of).await;
        (self.facts_at, self.is_stale) = (Instant::now(), false);
        match facts {
            Ok(facts) => {
                while let Ok(row) = self.owed.try_recv() {
                    self.take(row);
                }
                let now = self.now();
                self.link.note_facts(facts, now);
                Ok(())
            }
            Err(EngineError::Stopped) => Err(Gone),
            // It is busy: later.
            Err(_) => Ok(()),
        }
    }

    /// Takes an entry of the outbox over.
    fn take(&mut self, due: PendingEffect<ToParent>) {
        let age_ms = due.age_ms(self.caller.engine.clock().served_ms());
        match due.what {
            ToParent::Taking(offer) => self.link.note_taking(due.row, offer),
            ToParent::Owed(owed) => {
                let now = self.now();
                self.link.note_owed(due.row, owed.offer.clone(), age_ms, now);
                self.results.insert(due.row, Arc::from(owed));
            }
        }
    }

    /// Finds out whether a child came, went, moved or reported something else.
    fn notice(&mut self, committed: Result<Arc<Vec<AuditRow>>, RecvError>) -> Result<(), Gone> {
        match committed {
            Ok(rows) => self.is_below_stale |= rows.iter().any(|row| row.release_key.is_none()),
            Err(RecvError::Lagged(_)) => self.is_below_stale = true,
            Err(RecvError::Closed) => return Err(Gone),
        }
        self.is_stale = true;
        Ok(())
    }

    fn look_below(&mut self) {
        if !self.is_below_stale || self.is_looking || Instant::now() < self.look_below_at {
            return;
        }
        (self.is_below_stale, self.is_looking) = (false, true);
        let (engine, own) = (self.caller.engine.clone(), self.caller.settings.service_area.clone());
        self.tasks.spawn(async move { Ended::Looked(look_below(&engine, own).await) });
    }

    fn looked(&mut self, below: Result<Below, CallTrouble>) -> Result<(), Gone> {
        self.is_looking = false;
        self.look_below_at = Instant::now() + self.caller.settings.poll;
        match below {
            Ok(below) if below == *self.below => {}
            Ok(below) => {
                self.below = Arc::new(below);
                self.link.note_below(self.below.area(false).is_some());
            }
            Err(CallTrouble::Engine(EngineError::Stopped)) => return Err(Gone),
            Err(error) => {
                tracing::warn!(%error, "the children could not be looked at; tried again");
                self.is_below_stale = true;
            }
        }
        Ok(())
    }

    async fn answered(&mut self, call: CallId, answer: Result<Answer, CallTrouble>) -> Result<(), Gone> {
        self.calls.remove(&call);
        if matches!(answer, Err(CallTrouble::Engine(EngineError::Stopped))) {
            return Err(Gone);
        }
        self.look().await?;
        let now = self.now();
        if matches!(answer, Ok(Answer::Polled(_))) {
            let served_ms = self.caller.engine.clock().served_ms();
            self.caller.engine.view().lineage.link.answered(served_ms);
        }
        self.link.note_answer(call, answer.map_err(link::Trouble::from), now);
        Ok(())
    }

    /// A task that panicked; one that was given up is no news.
    fn broke_off(&mut self, error: &tokio::task::JoinError) {
        let found = self.calls.iter().find(|(_, task)| task.id() == error.id()).map(|(call, _)| *call);
        if let Some(call) = found {
            self.calls.remove(&call);
            tracing::error!(%error, "a call to the parent broke off");
            let now = self.now();
            self.link.note_answer(call, Err(link::Trouble::Passing("it broke off".to_owned())), now);
        } else if let Some(question) = self.question_of(error.id()) {
            self.answering.remove(&question);
            tracing::error!(%error, "the answer to a question of the parent broke off");
        } else if !error.is_cancelled() {
            tracing::error!(%error, "the look at the children broke off");
            (self.is_looking, self.is_below_stale) = (false, true);
        }
    }

    fn question_of(&self, task: Id) -> Option<String> {
        let found = self.answering.iter().find(|(_, answering)| answering.id() == task);
        found.map(|(question, _)| question.clone())
    }

    /// Answers what the parent asks while everything else goes on. What is asked again meanwhile is answered once.
    fn answer(&mut self, asked: Vec<Question>) {
        let Some(id) = self.link.id().map(str::to_owned) else { return };
        for question in asked {
            if self.answering.len() >= MAX_ANSWERING || self.answering.contains_key(&question.id) {
                continue;
            }
            let (caller, id, name) = (Arc::clone(&self.caller), id.clone(), question.id.clone());
            let task = self.tasks.spawn(async move {
                let asked = question.id.clone();
                caller.answer(&id, question).await;
                Ended::Answered(asked)
            });
            self.answering.insert(name, task);
        }
    }

    async fn carry_out(&mut self, act: Act) -> Result<(), Gone> {
        let engine = &self.caller.engine;
        match act {
            Act::Call(id, call) => self.call(id, call),
            Act::GiveUp(call) => {
                if let Some(task) = self.calls.remove(&call) {
                    task.abort();
                }
            }
            Act::Enroll(id) => {
                let enrolled = Enrolled { url: self.caller.settings.url.clone(), id };
                engine.keep(Setting::Enrolled(enrolled.clone())).await?;
                self.link.note_enrolled(enrolled.id);
                self.look().await?;
            }
            Act::Note { offer } => engine.effect(Entry::Parent(ToParent::Taking(offer))).await?,
            Act::Done(rows) => {
                for row in &rows {
                    self.results.remove(row);
                }
                engine.effects_done(rows).await?;
            }
            Act::End { release, stage, undo } => {
                let release = release.as_str().to_owned();
                command(engine, Command::Parent(parent::Command::End { release, stage, undo })).await?;
                self.look().await?;
            }
            Act::Skip { release, stage } => {
                let release = release.as_str().to_owned();
                command(engine, Command::Parent(parent::Command::Skip { release, stage })).await?;
                self.look().await?;
            }
            Act::Accept { release, failures } => {
                let release = release.as_str().to_owned();
                command(engine, Command::Parent(parent::Command::Accept { release, failures })).await?;
                self.look().await?;
            }
            Act::Hold { release, hold } => {
                let release = release.as_str().to_owned();
                command(engine, Command::Parent(parent::Command::Hold { release, hold })).await?;
                self.look().await?;
            }
            Act::Answer(asked) => self.answer(asked),
            Act::Disown { release, why } => {
                tracing::error!(release = release.as_str(), why, "what came from the parent is taken back");
                let release = release.as_str().to_owned();
                command(engine, Command::Parent(parent::Command::Disowned { release, why })).await?;
                self.look().await?;
            }
            Act::Lineage(above) => engine.view().lineage.set_above(above),
            Act::Say(said) => say(&self.caller.settings.url, said),
        }
        Ok(())
    }

    fn call(&mut self, id: CallId, call: Call) {
        let (caller, below) = (Arc::clone(&self.caller), Arc::clone(&self.below));
        let owed = match &call {
            Call::Result { row, .. } => self.results.get(row).cloned(),
            Call::Poll(_) | Call::Take { .. } | Call::Ready(_) | Call::Interim(_) | Call::EndStage { .. } => {
                None
            }
        };
        let task = self.tasks.spawn(async move { Ended::Call(id, caller.make(call, &below, owed).await) });
        self.calls.insert(id, task);
    }
}

/// Looks at all children.
async fn look_below(engine: &Engine, service_area: Option<String>) -> Result<Below, CallTrouble> {
    let look = |state: &Snapshot| Survey::of(&state.children);
    let seen = engine.read_apart(PATIENCE, look).await?;
    Ok(tokio::task::spawn_blocking(move || seen.finish(service_area.as_deref()))
        .await
        .map_err(|_| EngineError::Failed)?)
}

impl ParentCaller {
    /// Answers a question, or says why not. If that doesn't reach the parent, it does without.
    async fn answer(&self, id: &str, question: Question) {
        let Question { id: asked, kind, within_ms, body } = question;
        let said = questions::answer(&self.engine, &kind, &body, Duration::from_millis(within_ms)).await;
        let answered = match said {
            Ok(body) => QuestionAnswer { id: asked, body, error: None },
            Err(why) => QuestionAnswer { id: asked, body: serde_json::Value::Null, error: Some(why) },
        };
        if let Err(error) = self.parent.answers(id, vec![answered]).await {
            tracing::debug!(kind, %error, "an answer didn't reach the parent");
        }
    }

    async fn make(
        &self,
        call: Call,
        below: &Below,
        owed: Option<Arc<ParentStageResult>>,
    ) -> Result<Answer, CallTrouble> {
        match call {
            Call::Poll(poll) => {
                let settings = &self.settings;
                let own = Own { name: settings.name.as_deref(), public_url: settings.public_url.as_deref() };
                Ok(Answer::Polled(self.parent.poll(&poll, own, below).await?))
            }
            Call::Take { id, offer, attempt } => {
                self.take(&id, &offer, attempt).await?;
                Ok(Answer::Taken)
            }
            Call::Result { id, .. } => {
                if let Some(owed) = owed {
                    self.send_result(&id, &owed).await?;
                }
                Ok(Answer::Reported)
            }
            Call::Ready(told) => {
                self.tell_waiting(told).await?;
                Ok(Answer::Reported)
            }
            Call::Interim(told) => {
                self.tell_interim(told).await?;
                Ok(Answer::Reported)
            }
            Call::EndStage { id, offer, name, skipped, failures, wait_ms } => {
                let answer = self.parent.end_stage(&id, &offer, &name, (skipped, failures), wait_ms).await?;
                let undo = answer.then == Some(child::FollowUp::Rollback);
                let (end, skip, accepted) = (answer.end_stage, answer.skip, answer.accepted);
                Ok(Answer::EndStage { end, undo, skip, accepted })
            }
        }
    }
}

/// A refusal is final and changes nothing; while the engine is busy the parent will be asked again.
async fn command(engine: &Engine, command: Command) -> Result<(), Gone> {
    let by = By { actor: Actor::Parent, note: None };
    match engine.call(command, by, PATIENCE).await {
        Ok(_) => Ok(()),
        Err(EngineError::Stopped) => Err(Gone),
        Err(error) => {
            tracing::warn!(%error, "what the parent asked for was not done");
            Ok(())
        }
    }
}

fn say(parent: &str, said: Notice) {
    match said {
        Notice::Works(Errand::Poll) => tracing::info!(parent, "the parent is reached"),
        Notice::Works(errand) => tracing::info!(parent, ?errand, "the parent takes it again"),
        Notice::Fails { errand: Errand::Poll, why } => {
            tracing::warn!(parent, why, "trouble with the parent; tried again");
        }
        Notice::Fails { errand, why } => {
            tracing::warn!(parent, ?errand, why, "trouble with the parent; tried again");
        }
        Notice::Registered { id } => tracing::info!(parent, id, "registered with the parent"),
        Notice::Forgotten { id } => {
            tracing::warn!(parent, id, "the parent doesn't know this manager any more; it asks for a new id");
        }
        Notice::ResultRefused { offer, status, text } => {
            tracing::warn!(offer, status, text, "the parent refuses a result; it is sent again");
        }
        Notice::ResultGivenUp { offer, status, text } => {
            tracing::error!(offer, status, text, "the parent refuses a result; it is given up");
        }
        Notice::NotAwaited { offer, stage, status, text } => {
            tracing::warn!(offer, stage, status, text, "the parent doesn't wait for this stage");
        }
        Notice::Cycle => {
            tracing::error!(
                parent,
                "this manager is above its own parent; no offer is taken: change `parent.url`"
            );
        }
        Notice::TooDeep { above } => {
            tracing::error!(
                parent,
                above,
                limit = link::MAX_DEPTH,
                "too many managers above; no offer is taken"
            );
        }
        Notice::Straight => tracing::info!(parent, "the managers above are in order again"),
    }
}
