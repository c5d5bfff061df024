//! A release is watched for its whole life, over a line that is cut and falls silent again and again: what the page of the release and
//! its map show comes in order, all of it, once, and none of it stays in the memory of the browser.
//!
//! `tests/long watched` makes it 10,000 agents.

use std::{collections::VecDeque, env, time::Duration};

use domain::children::Absences;
use futures_util::{StreamExt as _, future::join_all, stream};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    browser::{Page, browse},
    line::{Line, State},
    seed::seed,
    states::{fail, of_function, over_waves},
    world::World,
};

const RELEASE: &str = "life";

/// Agents where nobody wishes for others.
const AGENTS: usize = 240;

/// The life comes in so many parts; before each the line becomes another.
const PARTS: usize = 24;

/// One of so many agents fails.
const FAILS: usize = 20;

/// Agents that call at once.
const AT_ONCE: usize = 16;

/// What the memory of a page may grow by, in bytes.
const MAX_GROWTH: f64 = 10e6;

fn agents() -> usize {
    env::var("CHOIRMASTER_TEST_WATCHED").map_or(AGENTS, |number| number.parse().unwrap())
}

/// Looks at each change of the trail: entries are in order, each once, and none comes after one that happened later. A page that
/// says it is old is looked at as well: it may lag, and may not be wrong.
const FOLLOW_TRAIL: &str = "globalThis.life = { faults: [], seen: new Set(), last: 0 }; \
    const place = (id) => { const [at, part] = id.split('-').map(Number); return at * 1e4 + part; }; \
    const look = () => { \
        const ids = [...document.querySelectorAll('#trail li')].map((li) => li.id.slice(1)); \
        const places = ids.map(place); \
        if (!places.every((here, at) => at === 0 || here < places[at - 1])) life.faults.push(`out of order: ${ids}`); \
        for (const id of ids) if (!life.seen.has(id) && !(place(id) > life.last)) life.faults.push(`${id} after ${life.last}`); \
        for (const id of ids) life.seen.add(id); \
        life.last = Math.max(life.last, ...places); }; \
    look(); \
    new MutationObserver(look).observe(document.querySelector('main'), { childList: true, subtree: true, attributes: true });";

/// Looks at each change of what a map says: nobody who was done is shown as not done again.
const FOLLOW_MAP: &str = "globalThis.life = { faults: [], done: 0, looks: 0 }; \
    const told = document.querySelector('.map-told'); \
    const look = () => { \
        const done = Number((/([\\d,]+) done/.exec(told.textContent)?.[1] ?? '0').replace(',', '')); \
        if (done < life.done) life.faults.push(`${life.done} done became ${told.textContent}`); \
        life.done = done; life.looks += 1; }; \
    look(); \
    new MutationObserver(look).observe(told, { childList: true, characterData: true, subtree: true });";

async fn faults(page: &Page) -> Vec<Value> {
    page.evaluate("life.faults").await.unwrap().as_array().unwrap().clone()
}

/// Bytes that scripts, the document and buffers of a page hold, after everything that nobody needs was thrown away.
async fn memory(page: &Page) -> f64 {
    page.cdp("HeapProfiler.collectGarbage", json!({})).await.unwrap();
    let usage = page.cdp("Runtime.getHeapUsage", json!({})).await.unwrap();
    let parts = ["usedSize", "embedderHeapUsedSize", "backingStorageSize"];
    parts.iter().map(|name| usage[*name].as_f64().unwrap_or_else(|| panic!("{name}: {usage}"))).sum()
}

/// The agents of a release, and which of them still have to run it.
struct Fleet<'a> {
    world: &'a World,
    left: VecDeque<(usize, String)>,
}

impl<'a> Fleet<'a> {
    async fn new(world: &'a World, number: usize) -> Self {
        let children = stream::iter(0..number).map(|index| async move { (index, world.child().await) });
        Self { world, left: children.buffer_unordered(AT_ONCE).collect().await }
    }

    /// So many more run the release, in the order in which it is offered to them.
    async fn run(&mut self, number: usize) {
        let mut wanted = number.min(self.left.len());
        while wanted > 0 {
            let asked: Vec<_> = self.left.drain(..AT_ONCE.min(wanted).min(self.left.len())).collect();
            let ran = join_all(asked.into_iter().map(|(index, id)| run(self.world, index, id))).await;
            let before = self.left.len();
            let count = ran.len();
            self.left.extend(ran.into_iter().flatten());
            wanted = wanted.saturating_sub(count - (self.left.len() - before));
        }
    }
}

