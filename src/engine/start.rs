//! The engine is started on what the store holds.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    clock::Clock,
    effect::{PendingEffect, ToParent, Webhook},
    handle::Engine,
    json_columns,
    load::Loading,
    mailbox::MAILBOX,
    outbox::Effects,
    settings::{Setting, child_of, is_identity, is_offer_key, tenant_of},
    task::{self, Settings, Task},
    view::{OfferKey, View},
};
use domain::release::{settings::Settings as Rules, state::State};
use store::{Reader, StoreError, Writer};

/// Commits that a slow listener to events may lag behind before it must read the store.
const EVENT_BACKLOG: usize = 1_024;

/// An engine that was started, and the task that ends when it stops.
#[derive(Debug)]
pub struct RunningEngine {
    pub engine: Engine,
    /// Ends with an error if the lease was lost or the store is beyond repair.
    pub task: JoinHandle<Result<(), StoreError>>,
    /// Effects to be carried out: first those that an earlier life has left, then those of each commit.
    pub effects: mpsc::UnboundedReceiver<PendingEffect<Webhook>>,
    /// Effects that concern the parent, in the same order.
    pub to_parent: mpsc::UnboundedReceiver<PendingEffect<ToParent>>,
}

/// Loads the store's state and starts the engine on it. When this returns, every call is answered as it would be later.
pub fn start(
    writer: Box<dyn Writer>,
    reader: Arc<dyn Reader>,
    rules: Rules,
    settings: Settings,
) -> BoxFuture<'static, Result<RunningEngine, StoreError>> {
    Box::pin(load_and_start(writer, reader, rules, settings))
}

async fn load_and_start(
    mut writer: Box<dyn Writer>,
    reader: Arc<dyn Reader>,
    rules: Rules,
    settings: Settings,
) -> Result<RunningEngine, StoreError> {
    let proven = rules.proven.clone();
    let mut loading = Loading::new(State::new(rules));
    writer.load(&mut loading).await?;
    let clock = Clock::start(settings.clock, writer.lease().served_ms);
    let (state, beside) = loading.finish(clock.served_ms());
    let view = Arc::new(View::default());
    let (mailbox, inbox) = mpsc::channel(MAILBOX);
    let (events, _) = broadcast::channel(EVENT_BACKLOG);
    let (webhooks, to_do) = mpsc::unbounded_channel();
    let (parent_sender, to_parent) = mpsc::unbounded_channel();
    let effects = Effects { webhooks, to_parent: parent_sender, view: Arc::clone(&view), proven };
    for row in &beside.outbox {
        effects.send(row, clock.served_ms());
    }
    for row in &beside.pointers {
        effects.point(row);
    }
    for error in &beside.unreadable {
        view.stats.unreadable.note(error);
    }
    let is_of_callers = |row: &&store::rows::SettingRow| child_of(row).is_some() || tenant_of(row).is_some();
    let (tokens, kept): (Vec<_>, Vec<_>) = beside.settings.iter().partition(is_of_callers);
    for row in tokens {
        effects.token(row);
    }
    let kept_key =
        kept.iter().find(|row| is_offer_key(row)).map(|row| json_columns::offer_key(row)).transpose()?;
    let fresh_key = kept_key.is_none().then(|| fresh_offer_key(&state));
    for key in kept_key.iter().chain(&fresh_key) {
        view.releases.keep_secret(key.clone());
    }
    for row in kept.into_iter().filter(|row| !is_offer_key(row)) {
        match view.kept.load(row) {
            Ok(()) => {}
            Err(error) if is_identity(row) => return Err(error),
            Err(error) => view.stats.unreadable.note(&error),
        }
    }
    let task = Task::new(state, writer, Arc::clone(&view), clock.clone(), events.clone(), effects, settings);
    let engine = Engine { mailbox, events, view, reader, clock, remembered: Arc::default() };
    let (ready, is_ready) = oneshot::channel();
    let task = tokio::spawn(task::run(task, inbox, ready));
    let ended = || StoreError::Unavailable("the engine ended".into());
    if is_ready.await.is_err() {
        return Err(task.await.unwrap_or(Ok(())).err().unwrap_or_else(ended));
    }
    let fresh_id = engine.view.kept.identity().is_empty().then(fresh_identity);
    let fresh = fresh_id.clone().map(Setting::Identity).into_iter().chain(fresh_key.map(Setting::OfferKey));
    for setting in fresh {
        if engine.keep(setting).await.is_err() {
            return Err(task.await.unwrap_or(Ok(())).err().unwrap_or_else(ended));
        }
    }
    if let Some(id) = fresh_id {
        engine.view.kept.name_self(id);
    }
    Ok(RunningEngine { engine, task, effects: to_do, to_parent })
}

#[expect(clippy::disallowed_methods, reason = "once in the life of a store, and nothing else depends on it")]
fn fresh_identity() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Nobody has been offered anything by it before it is stored.
fn fresh_offer_key(state: &State) -> OfferKey {
    let key = fresh_identity() + &fresh_identity();
    OfferKey { key, after: state.known.values().map(|known| known.key).max() }
}
