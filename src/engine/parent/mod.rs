//! This manager as its parent's child: the driver of [`domain::parent`], with its network, store and engine.
//!
//! One task runs the link; each call to the parent has a task of its own. What the parent is told follows from the state
//! and from the store, and what must be sent lies in the outbox, so a crash at any place only leads to a call that is
//! made again.
//!
//! ```text
//! /poll ─▶ offer ─▶ noted in the outbox ─▶ /release, /functions ─▶ Submit ─▶ noted as done
//! a stage is over here ─▶ outbox, in the same commit ─▶ aggregate from the store ─▶ /result ─▶ noted as done
//! /placements ─▶ what the parent has placed here, each in a workflow of its own ─▶ placed on the nodes below
//! every child is ready ─▶ /result (SuccessWaiting) ─▶ /end_stage … true ─▶ ParentEnd
//! ```
//!
//! Invariants:
//! - the link never decides on facts that are older than the answer it decides about;
//! - what a call needs of the state is read when it is made, not when it was planned;
//! - nothing that the parent answers is believed to be small, whole or sensible.
//!
//! The parent may be the plain system: everything beyond the plain protocol is left to those who understand it.
//! Deliberately not here: when to say what ([`domain::parent`]), how a release from above is led
//! ([`domain::release::parent`]).

mod call;
mod download;
mod driver;
pub mod forward;
pub mod lineage;
mod offer;
pub mod placements;
mod report;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{call::Parent, driver::Driver};
use crate::{
    Engine, EngineError,
    effect::{PendingEffect, ToParent},
    identity::Enrolment,
};
use child_client::LinkError;
use domain::parent as link;
use language::functions;
use store::StoreError;

/// How long the engine may take for a command of this task.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an operator sets of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://HOST:PORT`.
    pub url: String,
    pub token: Option<String>,
    /// Shown at the parent.
    pub name: Option<String>,
    pub poll: Duration,
    /// GeoJSON of what this manager is there for: reported while it has no children.
    pub service_area: Option<String>,
    /// Where people reach this manager's own page.
    pub public_url: Option<String>,
    pub archive_limits: functions::Limits,
    /// The folder in which the parent's functions are gathered until they are whole; made where it is not there.
    pub downloads: PathBuf,
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
enum CallTrouble {
    #[error(transparent)]
    Call(#[from] LinkError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// What came may be somebody else's: it is asked for again before that is believed.
    #[error("an offer that can't be right: {0}")]
    Doubtful(String),
}

impl From<CallTrouble> for link::Trouble {
    fn from(trouble: CallTrouble) -> Self {
        match trouble {
            CallTrouble::Call(LinkError::Refused { status, text }) => Self::Refused { status, text },
            other => Self::Passing(other.to_string()),
        }
    }
}

/// What each call has at hand.
#[derive(Debug)]
struct ParentCaller {
    engine: Engine,
    parent: Parent,
    settings: Settings,
    /// What the parent calls this manager.
    id: Mutex<Option<String>>,
    /// What was told last of stages that go on: a digest, by offer and stage.
    told: Mutex<BTreeMap<(String, u8), u64>>,
    /// One offer's functions are downloaded at a time.
    downloading: tokio::sync::Mutex<()>,
}

impl ParentCaller {
    fn id(&self) -> MutexGuard<'_, Option<String>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Speaks to the parent until `stop`, or until the engine is gone.
pub fn run(
    engine: Engine,
    settings: Settings,
    owed: mpsc::UnboundedReceiver<PendingEffect<ToParent>>,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(speak(engine, settings, owed, stop))
}

async fn speak(
    engine: Engine,
    settings: Settings,
    owed: mpsc::UnboundedReceiver<PendingEffect<ToParent>>,
    stop: CancellationToken,
) {
    let parent = match Parent::new(&settings.url, settings.token.clone()) {
        Ok(parent) => parent,
        Err(error) => {
            tracing::error!(%error, "the parent can't be called");
            return;
        }
    };
    let id = match engine.view().kept.enrolment() {
        Enrolment::At(enrolled) if enrolled.url == settings.url => Some(enrolled.id),
        // Another parent's is replaced when this one has given an id.
        Enrolment::At(_) | Enrolment::No => None,
        // To register anew would leave the parent with two of it.
        Enrolment::Unreadable => {
            tracing::error!(
                url = settings.url,
                "the parent is not called: under which id it knows this manager can't be read; repair the setting \
                 `enrolled` of the store, or remove it to register anew"
            );
            engine.view().lineage.link.set(false, 0);
            return;
        }
    };
    let caller = Arc::new(ParentCaller {
        engine,
        parent,
        settings,
        id: Mutex::default(),
        told: Mutex::default(),
        downloading: tokio::sync::Mutex::default(),
    });
    let driver = Driver::new(Arc::clone(&caller), id, owed);
    tokio::select! {
        () = driver.run() => {}
        () = placements::run(caller) => {}
        () = stop.cancelled() => {}
    }
}
