//! The run of a fleet: every child on its machine, started again where it dies, until the run is over.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    agent, autonomous,
    child::{ProcessEnd, SimulatedChild},
    client,
    config::{FleetConfig, FleetKind},
    error::FleetError,
    extended,
    machine::Machine,
    report::{AgentReport, Board, Exit, FleetReport, Phase, Progress},
};

/// How often the observer is told.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often the end of the run is looked for.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the fleet until `stop`, or until the configuration says that it is over. The observer is called every
/// [`PROGRESS_INTERVAL`] and once at the end.
pub async fn run(
    config: FleetConfig,
    stop: CancellationToken,
    mut observer: impl FnMut(&Progress),
) -> Result<FleetReport, FleetError> {
    config.validate()?;
    let origin = Arc::new(client::Origin::parse(&config.url)?);
    let config = Arc::new(config);
    let board = Arc::new(Board::new(config.agents));
    let ended = stop.child_token();
    let mut tasks = JoinSet::new();
    for index in 0..config.agents {
        tasks.spawn(live(index, config.clone(), origin.clone(), board.clone(), ended.clone()));
    }
    watch(&config, &board, &ended, &mut observer).await;
    ended.cancel();
    let mut agents: Vec<AgentReport> = tasks.join_all().await;
    agents.sort_by_key(|agent| agent.index);
    observer(&board.progress());
    Ok(FleetReport::new(&config, &board, agents))
}

/// Returns when the run is over: stopped, out of time, idle for long enough, or everybody gone for good.
async fn watch(
    config: &FleetConfig,
    board: &Board,
    ended: &CancellationToken,
    observer: &mut impl FnMut(&Progress),
) {
    let mut told = Instant::now();
    let mut end = EndOfRun::new(config.run_for, config.until_idle);
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = tokio::time::sleep(END_CHECK_INTERVAL) => {}
        }
        let now = Instant::now();
        let progress = board.progress();
        if now - told >= PROGRESS_INTERVAL {
            told = now;
            observer(&progress);
        }
        if end.is_reached(&progress) {
            return;
        }
    }
}

/// Finds out when a run is over: out of time, idle for long enough, or everybody gone for good.
#[derive(Debug)]
pub struct EndOfRun {
    run_for: Option<Duration>,
    until_idle: Option<Duration>,
    start: Instant,
    busy_at: Instant,
}

impl EndOfRun {
    /// A run that starts now, ends after `run_for`, or when no child has run an offer for `until_idle`, once one had.
    pub fn new(run_for: Option<Duration>, until_idle: Option<Duration>) -> Self {
        let now = Instant::now();
        Self { run_for, until_idle, start: now, busy_at: now }
    }

    pub fn is_reached(&mut self, progress: &Progress) -> bool {
        let now = Instant::now();
        if progress.running > 0 || progress.offers_run == 0 {
            self.busy_at = now;
        }
        let out_of_time = self.run_for.is_some_and(|limit| now - self.start >= limit);
        let idle = self.until_idle.is_some_and(|limit| now - self.busy_at >= limit);
        out_of_time || idle || progress.exited == progress.agents
    }
}

/// One machine and the agents that run on it one after the other: each crash starts the next.
async fn live(
    index: usize,
    config: Arc<FleetConfig>,
    origin: Arc<client::Origin>,
    board: Arc<Board>,
    stop: CancellationToken,
) -> AgentReport {
    let mut machine = Machine::new(index, &config);
    let exit = tokio::select! {
        () = stop.cancelled() => None,
        exit = restart_until_exit(index, &config, &origin, &board, &mut machine) => Some(exit),
    };
    if exit.is_some() {
        board.phase(index, Phase::Exited);
    }
    machine.into_report(index, exit)
}

async fn restart_until_exit(
    index: usize,
    config: &FleetConfig,
    origin: &Arc<client::Origin>,
    board: &Board,
    machine: &mut Machine,
) -> Exit {
    // Children don't start in the same instant: the first polls are spread over one interval.
    let share = index as f64 / config.agents as f64;
    tokio::time::sleep(config.real(config.poll.mul_f64(share))).await;
    loop {
        board.phase(index, Phase::Polling);
        let child = SimulatedChild::new(index, config, origin.clone(), board, machine);
        let end = match config.kind {
            FleetKind::Deployed => agent::run(child).await,
            FleetKind::Modern => extended::run(child).await,
            FleetKind::Own => autonomous::run(child).await,
        };
        // What answers the callers of one's own agents outlives them.
        if config.kind != FleetKind::Own {
            machine.abandon();
        }
        match end {
            ProcessEnd::Exit(exit) => return exit,
            ProcessEnd::Crash => {
                machine.restarts += 1;
                board.phase(index, Phase::Starting);
                tokio::time::sleep(config.real(config.faults.restart_after)).await;
            }
        }
    }
}
