//! SIGKILL at random instants: right after an answer, in the middle of bursts, while it starts.

use std::{sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep, timeout};

use super::{
    agent, check,
    operator::Operator,
    server::{Server, Start, tail},
    world::World,
};
use crate::{
    deadline::DEADLINE,
    seed::seed,
    store::place::{Kind, Place},
};

/// Kills on each store.
pub const KILLS: u32 = 60;

const AGENTS: usize = 12;

/// Facts verified after each start.
const VERIFIED: usize = 12;

/// One life in so many is long enough for deadlines.
const LONG_LIFE: u32 = 20;

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
        Err(_) => default,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kills_at_any_instant_on_sqlite() {
    Place::with(Kind::Sqlite, story).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kills_at_any_instant_on_postgres() {
    Place::with(Kind::Postgres, story).await;
}

async fn story(place: &Place) {
    let seed = seed();
    let replay = format!("replay: CHOIRMASTER_TEST_SEED={seed} tests/run -- crash::kill ({:?})", place.kind);
    println!("{replay}");
    let start = Start::on(place);
    let world = World::new();
    let asker = World::new();
    let enough = Arc::new(AtomicBool::new(false));
    let agents = agent::start(&world, AGENTS, seed);
    let operator = tokio::spawn({
        let enough = Arc::clone(&enough);
        Operator::new(&world, seed).run(move || enough.load(Ordering::Relaxed))
    });
    let mut killer = Killer { place, start, world: &world, asker: &asker, rng: StdRng::seed_from_u64(seed) };
    let mut sampler = check::Sampler::default();
    let kills = killer.kill_again_and_again(&mut sampler).await;
    let server = killer.start.listening().await;
    killer.serves(Some(&server));
    enough.store(true, Ordering::Relaxed);
    let ended = timeout(DEADLINE, operator).await;
    let quiet = until_quiet(place, DEADLINE).await;
    for wrong in sampler.look(place).await {
        world.violation(wrong);
    }
    world.stop.cancel();
    agents.join_all().await;
    if world.ledger().violations.is_empty() && quiet {
        check::all_holds(&world, place, &asker).await;
    }
    let log = tail(&killer.start.log);
    let unfinished = check::waited_for(place).await;
    let ledger = world.ledger();
    let violations = &ledger.violations;
    assert!(violations.is_empty(), "{replay}\n{}\n{log}", violations.join("\n"));
    let releases = ended.ok().and_then(Result::ok).and_then(Result::ok);
    assert!(quiet && releases.is_some(), "not over after {DEADLINE:?}:\n{unfinished}{replay}\n{log}");
    println!(
        "{:?}: {kills} kills, {releases:?} releases, {} facts, {} looks into the store, {} agents gone",
        place.kind,
        ledger.facts.len(),
        sampler.samples,
        ledger.retired.len(),
    );
    assert!(sampler.samples > kills / 2, "the store was hardly ever looked at");
    drop(server);
}

struct Killer<'a> {
    place: &'a Place,
    start: Start,
    world: &'a Arc<World>,
    asker: &'a Arc<World>,
    rng: StdRng,
}

impl Killer<'_> {
    fn serves(&self, server: Option<&Server>) {
        let address = server.map(|server| server.address);
        self.world.serves_at(address);
        self.asker.serves_at(address);
    }

    async fn kill_again_and_again(&mut self, sampler: &mut check::Sampler) -> u32 {
        let kills = setting("CHOIRMASTER_CRASH_KILLS", u64::from(KILLS)) as u32;
        for kill in 0..kills {
            if self.rng.random_bool(0.15) {
                let starting = self.start.spawn();
                sleep(Duration::from_millis(self.rng.random_range(0..80))).await;
                starting.kill();
                continue;
            }
            let server = self.start.listening().await;
            self.serves(Some(&server));
            check::some_hold(self.world, self.place, self.asker, VERIFIED, &mut self.rng).await;
            for wrong in sampler.look(self.place).await {
                self.world.violation(wrong);
            }
            if !self.world.ledger().violations.is_empty() {
                return kill;
            }
            self.live(kill).await;
            server.kill();
            self.serves(None);
        }
        kills
    }

    /// Until the instant of the kill.
    async fn live(&mut self, kill: u32) {
        let random = Duration::from_millis(self.rng.random_range(0..200));
        if kill % LONG_LIFE == LONG_LIFE - 1 {
            sleep(Duration::from_millis(1_500) + random).await;
        } else if self.rng.random_bool(0.5) {
            sleep(random).await;
        } else {
            let answers = self.rng.random_range(1..12);
            let _ = timeout(Duration::from_millis(300), self.world.acknowledged_after(answers)).await;
        }
    }
}

/// Waits until every release is over and no undo waits for a child that is there.
pub async fn until_quiet(place: &Place, time_limit: Duration) -> bool {
    let by = Instant::now() + time_limit;
    while Instant::now() < by {
        let undos = check::pending_undos(place).await;
        if undos.is_empty() && check::unfinished(place).await.is_empty() {
            return true;
        }
        sleep(Duration::from_millis(50)).await;
    }
    false
}
