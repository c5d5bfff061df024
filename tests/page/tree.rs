//! A tree to be looked at in a browser: a root, managers below it, and agents below those, each at a place of its own.

use std::{path::PathBuf, time::Duration};

use analysis::Histogram;
use engine::parent;
use language::render::ROLLOUT_STAGE;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    deadline::DEADLINE,
    random::Random,
    world::{STAGE, World, summary},
};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(20);

/// How often managers ask those above them.
const POLL: Duration = Duration::from_millis(20);

/// The strategy's stage of managers' own that takes a release back.
const UNDO_STAGE: &str = "choirmaster undo";

/// Places of the managers: the south-western corner of where the first agent of each is. They lie apart on a map of the world.
const PLACES: [(&str, f64, f64); 3] =
    [("west", -100.0, 40.0), ("middle", 10.0, 50.0), ("east", 130.0, -25.0)];

/// Agents below each manager.
pub const AGENTS: usize = 2;

/// A manager below the root.
pub struct Below {
    pub world: World,
    /// Its id at the root.
    pub id: String,
    pub agents: [Agent; AGENTS],
}

/// An agent, which the test is.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    area: Value,
}

pub struct Tree {
    pub root: World,
    pub below: Vec<Below>,
}

/// A square of one degree.
fn square(west: f64, south: f64) -> Value {
    let (east, north) = (west + 1.0, south + 1.0);
    let ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
    json!({"type": "Polygon", "coordinates": [ring]})
}

impl Tree {
    /// Managers come one after the other: waves are made of them in that order.
    pub async fn start() -> Self {
        let root = World::start().await;
        let mut below: Vec<Below> = Vec::new();
        for (name, west, south) in PLACES {
            let url = format!("http://{}", root.manager.address);
            let world = World::with(|options| options.parent = Some(parent_of(name, url))).await;
            let agents = [agent(&world, west, south).await, agent(&world, west + 4.0, south + 4.0).await];
            let stands = |child: &&Value| child["name"] == name && child["agents"] == AGENTS;
            let found = |children: &Value| children["items"].as_array().unwrap().iter().find(stands).cloned();
            let children = root.until("/api/v1/children", |children| found(children).is_some()).await;
            let id = found(&children).unwrap()["id"].as_str().unwrap().to_owned();
            let asked = format!("/api/v1/children?below={id}");
            root.until(&asked, |page| page["items"].is_array()).await;
            below.push(Below { world, id, agents });
        }
        Self { root, below }
    }

    pub async fn stop(self) {
        for Below { world, .. } in self.below {
            world.stop().await;
        }
        self.root.stop().await;
    }

    /// The release is known to the manager at this place, or not.
    pub async fn is_known_at(&self, place: usize, release: &str) -> bool {
        self.below[place].world.get(&format!("/api/v1/releases/{release}")).await.status == 200
    }
}

fn parent_of(name: &str, url: String) -> parent::Settings {
    parent::Settings {
        url,
        token: None,
        name: Some(name.to_owned()),
        poll: POLL,
        service_area: None,
        public_url: None,
        archive_limits: language::functions::Limits::default(),
        // A world has its own.
        downloads: PathBuf::new(),
    }
}

async fn agent(world: &World, west: f64, south: f64) -> Agent {
    let mut agent = Agent { id: String::new(), area: square(west, south) };
    poll(world, &agent).await["id"].as_str().unwrap().clone_into(&mut agent.id);
    poll(world, &agent).await;
    agent
}

async fn poll(world: &World, agent: &Agent) -> Value {
    let body =
        json!({"id": agent.id, "kind": "agent", "geographic_area": agent.area, "number_of_children": 0});
    world.post("/poll", &body).await.ok().json()
}

impl Below {
    /// Waits until the agent is offered something, and downloads that.
    pub async fn is_offered(&self, agent: &Agent) -> String {
        let asking = async {
            loop {
                let offer = poll(&self.world, agent).await["new_release"].as_str().unwrap().to_owned();
                if !offer.is_empty() {
                    return offer;
                }
                sleep(LOOK).await;
            }
        };
        let offer = timeout(DEADLINE, asking).await;
        let offer = offer.unwrap_or_else(|_| panic!("nothing is offered to {agent:?}"));
        self.world.fetch(&agent.id, &offer).await.ok();
        offer
    }

    /// All agents here take a release through its stage and its roll-out.
    pub async fn run(&self) {
        for agent in &self.agents {
            let offer = self.is_offered(agent).await;
            self.finish(agent, &offer).await;
        }
    }

    /// The agent runs what it downloaded to its end.
    pub async fn finish(&self, agent: &Agent, offer: &str) {
        self.world.report(&agent.id, offer, STAGE, 2).await.ok();
        let asking = async {
            while self.world.end_stage(&agent.id, offer, STAGE).await.ok().json()["end_stage"] != true {
                sleep(LOOK).await;
            }
        };
        timeout(DEADLINE, asking).await.unwrap();
        self.world.report(&agent.id, offer, STAGE, 4).await.ok();
        let rollout = self.is_offered(agent).await;
        self.world.report(&agent.id, &rollout, ROLLOUT_STAGE, 4).await.ok();
    }

    /// The stage fails at this agent.
    pub async fn fail(&self, agent: &Agent) {
        let offer = self.is_offered(agent).await;
        self.world.report(&agent.id, &offer, STAGE, 5).await.ok();
    }

    /// All agents here take a release back.
    pub async fn undo(&self, release: &str) {
        for agent in &self.agents {
            let offer = self.is_offered(agent).await;
            assert_eq!(offer, format!("{release}.undo"));
            self.world.report(&agent.id, &offer, UNDO_STAGE, 4).await.ok();
        }
    }

    /// Agents tell what they measured of a stage: calls to the new version take so many times as long.
    pub async fn measure(&self, release: &str, slower: f64, seed: u64) {
        for (at, agent) in self.agents.iter().enumerate() {
            measured(&self.world, &agent.id, release, slower, 2 * seed + at as u64).await;
        }
    }
}

/// A child tells what it measured of a stage: calls to the new version take so many times as long.
pub async fn measured(world: &World, child: &str, release: &str, slower: f64, seed: u64) {
    let mut summary = summary(STAGE, 2);
    summary["strata"] = numbers(slower, seed);
    let body = json!({"id": child, "release_id": release, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// Calls that are measured of both versions together.
const CALLS: usize = 8_000;

/// Half of them go to the new version.
const SPLIT: u8 = 50;

/// An agent's numbers of a stage.
fn numbers(slower: f64, seed: u64) -> Value {
    let mut random = Random::new(seed);
    let mut sides = [Histogram::new(1.01).unwrap(), Histogram::new(1.01).unwrap()];
    for _ in 0..CALLS {
        let is_new = random.chance(f64::from(SPLIT) / 100.0);
        let ms = 20.0 * if is_new { slower } else { 1.0 } * random.log_normal(0.3);
        sides[usize::from(is_new)].record(ms).unwrap();
    }
    let [base, new] = sides;
    json!([{"split": SPLIT, "f1_calls": base.count(), "f1_errors": 0, "f2_calls": new.count(), "f2_errors": 0,
        "f1_histogram": base, "f2_histogram": new}])
}
