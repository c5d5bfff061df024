//! A child as deployed agents are, with in its hands what the earlier build gave it.

use serde_json::{Map, Value, json};
use simulated::Offer;

use crate::world::{World, summary};

const WAITING: u8 = 2;
const COMPLETED: u8 = 4;

pub struct Actor {
    pub name: String,
    pub id: String,
    area: Value,
    more: Map<String, Value>,
    hand: Option<Hand>,
    /// What a repeat of each of its downloads gave before.
    texts: Vec<(String, String)>,
    /// Offers it has downloaded since.
    pub taken: Vec<String>,
}

struct Hand {
    offer: String,
    /// Name, and whether it ends when it is told to.
    stages: Vec<(String, bool)>,
    at: usize,
    /// It has said that it waits for the end of this stage.
    waits: bool,
}

impl Hand {
    fn of(offer: &str, text: &str) -> Option<Self> {
        let read = Offer::read(text).unwrap_or_else(|e| panic!("{offer}: {e}: {text}"));
        let stages = read.stages.iter().map(|s| (s.name.clone(), s.kind == "WaitForSignal"));
        let stages: Vec<_> = stages.collect();
        (!stages.is_empty()).then(|| Self { offer: offer.to_owned(), stages, at: 0, waits: false })
    }
}

impl Actor {
    /// The children of a frozen store.
    pub fn all(frozen: &Value) -> Vec<Self> {
        frozen["children"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, child)| Self::frozen(name, child))
            .collect()
    }

    fn frozen(name: &str, child: &Value) -> Self {
        let texts = child["texts"].as_object().unwrap();
        let hand = child["offer"].as_str().and_then(|offer| {
            let mut hand = Hand::of(offer, texts[offer]["given"].as_str().unwrap())?;
            let stage = child["stage"].as_str().unwrap();
            hand.at = hand.stages.iter().position(|(name, _)| name == stage).unwrap();
            Some(hand)
        });
        let shown = |text: &Value| text.get("again").unwrap_or(&text["given"]).as_str().unwrap().to_owned();
        Self {
            name: name.to_owned(),
            id: child["id"].as_str().unwrap().to_owned(),
            area: child["area"].clone(),
            more: child["more"].as_object().unwrap().clone(),
            hand,
            texts: texts.iter().map(|(offer, text)| (offer.clone(), shown(text))).collect(),
            taken: Vec::new(),
        }
    }

    /// A child that has nothing yet, and asks for an id.
    pub async fn fresh(world: &World, name: &str, area: &Value) -> Self {
        let mut actor = Self {
            name: name.to_owned(),
            id: String::new(),
            area: area.clone(),
            more: Map::new(),
            hand: None,
            texts: Vec::new(),
            taken: Vec::new(),
        };
        actor.poll(world).await;
        actor.poll(world).await;
        actor
    }

    /// Asks again for everything that it was ever given: byte for byte the same.
    pub async fn asks_again(&self, world: &World) {
        for (offer, text) in &self.texts {
            let answer = world.fetch(&self.id, offer).await.ok().text();
            assert_eq!(answer, *text, "{} asks for {offer} again", self.name);
            world.get(&format!("/release/functions/{offer}?childID={}", self.id)).await.ok();
        }
    }

    async fn poll(&mut self, world: &World) -> String {
        let mut body = json!({"id": self.id, "geographic_area": self.area, "number_of_children": 0});
        body.as_object_mut().unwrap().extend(self.more.clone());
        let answer = world.post("/poll", &body).await.ok().json();
        answer["id"].as_str().unwrap().clone_into(&mut self.id);
        answer["new_release"].as_str().unwrap().to_owned()
    }

    /// One step of what it does all day; whether it had something to do.
    pub async fn step(&mut self, world: &World) -> bool {
        match self.hand.take() {
            Some(hand) => self.hand = self.go_on(world, hand).await,
            None => return self.look(world).await,
        }
        true
    }

    async fn look(&mut self, world: &World) -> bool {
        let offer = self.poll(world).await;
        if offer.is_empty() {
            return false;
        }
        let text = world.fetch(&self.id, &offer).await.ok().text();
        world.get(&format!("/release/functions/{offer}?childID={}", self.id)).await.ok();
        self.hand = Hand::of(&offer, &text);
        self.taken.push(offer);
        true
    }

    /// It walks on through what is listed, whatever the manager says of it.
    async fn go_on(&mut self, world: &World, mut hand: Hand) -> Option<Hand> {
        let (stage, is_ended) = hand.stages[hand.at].clone();
        if is_ended {
            if !hand.waits {
                self.report(world, &hand, &stage, WAITING).await;
                hand.waits = true;
            }
            let answer = world.end_stage(&self.id, &hand.offer, &stage).await.ok().json();
            if answer["end_stage"] != true {
                return Some(hand);
            }
        }
        self.report(world, &hand, &stage, COMPLETED).await;
        (hand.at, hand.waits) = (hand.at + 1, false);
        (hand.at < hand.stages.len()).then_some(hand)
    }

    /// 409 is for what came too late; an agent doesn't mind.
    async fn report(&self, world: &World, hand: &Hand, stage: &str, status: u8) {
        let next = hand.stages.get(hand.at + 1).filter(|_| status == COMPLETED);
        let next = next.map_or("", |(name, _)| name.as_str());
        let body = json!({"id": self.id, "release_id": hand.offer, "stage_summaries": [summary(stage, status)],
            "next_stage": next});
        let answer = world.post("/result", &body).await;
        let what = format!("{} on {stage} of {}: {}", self.name, hand.offer, answer.text());
        assert!(matches!(answer.status, 200 | 409), "{what}");
    }
}
