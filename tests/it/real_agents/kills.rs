//! Is any call lost or doubled while canaries, agents, managers and proxies die at random instants?

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{
    node::{Load, Node},
    processes,
    releases::{A_B, GRADUAL, Kind, TWO_STAGES, stages, strategy},
    scale::{SHORTEST_STAGE, Scale},
    serving::Behaviour::{self, Crashing, Dying, Failing, Good, Slow},
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// Of the whole load.
const CALLS: u64 = 1_000_000;
const KILLS: u64 = 200;
const UPGRADES: u64 = 20;
/// All shares, in units of 0.01 %.
const WHOLE: u16 = 10_000;

/// A release as it is to go.
#[derive(Debug, Clone, Copy)]
struct Release {
    kind: Kind,
    shares: &'static [u8],
    canary: Behaviour,
    /// It is aborted once this stage is run.
    abort_at: Option<usize>,
}

/// Each shape with each canary to the end, and aborted at every stage; in an order of chance.
fn every_release(chance: &mut fastrand::Rng) -> Vec<Release> {
    let canaries = [Good, Slow, Failing, Crashing, Dying];
    let mut all = Vec::new();
    for (kind, shares) in [(Kind::AB, A_B), (Kind::Wait, TWO_STAGES), (Kind::Wait, GRADUAL)] {
        all.extend(canaries.map(|canary| Release { kind, shares, canary, abort_at: None }));
        all.extend((0..shares.len()).map(|stage| {
            let canary = canaries[(stage + shares.len()) % 2];
            Release { kind, shares, canary, abort_at: Some(stage) }
        }));
    }
    chance.shuffle(&mut all);
    all
}

/// What is done to everybody, and how often it was.
struct Chaos {
    chance: fastrand::Rng,
    kills: u64,
    upgrades: u64,
    upgrade_every: u64,
}

impl Chaos {
    /// Kills one of those that may die at any instant; or has the proxy hand over. `stable`: what names the content of the version
    /// beside which the canary is tried.
    async fn strike(&mut self, site: &mut Site, node: &mut Node, canary: &str, stable: &str) {
        if self.upgrades * self.upgrade_every <= self.kills {
            upgrade(node).await;
            self.upgrades += 1;
        }
        match self.chance.u8(..3) {
            0 => {
                let running = site.running(canary);
                let Some(one) = self.chance.choice(&running) else { return };
                let was_killed = node.still(async |node| {
                    // The agent may have rolled it out, while nobody else knows yet: from then on it is no canary, and nobody could
                    // answer in its stead.
                    // With all calls it may be about to, although the base version is still beside it.
                    let has_all = node.share().await.is_none_or(|share| share == WHOLE);
                    node.stable().await.as_deref() == Some(stable) && !has_all && processes::kill(one.pid)
                });
                self.kills += u64::from(was_killed.await);
            }
            1 => {
                node.kill();
                self.pause(0, 300).await;
                node.come_back();
                self.kills += 1;
            }
            _ => {
                site.manager.kill();
                self.pause(0, 300).await;
                site.manager.come_back().await;
                self.kills += 1;
            }
        }
    }

    async fn pause(&mut self, from: u64, to: u64) {
        sleep(Duration::from_millis(self.chance.u64(from..=to))).await;
    }
}

/// Has another process of the proxy take over.
async fn upgrade(node: &Node) {
    let before = node.until_proxy("the proxy answers", |_| true).await.pid;
    let upgraded = node.run(&["proxy", "upgrade"]);
    assert!(
        upgraded.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&upgraded.stderr),
        node.what_it_said()
    );
    node.until_proxy("another process serves", |status| status.pid != before).await;
}

