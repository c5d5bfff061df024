//! A child as it is deployed, hurried: it acts before it reports, and writes down what it was answered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use simulated_children::{NextAction, Offer, OfferStage};

use super::{
    ledger::{Fact, Runs},
    world::{Answer, Over, World},
};

/// Between two calls, at most.
const HASTE: Duration = Duration::from_millis(40);

/// Chance that a stage fails.
const FAILURE: f64 = 0.08;

/// How it takes a call without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Makes the same call again.
    Patient,
    /// As deployed agents do: exits where an offer is fetched, and never sends a result again.
    Deployed,
}

pub struct Agent {
    world: Arc<World>,
    number: usize,
    manner: Manner,
    rng: StdRng,
    id: String,
    called_again: bool,
}

/// Why a cycle ended early.
enum Stop {
    Over,
    /// The process of the agent ends; it comes back under a new id.
    Exit,
}

impl From<Over> for Stop {
    fn from(_: Over) -> Self {
        Self::Over
    }
}

/// Areas lie side by side.
fn area(number: usize) -> Value {
    let (west, east) = (13.0 + number as f64 * 0.01, 13.009 + number as f64 * 0.01);
    json!({"type": "Polygon", "coordinates": [[[west, 52.0], [east, 52.0], [east, 52.1], [west, 52.1], [west, 52.0]]]})
}

fn summary(stage: &str, status: u8, median: f64) -> Value {
    let times = json!({"median": median, "minimum": 1.5, "maximum": 30.25});
    json!({"stage_name": stage, "proxy_times": times, "f1_times_summary": times, "f2_times_summary": times,
        "f1_err_rate": 0, "f2_err_rate": 0, "status": status})
}

const SUCCESS_WAITING: u8 = 2;
const COMPLETED: u8 = 4;
const FAILED: u8 = 5;

impl Agent {
    pub fn new(world: &Arc<World>, number: usize, manner: Manner, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self { world: Arc::clone(world), number, manner, rng, id: String::new(), called_again: false }
    }

    /// Polls and runs what it is offered until the test is over.
    pub async fn run(mut self) {
        loop {
            match self.cycle().await {
                Ok(()) => {}
                Err(Stop::Over) => return,
                Err(Stop::Exit) => {
                    let gone = std::mem::take(&mut self.id);
                    self.called_again = false;
                    self.world.ledger().retired.push(gone);
                }
            }
            if self.rest().await.is_err() {
                return;
            }
        }
    }

    async fn rest(&mut self) -> Result<(), Over> {
        let time = HASTE.mul_f64(self.rng.random());
        self.world.pause(time).await
    }

    async fn cycle(&mut self) -> Result<(), Stop> {
        let poll = json!({"id": self.id, "geographic_area": area(self.number), "number_of_children": 0});
        let Some(answer) = self.world.post("/poll", &poll).await? else { return Ok(()) };
        if answer.status != 200 {
            self.passing("/poll", &answer);
            return Ok(());
        }
        let (answer, known) = (answer.json(), !self.id.is_empty());
        let id = answer["id"].as_str().unwrap_or_default().to_owned();
        if known && id != self.id {
            self.world.violation(format!("child {} was answered as {id}", self.id));
        }
        self.id.clone_from(&id);
        self.world.ledger().machines.entry(self.number).or_default().0.clone_from(&id);
        if known && !self.called_again {
            self.called_again = true;
            self.world.note(Fact::Registered { child: id.clone() });
        }
        match answer["new_release"].as_str() {
            Some("") => Ok(()),
            Some(offer) => {
                self.world.note(Fact::Shown { child: id, offer: offer.to_owned() });
                self.take(offer.to_owned()).await
            }
            None => {
                self.world.violation(format!("/poll was answered with {answer}"));
                Ok(())
            }
        }
    }

    /// A trouble that passes is 503 and says so; anything else must not happen to a child that does no wrong.
    fn passing(&self, call: &str, answer: &Answer) {
        if answer.status != 503 || !answer.retry_after {
            let (id, status, text) = (&self.id, answer.status, answer.text());
            self.world.violation(format!("{call} of {id} was answered with {status}: {text}"));
        }
    }

    /// Fetches what a deployed agent must get.
    async fn fetch(&mut self, path: &str) -> Result<Bytes, Stop> {
        loop {
            match self.world.get(path).await? {
                Some(answer) if answer.status == 200 => return Ok(answer.body),
                Some(answer) => {
                    let (status, text) = (answer.status, answer.text());
                    self.world.violation(format!("GET {path} was answered with {status}: {text}"));
                    return Err(Stop::Exit);
                }
                None if self.manner == Manner::Deployed => return Err(Stop::Exit),
                None => self.rest().await?,
            }
        }
    }

