//! Polls while some children report one large area after another, of the kind that takes longest to check: long edges
//! side by side, in whose boxes all the others reach.

use std::{sync::Arc, thread};

use crate::{
    bodies::{self, Caller},
    fill,
    load::{self, Cursor, Load, Requests, Work},
    rows::{Bench, ready, say},
    server::Server,
    table::{Side, Target},
};

/// Children that report large areas, each on a connection of its own.
const SURVEYED: usize = 8;

/// As many vertices as an area may have.
const VERTICES: usize = 1_000;

/// Other places of the same shape, so that each poll brings another area.
const PLACES: usize = 2;

impl Bench {
    /// Rounds without and with them alternate.
    pub async fn large_areas(&mut self) -> anyhow::Result<()> {
        say("large areas");
        let url = self.sqlite("areas.db");
        let callers = fill::children(&url, self.sizes.children).await?;
        let (surveyed, others) = callers.split_at(SURVEYED);
        let server = ready(Server::ours(&url, None)?)?;
        let polls = Arc::new(bodies::polls(others));
        let polling = Work::Each { cursor: Cursor::wrapping(polls.len()), requests: polls };
        let large = Arc::new(large(surveyed));
        let reporting = Work::Each { cursor: Cursor::wrapping(large.len()), requests: large };
        let [mut idle, mut busy, mut surveys] = [Side::default(), Side::default(), Side::default()];
        for _ in 0..self.sizes.rounds {
            let alone = load::run(&self.load(&server, polling.clone(), self.sizes.round))?;
            idle.add(alone.per_second(), &alone.latency);
            let beside =
                Load { connections: SURVEYED, ..self.load(&server, reporting.clone(), self.sizes.round) };
            let beside = thread::spawn(move || load::run(&beside));
            let meanwhile = load::run(&self.load(&server, polling.clone(), self.sizes.round))?;
            busy.add(meanwhile.per_second(), &meanwhile.latency);
            let reported =
                beside.join().map_err(|_| anyhow::anyhow!("the load of large areas panicked"))??;
            surveys.add(reported.per_second(), &reported.latency);
        }
        let what = format!("`POST /poll` while {SURVEYED} children report areas of {VERTICES} vertices");
        self.table.compare(&what, &busy, "idle", &idle, Target::P99(5.0));
        let what = format!("`POST /poll` of these {SURVEYED}");
        self.table.compare(&what, &surveys, "idle polls", &idle, Target::None);
        server.stop()
    }
}

fn large(callers: &[Caller]) -> Requests {
    let area = |at: usize| zigzag(f64::from(u8::try_from(at).unwrap_or(u8::MAX)) * 0.01);
    let of = |at: usize| callers.iter().map(move |caller| bodies::poll_with("/poll", &caller.id, &area(at)));
    (0..PLACES).flat_map(of).collect()
}

/// Teeth beside each other, each reaching over all the others.
fn zigzag(west: f64) -> String {
    let teeth = (VERTICES - 2) / 2;
    let tooth = |n: usize| {
        let along = west + n as f64 * 1e-4;
        format!("[{along:.6},0.0],[{:.6},10.0]", along + 10.0)
    };
    let teeth: Vec<String> = (0..teeth).map(tooth).collect();
    let teeth = teeth.join(",");
    format!(
        "{{\"type\":\"Polygon\",\"coordinates\":[[{teeth},[20.0,-1.0],[{west:.6},-1.0],[{west:.6},0.0]]]}}"
    )
}
