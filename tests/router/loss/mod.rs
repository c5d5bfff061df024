//! Is any call lost, cut or doubled while shares change?
//!
//! Callers number their calls, and the targets write down each number that they carry out; afterwards the two are compared. A run of
//! the tests makes a twentieth of all calls and changes; `tests/long routers` makes all.

#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/callers.rs"]
mod callers;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/ledger.rs"]
mod ledger;
#[path = "../../shared/loss/message.rs"]
pub mod message;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/serving.rs"]
mod serving;
#[path = "../../shared/loss/wait.rs"]
pub mod wait;

use std::{net::SocketAddr, path::Path, time::Duration};

use tokio::{net::TcpListener, task::JoinSet};
use traffic::{Shares, desired::ServiceSpec};

use self::{
    callers::{Callers, PATIENCE, all_habits},
    ledger::{Ledger, Sums},
    serving::Behaviour,
};
use crate::{
    conformance::Real,
    world::{
        backend::Backend,
        place,
        wants::{service, shares, wanted},
    },
};

/// Calls for each change.
const CALLS: u32 = 100;
/// A run of the tests makes one of so many parts of all changes.
pub const PARTS: u32 = 20;
/// Where it is set, all of them are made.
const ALL: &str = "CHOIRMASTER_TEST_ALL_CHANGES";

/// Whether all of them are made.
pub fn is_all() -> bool {
    std::env::var_os(ALL).is_some()
}

/// How many calls and changes there are to be.
fn scale<R: Real>() -> (u32, u32) {
    let changes = if is_all() { R::CHANGES } else { R::CHANGES / PARTS };
    (changes * CALLS, changes)
}

/// Targets that write down what they carry out, each into a file of its own.
struct Targets {
    backends: Vec<Backend>,
    _tasks: JoinSet<()>,
}

impl Targets {
    async fn start(names: &[&str], folder: &Path) -> Self {
        let mut tasks = JoinSet::new();
        let mut backends = Vec::new();
        for name in names {
            let listener = TcpListener::bind(place::at(0)).await.unwrap();
            let target: SocketAddr = listener.local_addr().unwrap();
            let log = serving::open(&folder.join(name).with_extension("log"));
            tasks.spawn(serving::serve_tcp(listener, Behaviour::Good, log));
            backends.push(Backend::elsewhere(name, target));
        }
        Self { backends, _tasks: tasks }
    }
}

/// What became of a load.
pub struct Outcome {
    pub sums: Sums,
    pub changes: u32,
    pub reloads: u32,
    pub executions: usize,
    pub doubled: usize,
    pub invented: usize,
    /// By which variation, in their order.
    pub of_each: Vec<usize>,
}

impl Outcome {
    pub fn lost(&self) -> usize {
        self.sums.calls - self.sums.answered
    }
}

/// Shares in no order, so that users go back and forth among three variations.
fn some_shares(change: u32) -> Shares {
    let steps = [
        [9_500, 500, 0],
        [9_000, 1_000, 0],
        [8_500, 500, 1_000],
        [8_000, 1_000, 1_000],
        [9_000, 0, 1_000],
        [10_000, 0, 0],
    ];
    shares(&steps[change as usize % steps.len()])
}

/// Calls while shares change; `change` has the router do what a service is to be.
pub async fn calls_while_shares_change<R: Real>(
    real: &R,
    (calls, changes): (u32, u32),
    mut change: impl AsyncFnMut(u32, &ServiceSpec) -> bool,
) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let names = ["A", "B", "C"];
    let targets = Targets::start(&names, folder.path()).await;
    let port = real.port();
    let mut spec = service("checkout", port, &targets.backends, &[10_000, 0, 0]);
    spec.hash = R::HASH;
    // Each call by itself, so that every caller goes back and forth.
    spec.sticky = None;
    change(0, &spec).await;
    let mut reloads = 0;
    // Of connections that stay, and of those that pause, there are most to lose.
    let callers = Callers::start(real.at(port), &all_habits(), PATIENCE);
    for number in 1..=changes {
        spec.table = spec.table.with_shares(&some_shares(number)).unwrap();
        reloads += u32::from(change(number, &spec).await);
        let due = (u64::from(calls) * u64::from(number) / u64::from(changes)) as u32;
        while callers.begun() < due {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let all = callers.finish().await;
    let ledger = Ledger::new(all, folder.path());
    Outcome {
        sums: ledger.sums(),
        changes,
        reloads,
        executions: ledger.executions(),
        doubled: ledger.more_than_once(|_| true),
        invented: ledger.invented(),
        of_each: names.map(|name| ledger.executions_of(name)).to_vec(),
    }
}

/// That a router loses no call by changes of shares.
pub async fn no_call_is_lost_cut_or_doubled_by_changes_of_shares<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let outcome = calls_while_shares_change(&real, scale::<R>(), async |number, spec| {
        let applied = router.apply(&wanted(u64::from(number) + 1, &[spec])).await.unwrap();
        applied.was_reloaded
    })
    .await;
    let Outcome { sums, changes, reloads, executions, doubled, .. } = &outcome;
    println!("{}: {changes} changes, {sums}, {executions} carried out, {doubled} doubled", R::KIND.name());
    assert_eq!((outcome.lost(), *reloads, *doubled, outcome.invented), (0, 0, 0, 0), "{sums}");
    assert_eq!(*executions, sums.calls);
    assert!(outcome.of_each.iter().all(|calls| *calls > sums.calls / 40), "{:?}", outcome.of_each);
}

/// That the count sees what is lost by another way to change shares.
pub async fn the_count_sees_losses<R: Real>(mut change: impl AsyncFnMut(&R, u32, &ServiceSpec)) {
    let real = R::start().await;
    let outcome = calls_while_shares_change(&real, (8_000, 40), async |number, spec| {
        change(&real, number, spec).await;
        false
    })
    .await;
    println!("{}: {} lost of {}", R::KIND.name(), outcome.lost(), outcome.sums);
    assert!(outcome.lost() > 0, "{}", outcome.sums);
}