    async fn take(&mut self, shown: String) -> Result<(), Stop> {
        let text = self.fetch(&format!("/release?childID={}&releaseID={shown}", self.id)).await?;
        let offer = match Offer::read(&String::from_utf8_lossy(&text)) {
            Ok(offer) if offer.id == shown => offer,
            Ok(offer) => {
                self.world.violation(format!("{shown} calls itself {}", offer.id));
                return Ok(());
            }
            Err(error) => {
                self.world.violation(format!("{shown} can't be read by an agent: {error}"));
                return Ok(());
            }
        };
        // One that was taken back for now, because of a pause, may be handed out after all.
        if !offer.stages.is_empty() {
            let (child, offer) = (self.id.clone(), shown.clone());
            self.world.note(Fact::Fetched { child, offer, text: text.clone() });
        }
        let bytes = self.fetch(&format!("/release/functions/{shown}")).await?;
        self.world.note(Fact::Functions { offer: shown.clone(), bytes });
        for function in &offer.functions {
            self.runs(&function.name, Runs::Test);
        }
        let mut rolled_back = false;
        for stage in &offer.stages {
            self.stage(&offer, &text, stage, &mut rolled_back).await?;
            if rolled_back && self.rng.random_bool(0.5) {
                break;
            }
        }
        Ok(())
    }

    /// An offer in hand is the same whenever it is fetched.
    async fn fetch_again(&mut self, offer: &Offer, text: &Bytes) -> Result<(), Stop> {
        let path = format!("/release?childID={}&releaseID={}", self.id, offer.id);
        if let Some(answer) = self.world.get(&path).await?
            && (answer.status != 200 || answer.body != *text)
        {
            let (status, text) = (answer.status, answer.text());
            self.world.violation(format!("{} in the hands of {} is now {status}: {text}", offer.id, self.id));
        }
        Ok(())
    }

    fn runs(&self, function: &str, runs: Runs) {
        let mut ledger = self.world.ledger();
        ledger.machines.entry(self.number).or_default().1.insert(function.to_owned(), runs);
    }

    async fn stage(
        &mut self,
        offer: &Offer,
        text: &Bytes,
        stage: &OfferStage,
        rolled_back: &mut bool,
    ) -> Result<(), Stop> {
        let is_undo = stage.on_success == NextAction::Rollback && stage.new_traffic == 0;
        let fails = *rolled_back || (!is_undo && self.rng.random_bool(FAILURE));
        if stage.kind == "WaitForSignal" && !fails {
            self.wait_for_signal(offer, text, stage).await?;
        } else {
            self.rest().await?;
        }
        let (status, action) =
            if fails { (FAILED, &stage.on_failure) } else { (COMPLETED, &stage.on_success) };
        match action {
            NextAction::Rollout => self.runs(&stage.function, Runs::New(offer.id.clone())),
            NextAction::Rollback => {
                self.runs(&stage.function, Runs::Base);
                *rolled_back = true;
            }
            NextAction::Stage(_) => {}
        }
        let median = self.rng.random_range(2.0..20.0);
        self.report(offer, summary(&stage.name, status, median), true).await?;
        Ok(())
    }

    async fn wait_for_signal(&mut self, offer: &Offer, text: &Bytes, stage: &OfferStage) -> Result<(), Stop> {
        let ask = json!({"id": self.id, "strategy_id": offer.id, "stage_name": stage.name});
        let mut announced = false;
        loop {
            self.rest().await?;
            if self.rng.random_bool(0.1) {
                self.fetch_again(offer, text).await?;
            }
            if !announced {
                let median = self.rng.random_range(2.0..20.0);
                announced = self.report(offer, summary(&stage.name, SUCCESS_WAITING, median), false).await?;
            }
            let Some(answer) = self.world.post("/end_stage", &ask).await? else { continue };
            if answer.status != 200 {
                self.passing("/end_stage", &answer);
            } else if answer.json()["end_stage"] == true {
                let (child, offer, stage) = (self.id.clone(), offer.id.clone(), stage.name.clone());
                self.world.note(Fact::Ended { child, offer, stage });
                return Ok(());
            }
        }
    }

    /// Sends a result; true if it was stored.
    async fn report(&mut self, offer: &Offer, summary: Value, ended: bool) -> Result<bool, Stop> {
        let body =
            json!({"id": self.id, "release_id": offer.id, "stage_summaries": [summary], "next_stage": ""});
        loop {
            match self.world.post("/result", &body).await? {
                Some(answer) if answer.status == 200 => {
                    let (child, offer) = (self.id.clone(), offer.id.clone());
                    self.world.note(Fact::Reported { child, offer, body, ended });
                    return Ok(true);
                }
                // Too late: the release went on without this child.
                Some(answer) if answer.status == 409 && ended => return Ok(false),
                Some(answer) => self.passing("/result", &answer),
                None => {}
            }
            if self.manner == Manner::Deployed || !ended {
                return Ok(false);
            }
            self.rest().await?;
        }
    }
}

/// Starts agents, every sixth of them as deployed ones, the others patient.
pub fn start(world: &Arc<World>, agents: usize, seed: u64) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..agents {
        let manner = if number % 6 == 5 { Manner::Deployed } else { Manner::Patient };
        world.ledger().machines.insert(number, (String::new(), BTreeMap::new()));
        tasks.spawn(Agent::new(world, number, manner, seed).run());
    }
    tasks
}
