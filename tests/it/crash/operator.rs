//! Whoever submits releases, one after the other, and aborts or pauses some of them on the way.

use std::{path::Path, sync::Arc, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::json;

use super::{
    ledger::Fact,
    world::{Answer, Over, World},
};

/// Between two looks or tries.
const PAUSE: Duration = Duration::from_millis(15);

/// What is done to a release on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing.
    Left,
    Aborted,
    Paused,
}

/// The samples in the order in which they are submitted, again and again.
const PLAN: [(&str, Way); 5] = [
    ("two-stage", Way::Left),
    ("canary", Way::Aborted),
    ("jump", Way::Left),
    ("two-functions", Way::Paused),
    ("two-stage", Way::Aborted),
];

#[derive(Clone, Copy)]
enum Call<'a> {
    Submit(&'a str),
    Act(&'a str),
    Show(&'a str),
    Forget(&'a str),
}

pub struct Operator {
    world: Arc<World>,
    rng: StdRng,
    /// Of the ids whose agents are gone.
    looked_after: usize,
}

/// The text of a sample under another id.
pub fn sample(name: &str, id: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("releases/{name}.yml"));
    let text = std::fs::read_to_string(path).unwrap();
    let renamed = text.replacen(&format!("\nid: {name}\n"), &format!("\nid: {id}\n"), 1);
    assert_ne!(renamed, text);
    renamed
}

impl Operator {
    pub fn new(world: &Arc<World>, seed: u64) -> Self {
        Self { world: Arc::clone(world), rng: StdRng::seed_from_u64(seed ^ 0x0BE7_A704), looked_after: 0 }
    }

    /// Submits releases until `enough`, and waits for the last one's end.
    pub async fn run(mut self, enough: impl Fn() -> bool) -> Result<u32, Over> {
        let mut number = 0;
        while !enough() {
            let (name, way) = PLAN[number as usize % PLAN.len()];
            number += 1;
            let id = format!("{name}-{number}");
            self.release(&sample(name, &id), &id, way).await?;
        }
        Ok(number)
    }

    async fn release(&mut self, text: &str, id: &str, way: Way) -> Result<(), Over> {
        self.until_answered(id, &[200, 201], Call::Submit(text)).await?;
        self.world.note(Fact::Submitted { release: id.to_owned(), text: text.to_owned() });
        let wanted = self.rng.random_range(1..30);
        if way != Way::Left && self.wait_for_work(id, wanted).await? {
            let action = if way == Way::Aborted { "abort" } else { "pause" };
            if self.act(id, action).await? {
                if way == Way::Aborted {
                    self.world.note(Fact::Aborted { release: id.to_owned() });
                } else {
                    self.world.pause(Duration::from_millis(300)).await?;
                    self.act(id, "resume").await?;
                }
            }
        }
        while !self.is_over(id).await? {
            self.forget_the_gone().await?;
            self.world.pause(PAUSE).await?;
        }
        Ok(())
    }

    /// Forgets most of the children whose agents are gone; deadlines take care of the others.
    async fn forget_the_gone(&mut self) -> Result<(), Over> {
        let gone: Vec<String> = self.world.ledger().retired.iter().skip(self.looked_after).cloned().collect();
        for child in gone {
            if self.rng.random_bool(0.8) {
                let path = format!("/api/v1/children/{child}");
                self.until_answered(&child, &[204, 404, 409], Call::Forget(&path)).await?;
            }
            self.looked_after += 1;
        }
        Ok(())
    }

    /// Acts until there is an answer; false if the release ended before.
    async fn act(&self, id: &str, action: &str) -> Result<bool, Over> {
        let path = format!("/api/v1/releases/{id}/{action}");
        let answer = self.until_answered(id, &[200, 409], Call::Act(&path)).await?;
        Ok(answer.status == 200)
    }

    async fn until_answered(&self, id: &str, expected: &[u16], call: Call<'_>) -> Result<Answer, Over> {
        loop {
            let answer = match call {
                Call::Submit(text) => self.world.submit(text).await?,
                Call::Act(path) => {
                    self.world.post(path, &json!({"by": "test", "note": "as planned"})).await?
                }
                Call::Show(path) => self.world.get(path).await?,
                Call::Forget(path) => self.world.call(Method::DELETE, path, None).await?,
            };
            match answer {
                Some(answer) if expected.contains(&answer.status) => return Ok(answer),
                Some(answer) if answer.status != 503 || !answer.retry_after => {
                    let (status, text) = (answer.status, answer.text());
                    self.world.violation(format!("the operator's call about {id}: {status}: {text}"));
                    return Err(Over);
                }
                _ => self.world.pause(PAUSE).await?,
            }
        }
    }

    async fn state(&self, id: &str) -> Result<String, Over> {
        let path = format!("/api/v1/releases/{id}");
        let answer = self.until_answered(id, &[200], Call::Show(&path)).await?;
        Ok(answer.json()["state"].as_str().unwrap_or_default().to_owned())
    }

    async fn is_over(&self, id: &str) -> Result<bool, Over> {
        Ok(matches!(self.state(id).await?.as_str(), "Done" | "DoneWithFailures" | "Aborted" | "RolledBack"))
    }

    /// Waits until so many answers about the release have come; false if it ended before.
    async fn wait_for_work(&self, id: &str, wanted: usize) -> Result<bool, Over> {
        loop {
            let seen = {
                let ledger = self.world.ledger();
                let about = |fact: &&Fact| match fact {
                    Fact::Fetched { offer, .. } | Fact::Reported { offer, .. } => offer.starts_with(id),
                    _ => false,
                };
                ledger.facts.iter().rev().filter(about).count()
            };
            if seen >= wanted {
                return Ok(true);
            }
            if self.is_over(id).await? {
                return Ok(false);
            }
            self.world.pause(PAUSE).await?;
        }
    }
}
