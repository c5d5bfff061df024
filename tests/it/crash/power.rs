//! Power losses, end to end: whatever they leave of the files, a manager that starts on it knows all that was answered.
//!
//! The embedded store's files are copied at random instants while a manager commits, each time together with what had
//! been answered and the length of the log before. What was written later may be there, be cut off, or be anything.

use std::{fs, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering, time::Duration};

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{sleep, timeout};

use super::{
    agent, check,
    cluster::Cluster,
    kill::{setting, until_quiet},
    ledger::Fact,
    look::folder,
    operator::Operator,
    server::{Start, tail},
    world::World,
};
use crate::{
    deadline::DEADLINE,
    seed::seed,
    store::place::{Kind, Place},
};

/// Power losses made from all copies.
pub const LOSSES: u64 = 18;

/// Losses made from each copy.
const LOSSES_OF_A_COPY: u64 = 3;

const AGENTS: usize = 10;

/// Of what was answered last, this much is looked at for each loss; of the rest as much again.
const VERIFIED: usize = 30;

/// Outages of the Postgres server.
const OUTAGES: u32 = 3;

/// The files of a store at one instant.
struct Copy {
    file: Vec<u8>,
    log: Vec<u8>,
    /// Bytes of the log that may not be damaged: they were durable when the last fact was answered.
    durable: usize,
    facts: Vec<Fact>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_power_losses_of_the_embedded_store() {
    let seed = seed();
    println!("replay: CHOIRMASTER_TEST_SEED={seed} tests/run -- crash::power");
    let mut rng = StdRng::seed_from_u64(seed);
    let losses = setting("CHOIRMASTER_CRASH_LOSSES", LOSSES);
    let copies = Place::with(Kind::Sqlite, async |place| {
        copies(place, seed, losses.div_ceil(LOSSES_OF_A_COPY), &mut rng).await
    })
    .await;
    let (mut verified, mut tail_bytes) = (0, 0);
    for copy in &copies {
        for _ in 0..LOSSES_OF_A_COPY {
            let log = damage(&copy.log, copy.durable, &mut rng);
            verified += verify(copy, &log, &mut rng).await;
        }
        tail_bytes += copy.log.len() - copy.durable;
    }
    println!("{} copies, {verified} facts verified, {tail_bytes} bytes that were not durable", copies.len());
    assert!(tail_bytes > 0, "nothing could be damaged: this run has proved nothing");
}

async fn copies(place: &Place, seed: u64, count: u64, rng: &mut StdRng) -> Vec<Copy> {
    let start = Start::on(place);
    let world = World::new();
    let server = start.listening().await;
    world.serves_at(Some(server.address));
    let agents = agent::start(&world, AGENTS, seed);
    let operator = tokio::spawn(Operator::new(&world, seed).run(|| false));
    let mut copies = Vec::new();
    while (copies.len() as u64) < count {
        world.acknowledged_after(rng.random_range(5..60)).await;
        copies.extend(copy(place, &world, rng).await);
    }
    world.stop.cancel();
    let _ = operator.await;
    agents.join_all().await;
    let violations = world.ledger().violations.join("\n");
    assert!(violations.is_empty(), "seed {seed}\n{violations}\n{}", tail(&start.log));
    server.kill();
    copies
}

/// `None` if the log was folded into the file meanwhile: such a copy would be of two instants.
async fn copy(place: &Place, world: &World, rng: &mut StdRng) -> Option<Copy> {
    let (file, log) = (place.file(), folder(place).join("store.db-wal"));
    let facts = world.ledger().facts.clone();
    let durable = fs::metadata(&log).ok()?.len() as usize;
    sleep(Duration::from_millis(rng.random_range(0..25))).await;
    let (before, log, after) = (fs::read(&file).ok()?, fs::read(&log).ok()?, fs::read(&file).ok()?);
    (before == after && log.len() >= durable).then_some(Copy { file: before, log, durable, facts })
}

/// One of the things that may have become of what was not durable.
fn damage(log: &[u8], durable: usize, rng: &mut StdRng) -> Vec<u8> {
    let mut log = log.to_vec();
    let from = rng.random_range(durable..=log.len());
    match rng.random_range(0..3) {
        0 => log.truncate(from),
        1 => log[from..].fill(0),
        _ => rng.fill_bytes(&mut log[from..]),
    }
    log
}

/// Starts a manager on what is left, and asks for what had been answered.
async fn verify(copy: &Copy, log: &[u8], rng: &mut StdRng) -> usize {
    Place::with(Kind::Sqlite, async |place| {
        fs::write(place.file(), &copy.file).unwrap();
        fs::write(folder(place).join("store.db-wal"), log).unwrap();
        let start = Start::on(place);
        let server = start.listening().await;
        let (world, asker) = (World::new(), World::new());
        asker.serves_at(Some(server.address));
        let facts = copy.facts.len();
        let chosen: Vec<usize> = (facts.saturating_sub(VERIFIED)..facts)
            .chain((0..VERIFIED).filter(|_| facts > 0).map(|_| rng.random_range(0..facts.max(1))))
            .collect();
        for at in &chosen {
            world.note(copy.facts[*at].clone());
        }
        check::each_holds(&world, place, &asker).await;
        let violations = world.ledger().violations.join("\n");
        assert!(violations.is_empty(), "{violations}\n{}", tail(&start.log));
        server.kill();
        chosen.len()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_goes_on_when_postgres_has_lost_its_power_and_recovered() {
    let seed = seed();
    println!("replay: CHOIRMASTER_TEST_SEED={seed} tests/run -- crash::power");
    let mut rng = StdRng::seed_from_u64(seed);
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    let place = &Place::database(cluster.url());
    let start = Start::on(place);
    let (world, asker) = (World::new(), World::new());
    let server = start.listening().await;
    world.serves_at(Some(server.address));
    asker.serves_at(Some(server.address));
    let agents = agent::start(&world, AGENTS, seed);
    let enough = Arc::new(AtomicBool::new(false));
    let operator = tokio::spawn({
        let enough = Arc::clone(&enough);
        Operator::new(&world, seed).run(move || enough.load(Ordering::Relaxed))
    });
    for _ in 0..OUTAGES {
        world.acknowledged_after(rng.random_range(20..80)).await;
        tokio::task::block_in_place(|| cluster.off());
        sleep(Duration::from_millis(rng.random_range(0..1_500))).await;
        tokio::task::block_in_place(|| cluster.on());
    }
    enough.store(true, Ordering::Relaxed);
    let ended = timeout(DEADLINE, operator).await;
    let quiet = until_quiet(place, DEADLINE).await;
    world.stop.cancel();
    agents.join_all().await;
    let waited_for = check::waited_for(place).await;
    assert!(quiet && ended.is_ok(), "seed {seed}: not over:\n{waited_for}\n{}", tail(&start.log));
    check::all_holds(&world, place, &asker).await;
    let violations = world.ledger().violations.join("\n");
    assert!(violations.is_empty(), "seed {seed}\n{violations}\n{}", tail(&start.log));
    server.kill();
}