/// Runs the release if it is offered; answers the agent if it isn't yet.
async fn run(world: &World, index: usize, id: String) -> Option<(usize, String)> {
    if world.poll(&id).await.1 != RELEASE {
        return Some((index, id));
    }
    if index.is_multiple_of(FAILS) {
        fail(world, &id, RELEASE).await;
    } else {
        world.run(&id, RELEASE).await;
    }
    None
}

async fn act(world: &World, action: &str) {
    let body = json!({"by": "eve", "note": "seen"});
    world.post(&format!("/api/v1/releases/{RELEASE}/{action}"), &body).await.ok();
}

/// All of the life, part by part.
async fn live(fleet: &mut Fleet<'_>, line: &Line, chance: &mut SmallRng) {
    // The rest runs after the last part.
    let a_part = fleet.left.len() / (PARTS + 1);
    for _ in 0..PARTS {
        line.set([State::Open, State::Cut, State::Frozen, State::Open][chance.random_range(0..4)]);
        fleet.run(a_part).await;
        act(fleet.world, "pause").await;
        sleep(Duration::from_millis(chance.random_range(0..1_500))).await;
        act(fleet.world, "resume").await;
    }
    line.set(State::Open);
    fleet.run(usize::MAX).await;
}

#[tokio::test]
async fn everything_is_shown_once_and_nothing_is_kept() {
    let seed = seed();
    eprintln!("seed {seed}");
    let (agents, mut chance) = (agents(), SmallRng::seed_from_u64(seed));
    // All agents are of one place, and call only when they run the release: those who come late don't take the places of the first.
    let absence = Absences::of_all(Duration::from_hours(1));
    let world = World::with(|options| options.rules.absence = absence).await;
    let mut fleet = Fleet::new(&world, agents).await;
    let led = &over_waves("waves: [10%, 50%, 100%], max_failed: 50%");
    world.submit(&of_function(RELEASE, "sieve", led)).await.ok();
    let line = Line::to(world.manager.address).await;
    let at = |path: &str| format!("http://{}/ui/releases/{RELEASE}{path}", line.address);
    browse(async |page| {
        browse(async |map| {
            page.go(&at("")).await;
            page.holds("document.querySelector('#live-state').dataset.kind === 'live'").await;
            page.evaluate(FOLLOW_TRAIL).await.unwrap();
            map.go(&at("/map")).await;
            map.holds(&format!(
                "document.querySelector('.map-told')?.textContent === '{} waiting'",
                thousands(agents)
            ))
            .await;
            map.evaluate(FOLLOW_MAP).await.unwrap();
            let before = (memory(page).await, memory(map).await);
            live(&mut fleet, &line, &mut chance).await;
            shows_all(page, &world).await;
            ends_so(map, agents).await;
            let after = (memory(page).await, memory(map).await);
            let grown = (after.0 - before.0, after.1 - before.1);
            println!(
                "{agents} agents: the page has {:.1} MB and grew by {:.1}, the map {:.1} and {:.1}",
                after.0 / 1e6,
                grown.0 / 1e6,
                after.1 / 1e6,
                grown.1 / 1e6
            );
            assert!(grown.0 < MAX_GROWTH && grown.1 < MAX_GROWTH, "{before:?} became {after:?}");
            // That they couldn't connect.
            page.take_reports().await;
            map.take_reports().await;
        })
        .await;
    })
    .await;
    world.stop().await;
}

/// With a comma before the last three digits, as maps write numbers.
fn thousands(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

/// Each entry of the trail was shown, and none was there that isn't in it.
async fn shows_all(page: &Page, world: &World) {
    page.holds("document.querySelector('header.release .badge').textContent === 'done, with failures'").await;
    let path = format!("/api/v1/audit?told=true&limit=1000&release={RELEASE}");
    let trail = world.get(&path).await.ok().json();
    let ids: Vec<&Value> = trail["items"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert!(ids.len() > 2 * PARTS, "{ids:?}");
    let seen = page.evaluate("[...life.seen].sort((a, b) => place(b) - place(a))").await.unwrap();
    assert_eq!(seen, json!(ids));
    assert_eq!(faults(page).await, Vec::<Value>::new());
}

/// What the map says at the end, to which it came without a step back.
async fn ends_so(map: &Page, agents: usize) {
    let failed = agents.div_ceil(FAILS);
    let (done, failed) = (thousands(agents - failed), thousands(failed));
    let told = "document.querySelector('.map-told').textContent";
    map.holds(&format!("{told}.includes('{done} done') && {told}.includes('{failed} failed')")).await;
    assert!(map.evaluate("life.looks").await.unwrap().as_u64().unwrap() > 3);
    assert_eq!(faults(map).await, Vec::<Value>::new());
}
