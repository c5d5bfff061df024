//! What children send, in the shape of the deployed agents' requests.

use std::fmt::Write as _;

use crate::load::Requests;

/// Three stages, each of which waits for the signal.
pub const STRATEGY: &str = include_str!("../../releases/gradual.yml");

/// Its id, and so the id of its offer.
pub const OFFER: &str = "gradual";

/// Its stages, in order.
pub const STAGES: [&str; 3] = ["5 percent", "25 percent", "50 percent"];

/// Areas lie in a grid of this many columns.
const COLUMNS: usize = 1_000;

/// As wide and high as a cell of the grid, in degrees.
const CELL: f64 = 0.05;

/// A child that calls: its place, which gives its area, and its id.
#[derive(Debug, Clone)]
pub struct Caller {
    pub index: usize,
    pub id: String,
}

/// Children call in no order. This one is the same each time.
pub fn shuffle(mut callers: Vec<Caller>) -> Vec<Caller> {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    const INCREMENT: u64 = 1_442_695_040_888_963_407;
    let mut random = INCREMENT;
    for at in (1..callers.len()).rev() {
        random = random.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        callers.swap(at, (random >> 33) as usize % (at + 1));
    }
    callers
}

/// The id of a child that a store is filled with.
pub fn child_id(index: usize) -> String {
    format!("c{index:011}")
}

/// The area of a child: a rectangle of its own, in the many digits that deployed agents send.
pub fn area(index: usize) -> String {
    let west = -20.0 + CELL * (index % COLUMNS) as f64 + 0.001_383_899_631_71;
    let south = -40.0 + CELL * (index / COLUMNS) as f64 + 0.008_553_843_643_43;
    let (east, north) = (west + 0.043_384_886_954_68, south + 0.038_818_092_982_94);
    format!(
        "{{\"type\":\"Polygon\",\"coordinates\":[[[{west:.14},{south:.14}],[{east:.14},{south:.14}],\
         [{east:.14},{north:.14}],[{west:.14},{north:.14}],[{west:.14},{south:.14}]]]}}"
    )
}

/// What agents call their bodies.
pub const JSON: &str = "application/json";

pub fn post(path: &str, kind: &str, body: &str) -> String {
    let mut request = String::with_capacity(body.len() + 200);
    let _ = write!(
        request,
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:9999\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {}\r\n\
         Content-Type: {kind}\r\nAccept-Encoding: gzip\r\n\r\n{body}",
        body.len()
    );
    request
}

pub fn get(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9999\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"
    )
}

fn poll(id: &str, index: usize) -> String {
    poll_at("/poll", id, index)
}

/// A poll that may wait.
pub fn poll_at(path: &str, id: &str, index: usize) -> String {
    poll_with(path, id, &area(index))
}

/// A poll with this area.
pub fn poll_with(path: &str, id: &str, area: &str) -> String {
    post(path, JSON, &format!("{{\"geographic_area\":{area},\"id\":\"{id}\",\"number_of_children\":0}}"))
}

/// Their polls.
pub fn polls(callers: &[Caller]) -> Requests {
    callers.iter().map(|caller| poll(&caller.id, caller.index)).collect()
}

/// First polls of that many children.
pub fn registrations(count: usize) -> Requests {
    (0..count).map(|index| poll("", index)).collect()
}

/// Downloads of the first offer.
pub fn fetches(callers: &[Caller]) -> Requests {
    fetches_of(callers, 0)
}

/// Downloads of the offer of a stage, from 0.
pub fn fetches_of(callers: &[Caller], stage: usize) -> Requests {
    let offer = offer(stage);
    let path = |caller: &Caller| format!("/release?childID={}&releaseID={offer}", caller.id);
    callers.iter().map(|caller| get(&path(caller))).collect()
}

/// Each stage is an offer of its own.
fn offer(stage: usize) -> String {
    if stage == 0 { OFFER.to_owned() } else { format!("{OFFER}.{}", stage + 1) }
}

/// Questions whether the first stage may end.
pub fn end_stages(callers: &[Caller]) -> Requests {
    callers
        .iter()
        .map(|Caller { id, .. }| {
            let stage = STAGES[0];
            post(
                "/end_stage",
                JSON,
                &format!("{{\"id\":\"{id}\",\"strategy_id\":\"{OFFER}\",\"stage_name\":\"{stage}\"}}"),
            )
        })
        .collect()
}

/// The request for the functions.
pub fn functions() -> Requests {
    std::iter::once(get(&format!("/release/functions/{OFFER}"))).collect()
}

/// Results of all children in a stage, from 0: first all wait for the signal, then all have completed. Each is a change.
pub fn results(callers: &[Caller], stage: usize) -> Requests {
    let mut requests = Requests::default();
    let (offer, name) = (offer(stage), STAGES[stage]);
    for status in [2, 4] {
        for caller in callers {
            let body = result(&caller.id, caller.index, &offer, name, status);
            requests.push(&post("/result", JSON, &body));
        }
    }
    requests
}

/// The body of a result.
pub fn result(id: &str, index: usize, offer: &str, stage: &str, status: u8) -> String {
    // As an agent measures: another number of many digits each time.
    let ms = 6.0 + (index % 977) as f64 * 0.004_217_33;
    let times =
        |ms: f64| format!("{{\"median\":{ms:.6},\"minimum\":{:.6},\"maximum\":{:.6}}}", ms * 0.7, ms * 3.1);
    let (proxy, f1, f2) = (times(ms + 1.0), times(ms), times(ms * 1.1));
    format!(
        "{{\"id\":\"{id}\",\"release_id\":\"{offer}\",\"stage_summaries\":[{{\"stage_name\":\"{stage}\",\
         \"proxy_times\":{proxy},\"f1_times_summary\":{f1},\"f2_times_summary\":{f2},\"f1_err_rate\":0,\
         \"f2_err_rate\":0.004,\"status\":{status}}}],\"next_stage\":\"\"}}"
    )
}