/// Leads a release to its end while everybody dies; says who serves then.
async fn lead(
    site: &mut Site,
    node: &mut Node,
    chaos: &mut Chaos,
    id: &str,
    base: &str,
    release: Release,
) -> String {
    let new = site.version(release.canary);
    let longest = Scale::find().longest_stage;
    let times = longest.as_secs_f64() / SHORTEST_STAGE.as_secs_f64();
    let milliseconds = SHORTEST_STAGE.mul_f64(times.powf(chaos.chance.f64())).as_millis() as u64;
    let text = strategy(id, [base, &new], &stages(release.kind, release.shares, milliseconds), "");
    let mut stable = None;
    wait_until("something serves", async || {
        stable = node.stable().await;
        stable.is_some()
    })
    .await;
    let stable = stable.unwrap();
    site.manager.submit(&text).await;
    let mut is_to_abort = release.abort_at.map(|stage| format!("s{stage}"));
    while !site.manager.is_over(id).await {
        chaos.pause(20, 400).await;
        chaos.strike(site, node, &new, &stable).await;
        let status = node.status().await;
        let stage =
            status.and_then(|status| status.functions.first()?.candidate.clone()).map(|one| one.stage);
        if is_to_abort.is_some() && stage == is_to_abort {
            let (status, text) =
                site.manager.order(&format!("/api/v1/releases/{id}/abort"), &json!({"by": "tester"})).await;
            // It may have ended meanwhile.
            assert!((200..300).contains(&status) || status == 409, "{status} {text}");
            is_to_abort = None;
        }
    }
    let ended = site.manager.ended(id).await;
    node.is_at_rest().await;
    let serving = if ended["state"] == "Done" { new } else { base.to_owned() };
    let what = format!("{serving} alone serves after {release:?}, {}", ended["state"]);
    wait_until(&what, async || site.all_running() == [serving.as_str()]).await;
    serving
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_or_doubled_whoever_is_killed() {
    let Scale { part, .. } = Scale::find();
    let mut chaos = Chaos {
        chance: fastrand::Rng::with_seed(part),
        kills: 0,
        upgrades: 0,
        upgrade_every: KILLS / UPGRADES,
    };
    let mut site = Site::start().await;
    let mut node = site.node("edge", &["agent.keep_base=0s"]).await;
    site.manager.knows(1).await;
    let mut base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    let mut releases = Vec::new();
    let mut number = 0;
    let is_enough = |chaos: &Chaos, load: &Load| {
        u64::from(load.callers.begun()) >= Scale::part_of(CALLS)
            && chaos.kills >= Scale::part_of(KILLS)
            && chaos.upgrades >= Scale::part_of(UPGRADES)
    };
    while !is_enough(&chaos, &load) {
        if releases.is_empty() {
            releases = every_release(&mut chaos.chance);
        }
        let release = releases.pop().unwrap();
        base = lead(&mut site, &mut node, &mut chaos, &format!("r{number}"), &base, release).await;
        assert_eq!(load.callers.lost(), 0, "after {release:?}");
        number += 1;
    }
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    eprintln!(
        "part {part}: {} calls through {number} releases with {} kills and {} upgrades",
        ledger.calls.len(),
        chaos.kills,
        chaos.upgrades
    );
    nothing_is_left_but(&site, &node.folder, &base).await;
}

/// A version that serves under load, and nothing else.
async fn serving() -> (Site, Node, Load) {
    let mut site = Site::start().await;
    let node = site.node("edge", &[]).await;
    let base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    (site, node, load)
}

/// From now on nobody loses a call; says how many were lost before.
async fn none_is_lost_from_now_on(load: &Load) -> u32 {
    // Whoever had a call in flight has noticed by then.
    load.more_calls(300).await;
    let lost = load.callers.lost();
    load.more_calls(600).await;
    assert_eq!(load.callers.lost(), lost);
    lost
}

/// Calls that got no answer may have been carried out; none was twice.
async fn none_was_doubled(site: &Site, load: Load) {
    let (ledger, _) = load.finish(site).await;
    assert_eq!(ledger.more_than_once(|_| true), 0);
    assert_eq!(ledger.invented(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_supervisor_is_replaced_without_losing_calls() {
    let (site, node, load) = serving().await;
    let before = node.holder().unwrap();
    assert!(processes::kill(before));
    node.until_proxy("another one holds the sockets", |status| {
        status.held && node.holder().is_some_and(|holder| holder != before)
    })
    .await;
    assert_eq!(none_is_lost_from_now_on(&load).await, 0);
    // It does what a holder is for.
    let serving = node.until_proxy("it answers", |_| true).await.pid;
    assert!(processes::kill(serving));
    node.until_proxy("another one serves", |status| status.pid != serving).await;
    let lost = none_is_lost_from_now_on(&load).await;
    assert!(lost as usize <= habits().len(), "{lost}");
    none_was_doubled(&site, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_agent_and_proxy_serve_again_by_last_table() {
    let (site, mut node, load) = serving().await;
    let pid = |site: &Site| site.running("v0").iter().map(|one| one.pid).collect::<Vec<_>>();
    let version = pid(&site);
    node.kill();
    let holder = node.holder().unwrap();
    let serving = node.until_proxy("it answers", |_| true).await.pid;
    processes::kill(holder);
    processes::kill(serving);
    node.come_back();
    node.until("it goes on", |status| status.is_led() && status.functions.len() == 1).await;
    none_is_lost_from_now_on(&load).await;
    assert_eq!(pid(&site), version);
    none_was_doubled(&site, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_whose_shim_is_killed_is_missed_by_nobody() {
    let (site, mut node, load) = serving().await;
    let version = site.running("v0")[0].pid;
    for agent_is_away in [false, false, true] {
        if agent_is_away {
            node.kill();
        }
        let shim = node.shim().unwrap();
        assert!(processes::kill(shim));
        load.more_calls(100).await;
        if agent_is_away {
            node.come_back();
        }
        wait_until("another shim watches it", async || node.shim().is_some_and(|next| next != shim)).await;
    }
    load.more_calls(100).await;
    assert_eq!(load.callers.lost(), 0);
    assert_eq!(site.running("v0").iter().map(|one| one.pid).collect::<Vec<_>>(), [version]);
    none_was_doubled(&site, load).await;
}
