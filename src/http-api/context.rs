//! What every handler has at hand.

use std::{
    collections::HashMap,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{address::Proxies, auth, joins::Joins, service_area::ServiceArea, v1::map::Maps};
use engine::{Engine, EngineError, parent::forward::Forwarding, view::View};
use language::{Site, functions};
use model::{ManagerInstant, TenantName};
use placement::FunctionTypes;
use protocol::{ManagerTime, canary_releases::CanaryFolder};

/// How long a caller waits for a commit before it is told to try again.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a child waits for its offer or its functions. Deployed agents exit on an error there, so a store that
/// is away for a while is waited for.
pub const OFFER_PATIENCE: Duration = Duration::from_mins(5);

/// Strategies that are checked and packed at once: each takes a whole core. More wait, at most for [`PATIENCE`].
pub const MAX_SUBMISSIONS: usize = 4;

/// Memory for bodies of submissions that are being read, or wait for their turn, in KiB: some of the largest.
const MAX_UPLOADING_KIB: usize = 256 * 1024;

/// What one tenant may have of it at once, in KiB.
const MAX_UPLOADING_OF_TENANT_KIB: usize = MAX_UPLOADING_KIB / 4;

/// Memory for large bodies of children's calls that are being read, in KiB. Apart from that of submissions, for anybody may
/// call there.
pub const MAX_REPORTING_KIB: usize = 64 * 1024;

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
    /// Children that may have tokens which they got by joining.
    pub max_joined: usize,
    /// Longest wait of a call for something new; zero: none waits.
    pub max_wait: Duration,
    /// Calls that may wait at once; more are answered at once.
    pub max_waiters: usize,
    /// What strategies may name.
    pub site: Site,
    /// A node that says nothing for so long is lost.
    pub keep_alive: Duration,
    /// Which runtime runs which type of functions of workflows.
    pub function_types: FunctionTypes,
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
    submissions: Arc<Semaphore>,
    /// Whose turn it is to have a large area checked.
    pub surveying: Arc<Semaphore>,
    /// Memory that is left for bodies of submissions, in KiB.
    pub uploading: Arc<Semaphore>,
    /// The same for each tenant: a part of that for all, so that the others have some left.
    uploading_of: std::sync::Mutex<HashMap<TenantName, Arc<Semaphore>>>,
    /// Memory that is left for large bodies of children's calls, in KiB.
    pub reporting: Arc<Semaphore>,
    /// Held while a tenant is made.
    pub tenancy: Mutex<()>,
    /// Maps that somebody watches.
    pub maps: Maps,
    /// The folder of manifests that is watched, as it is shown: with all of its files, by their names.
    pub canary_folder: std::sync::Mutex<Arc<CanaryFolder>>,
    /// Who wanted to join lately.
    pub joins: Joins,
    /// Cancelled when the manager stops: answers that have no end of their own end then.
    pub stopping: CancellationToken,
    /// For strategies that reach beyond this manager.
    pub forwarding: Forwarding,
}

impl Context {
    pub fn new(
        engine: Engine,
        settings: Settings,
        forwarding: Forwarding,
        stopping: CancellationToken,
    ) -> Self {
        let submissions = Arc::new(Semaphore::new(MAX_SUBMISSIONS));
        let uploading = Arc::new(Semaphore::new(MAX_UPLOADING_KIB));
        let reporting = Arc::new(Semaphore::new(MAX_REPORTING_KIB));
        let surveying = Arc::new(Semaphore::new(1));
        Self(Arc::new(Parts {
            engine,
            settings: Arc::new(settings),
            submissions,
            surveying,
            uploading,
            uploading_of: std::sync::Mutex::default(),
            reporting,
            tenancy: Mutex::default(),
            maps: Maps::default(),
            canary_folder: std::sync::Mutex::default(),
            joins: Joins::default(),
            stopping,
            forwarding,
        }))
    }

    /// Checks or packs a strategy on a thread of its own, when it is its turn. What it needs of the caller is there
    /// already, so nobody's turn depends on how fast somebody sends.
    pub async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let turn = timeout(PATIENCE, Arc::clone(&self.submissions).acquire_owned()).await;
        let turn = turn.map_err(|_| EngineError::Busy)?.map_err(|_| EngineError::Stopped)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            // Only now: the work goes on also when the caller has gone.
            drop(turn);
            done
        });
        working.await.map_err(|error| {
            tracing::error!(%error, "a strategy could not be looked at");
            EngineError::Failed
        })
    }

    /// Memory that is left for bodies of a tenant's submissions, in KiB.
    pub fn uploading_of(&self, tenant: &TenantName) -> Arc<Semaphore> {
        let mut all = self.uploading_of.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            all.entry(tenant.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(MAX_UPLOADING_OF_TENANT_KIB))),
        )
    }

    pub fn view(&self) -> &View {
        self.engine.view()
    }

    /// Whether answers may be given at this moment: to be asked right before one.
    pub fn is_serving(&self) -> bool {
        self.engine.clock().is_serving()
    }

    /// The time by which children number intervals.
    pub fn manager_time(&self) -> ManagerTime {
        let ManagerInstant { ms, error_ms } = self.view().lineage.time(self.engine.clock().now());
        ManagerTime { time_ms: ms, time_error_ms: u32::try_from(error_ms).unwrap_or(u32::MAX) }
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
