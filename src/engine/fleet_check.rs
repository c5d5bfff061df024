//! Looks over all children and routers again and again, on a thread apart, and at the disk of the store: [`FleetChecks`] has what it found.
//!
//! A look takes some tenths of a microsecond a child. After each it rests for much longer than it took, so however many children there
//! are, it has a small part of one processor.
//!
//! [`FleetChecks`]: crate::view::FleetChecks

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    blocking::{giving_way, timed},
    error::EngineError,
    handle::Engine,
    questions::tree::is_silent,
    view::{Children, FleetCheck, FleetPart, MAX_NAMED, Named},
};
use domain::{
    children::Child,
    release::{command::LastSeen as _, next_action::has_in_hand, state::Snapshot},
    traffic::RouterConcern,
};
use model::{ChildKey, Cordon, Now};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// It rests at least this many times as long as it worked.
const RESTS: u32 = 20;

/// How long the engine may take with a look.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks until it is told to stop, or the engine is gone.
pub fn run(engine: Engine, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(look_again_and_again(engine, stop))
}

async fn look_again_and_again(engine: Engine, stop: CancellationToken) {
    loop {
        let rest = match look(&engine).await {
            Ok(took) => EVERY.max(took * RESTS),
            Err(EngineError::Stopped) => return,
            Err(error) => {
                tracing::debug!(%error, "the fleet could not be looked at");
                EVERY
            }
        };
        if stop.run_until_cancelled(sleep(rest)).await.is_none() {
            return;
        }
    }
}

/// Says how long it worked.
async fn look(engine: &Engine) -> Result<Duration, EngineError> {
    let checks = &engine.view().fleet_checks;
    match engine.reader().disk().await {
        Ok(disk) => checks.keep_disk(disk),
        Err(error) => tracing::debug!(%error, "the disk could not be looked at"),
    }
    let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
    let walk = move |state: &Snapshot| timed(|| check(state, &seen, now));
    let (found, took) = engine.read_apart(PATIENCE, walk).await?;
    checks.keep(found);
    Ok(took)
}

fn check(state: &Snapshot, seen: &Children, now: Now) -> FleetCheck {
    let mut found = Finds::default();
    for (key, child) in giving_way(state.children.iter()) {
        if is_missing(state, seen, key, child, now) {
            found.silent(key, child, seen.last_call(key).unwrap_or_default());
        }
    }
    for (key, router) in giving_way(state.traffic.iter()) {
        if let (Some(child), Some(concern)) = (state.children.get(key), router.concern()) {
            found.router(key, child, concern, router.since.served_ms);
        }
    }
    found.finish(now)
}

/// Whether nothing was heard of a child although it calls all the time.
pub fn is_missing(state: &Snapshot, seen: &Children, key: ChildKey, child: &Child, now: Now) -> bool {
    // An id whose place another has taken is nobody, and who takes one stage an offer says nothing while it is in one.
    let calls_always = child.kind().is_manager() || child.leads_itself();
    child.replaced.is_none() && is_silent(seen, key, now) && (calls_always || !has_in_hand(state, key))
}

/// Of one tenant, or of all.
#[derive(Default)]
struct Part {
    silent: u32,
    missed: MostUrgent<Silence>,
    routers: MostUrgent<(RouterConcern, u64)>,
}

/// How urgent a silence is: that of a manager more than that of an agent, of whom a release waits for more than of one for whom none does, and
/// one that began lately more than one that somebody may have seen before.
type Silence = (bool, bool, u64);

impl Part {
    fn finish(self) -> FleetPart {
        FleetPart { silent: self.silent, missed: self.missed.finish(), routers: self.routers.finish() }
    }
}

#[derive(Default)]
struct Finds {
    all: Part,
    of_tenants: HashMap<Box<str>, Part>,
}

impl Finds {
    fn silent(&mut self, key: ChildKey, child: &Child, last_call: u64) {
        let urgency = (child.kind().is_manager(), !child.open.is_empty(), last_call);
        self.each(child, |part| {
            part.silent += 1;
            if child.cordon == Cordon::Open {
                part.missed.push(urgency, key);
            }
        });
    }

    fn router(&mut self, key: ChildKey, child: &Child, concern: RouterConcern, since: u64) {
        self.each(child, |part| part.routers.push((concern, since), key));
    }

    fn each(&mut self, child: &Child, mut note: impl FnMut(&mut Part)) {
        note(&mut self.all);
        if let Some(tenant) = child.tenant() {
            note(self.of_tenants.entry(tenant.into()).or_default());
        }
    }

    fn finish(self, now: Now) -> FleetCheck {
        let of_tenants = self.of_tenants.into_iter().map(|(name, part)| (name, part.finish()));
        FleetCheck::new(now.served_ms, self.all.finish(), of_tenants.collect())
    }
}

/// The most urgent of many.
struct MostUrgent<U> {
    count: u32,
    /// The least urgent of them on top.
    kept: BinaryHeap<Reverse<(U, ChildKey)>>,
}

impl<U: Ord> Default for MostUrgent<U> {
    fn default() -> Self {
        Self { count: 0, kept: BinaryHeap::new() }
    }
}

impl<U: Ord> MostUrgent<U> {
    fn push(&mut self, urgency: U, key: ChildKey) {
        self.count += 1;
        self.kept.push(Reverse((urgency, key)));
        if self.kept.len() > MAX_NAMED {
            self.kept.pop();
        }
    }

    fn finish(self) -> Named {
        let sorted = self.kept.into_sorted_vec().into_iter();
        Named { count: self.count, keys: sorted.map(|Reverse((_, key))| key).collect() }
    }
}
