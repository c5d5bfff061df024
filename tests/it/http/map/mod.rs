//! Maps: what they show is what the rest of the API says.

mod follow;
mod past;
mod places;
mod planned;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::World;

/// A map, read by its description.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    pub epoch: u64,
    pub generation: u32,
    /// Number → longitude and latitude in 10⁻⁷ degrees, byte of the state, wave.
    pub children: BTreeMap<u32, (i32, i32, u8, u32)>,
}

impl Map {
    pub fn read(body: &[u8]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        assert_eq!((&body[..4], body[4], body[5]), (&b"CHMP"[..], 1, 0));
        let count = u32_at(8) as usize;
        let mut columns = Columns { body, at: 32 };
        let mut number = 0;
        let mut next = || {
            number += columns.leb128() as u32;
            number
        };
        let numbers: Vec<u32> = (0..count).map(|_| next()).collect();
        columns.at = 32 + u32_at(28) as usize;
        assert_eq!(columns.at % 4, 0);
        let x: Vec<i32> = (0..count).map(|_| columns.i32()).collect();
        let y: Vec<i32> = (0..count).map(|_| columns.i32()).collect();
        let states: Vec<u8> = (0..count).map(|_| columns.byte()).collect();
        let waves: Vec<u32> = (0..count).map(|_| columns.leb128() as u32).collect();
        assert_eq!(columns.at, body.len(), "nothing is behind the last column");
        assert_eq!(u32_at(24), waves.iter().max().map_or(0, |wave| wave + 1));
        let children = (0..count).map(|at| (numbers[at], (x[at], y[at], states[at], waves[at])));
        Self {
            epoch: u64::from_le_bytes(body[16..24].try_into().unwrap()),
            generation: u32_at(12),
            children: children.collect(),
        }
    }

    pub fn states(&self) -> BTreeMap<u32, u8> {
        self.children.iter().map(|(number, (.., state, _))| (*number, state & 0x3f)).collect()
    }
}

/// Bytes that are read one after the other.
pub struct Columns<'b> {
    pub body: &'b [u8],
    pub at: usize,
}

impl Columns<'_> {
    pub fn byte(&mut self) -> u8 {
        self.at += 1;
        self.body[self.at - 1]
    }

    pub fn i32(&mut self) -> i32 {
        self.at += 4;
        i32::from_le_bytes(self.body[self.at - 4..self.at].try_into().unwrap())
    }

    pub fn leb128(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }
}

pub async fn map_of(world: &World, path: &str) -> Map {
    let answer = world.get(path).await.ok();
    assert_eq!(answer.header("content-type"), "application/vnd.choirmaster.map");
    Map::read(&answer.body)
}

/// A child with this area, or with none.
pub async fn child_at(world: &World, area: Option<Value>) -> String {
    let mut body = json!({"id": "", "number_of_children": 0, "kind": "agent"});
    if let Some(area) = area {
        body["geographic_area"] = area;
    }
    let answer = world.post("/poll", &body).await.ok().json();
    let id = answer["id"].as_str().unwrap().to_owned();
    body["id"] = json!(id);
    world.post("/poll", &body).await.ok();
    id
}

/// A rectangle.
pub fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Value {
    let ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
    json!({"type": "Polygon", "coordinates": [ring]})
}

/// What a child of a release is to be shown as, by what the list of children says of it.
pub fn expected(child: &Value) -> Vec<&'static str> {
    let text = |field: &str| child[field].as_str().unwrap_or_default().to_owned();
    if text("offer").contains(".undo") {
        return vec!["taking_back", "unconfirmed"];
    }
    let by_outcome = |outcome: &str| match outcome {
        "succeeded" => "done",
        "failed" => "failed",
        "timed_out" => "timed_out",
        "unreachable" => "unreachable",
        "lost" => "lost",
        "undone" => "taken_back",
        "untested" => "untested",
        "excluded" => "excluded",
        other => panic!("{other}: {child}"),
    };
    vec![match (text("status").as_str(), text("stage_status").as_str()) {
        ("Todo", _) => "waiting",
        ("Doing", "SuccessWaiting") => "held",
        ("Doing", _) => "doing",
        _ => by_outcome(&text("outcome")),
    }]
}

/// Those who have a part in a release, by id.
async fn children_of(world: &World, release: &str) -> BTreeMap<String, Value> {
    let (mut listed, mut after) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/api/v1/releases/{release}/children?limit=1000{after}");
        let page = world.get(&path).await.ok().json();
        let items = page["items"].as_array().unwrap().iter();
        listed.extend(items.map(|child| (child["child"].as_str().unwrap().to_owned(), child.clone())));
        let Some(next) = page["next"].as_str() else { return listed };
        after = format!("&after={next}");
    }
}

/// The map of a release says of each child what the list of its children says, and so does what is asked of one.
pub async fn assert_agrees(world: &World, release: &str) -> Map {
    let map = map_of(world, &format!("/api/v1/releases/{release}/map")).await;
    let listed = children_of(world, release).await;
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let mut found = 0;
    for (number, state) in map.states() {
        let path = format!("/api/v1/map/children/{number}?release={release}");
        let one = world.get(&path).await.ok().json();
        let name = model::MapState::from_number(state).unwrap().name();
        assert_eq!(one["state"], name, "{one}");
        *counted.entry(name.to_owned()).or_default() += 1;
        match listed.get(one["id"].as_str().unwrap()) {
            Some(child) => {
                found += 1;
                assert!(expected(child).contains(&name), "{name}: {child}");
                assert_eq!(child["wave"], one["wave"]);
                assert_eq!(u64::from(map.children[&number].3) + 1, child["wave"].as_u64().unwrap());
            }
            None => assert_eq!(name, "no_part", "{one}"),
        }
    }
    assert_eq!(found, listed.len());
    let cells = world.get(&format!("/api/v1/releases/{release}/map/cells")).await.ok().json();
    assert_eq!(cells["total"], json!(counted));
    map
}
