//! What every handler has at hand.

use std::{ops::Deref, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{address::Proxies, auth, service_area::ServiceArea};
use crate::{
    engine::{Engine, view::View},
    forward::Above,
    functions,
    strategy::Site,
};

/// How long a caller waits for a commit before it is told to try again.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a child waits for its offer or its functions. Deployed agents exit on an error there, so a store that
/// is away for a while is waited for.
pub const OFFER_PATIENCE: Duration = Duration::from_mins(5);

/// Submissions that are read and packed at once; more wait.
pub const MAX_SUBMISSIONS: usize = 4;

/// What the handlers are configured with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder in which the folders that strategies name lie: the one that contains `fns/`.
    pub functions_root: PathBuf,
    pub archive_limits: functions::Limits,
    pub auth: auth::Settings,
    /// Who is believed about where a call comes from.
    pub proxies: Proxies,
    /// Agents that a child may say are below it; more count as so many.
    pub max_agents: u32,
    /// Longest wait of a call for something new; zero: none waits.
    pub max_wait: Duration,
    /// Calls that may wait at once; more are answered at once.
    pub max_waiters: usize,
    /// What strategies may name.
    pub site: Site,
    /// Children elsewhere are warned of; `None`: it is not known.
    pub service_area: Option<Arc<ServiceArea>>,
}

/// Shared by all handlers. Each request clones it, so it is one pointer: clones of what it holds would cost more than
/// the answer to a poll.
#[derive(Debug, Clone)]
pub struct Context(Arc<Parts>);

/// What a [`Context`] holds.
#[derive(Debug)]
pub struct Parts {
    pub engine: Engine,
    pub settings: Arc<Settings>,
    pub submissions: Arc<Semaphore>,
    /// Cancelled when the manager stops: answers that have no end of their own end then.
    pub stopping: CancellationToken,
    /// For strategies that reach beyond this manager.
    pub above: Above,
}

impl Context {
    pub fn new(engine: Engine, settings: Settings, above: Above, stopping: CancellationToken) -> Self {
        let submissions = Arc::new(Semaphore::new(MAX_SUBMISSIONS));
        Self(Arc::new(Parts { engine, settings: Arc::new(settings), submissions, stopping, above }))
    }

    pub fn view(&self) -> &View {
        self.engine.view()
    }

    /// Whether answers may be given at this moment: to be asked right before one.
    pub fn is_serving(&self) -> bool {
        self.engine.clock().is_serving()
    }

    /// Serving time, in milliseconds.
    pub fn served_ms(&self) -> u64 {
        self.engine.clock().served_ms()
    }
}

impl Deref for Context {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
