//! The invariants, read off the store and asked of the manager.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};
use simulated_children::Offer;

use super::{
    ledger::{Fact, Runs},
    look::rows,
    world::{Answer, World},
};
use crate::store::place::Place;

const ASSIGNMENTS: &str =
    "SELECT r.id, COALESCE(c.id, CAST(a.child_key AS TEXT)), CAST(a.attempt AS TEXT), CAST(a.status AS TEXT),
    COALESCE(a.outcome, ''), CAST(a.stage AS TEXT), CAST(a.stage_status AS TEXT), CAST(a.detail AS TEXT)
    FROM assignments a JOIN releases r ON r.release_key = a.release_key
    LEFT JOIN children c ON c.child_key = a.child_key ORDER BY a.release_key, a.child_key";
const RESULTS: &str = "SELECT CAST(release_key AS TEXT), CAST(child_key AS TEXT), CAST(attempt AS TEXT),
    CAST(stage AS TEXT), CAST(status AS TEXT), CAST(digest AS TEXT) FROM stage_results
    ORDER BY release_key, child_key, attempt, stage";
const RELEASES: &str = "SELECT id, state, CAST(detail AS TEXT) FROM releases ORDER BY release_key";
const CHILDREN: &str = "SELECT id, CAST(child_key AS TEXT) FROM children ORDER BY child_key";
const AUDIT: &str = "SELECT CAST(seq AS TEXT), CAST(at_ms AS TEXT), actor, CAST(events AS TEXT) FROM audit
    ORDER BY seq, idx";
const DEPLOYMENTS: &str = "SELECT c.id, d.function, d.variant, r.id FROM deployments d
    JOIN children c ON c.child_key = d.child_key JOIN releases r ON r.release_key = d.release_key
    ORDER BY d.child_key, d.function";

/// Facts verified at the end.
const MOST_AT_THE_END: usize = 1_500;

/// Wire numbers from here on: the stage has ended.
const ENDED: i32 = 4;

/// A child in a release, as far as it must not move backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    attempt: i32,
    /// 0 `Todo`, 1 `Doing`, 2 over.
    rank: u8,
    status: i32,
    stage: i32,
    stage_status: i32,
    left: BTreeSet<i32>,
}

/// What the store has shown over time.
#[derive(Debug, Default)]
pub struct Sampler {
    assignments: BTreeMap<(String, String), Seen>,
    results: BTreeMap<Vec<String>, (i32, String)>,
    releases: BTreeMap<String, (u8, String)>,
    pub samples: u32,
}

impl Sampler {
    /// Looks once more; answers everything that has moved backwards.
    pub async fn look(&mut self, place: &Place) -> Vec<String> {
        let mut wrong = Vec::new();
        let looked =
            (rows(place, RELEASES).await, rows(place, ASSIGNMENTS).await, rows(place, RESULTS).await);
        let (Some(releases), Some(assignments), Some(results)) = looked else { return wrong };
        self.samples += 1;
        for row in &releases {
            self.release(row, &mut wrong);
        }
        for row in &assignments {
            self.assignment(row, &mut wrong);
        }
        for row in &results {
            self.result(row, &mut wrong);
        }
        if results.len() < self.results.len() {
            wrong.push("stored results have gone".to_owned());
        }
        wrong
    }

    fn release(&mut self, row: &[String], wrong: &mut Vec<String>) {
        let rank = match row[1].as_str() {
            "Planned" => 0,
            "Running" | "Paused" => 1,
            "RollingBack" => 2,
            _ => 3,
        };
        let now = (rank, row[1].clone());
        if let Some(before) = self.releases.insert(row[0].clone(), now.clone())
            && (rank < before.0 || (rank == 3 && before != (3, now.1.clone()) && before.0 == 3))
        {
            wrong.push(format!("release {} went from {} to {}", row[0], before.1, now.1));
        }
    }

    fn assignment(&mut self, row: &[String], wrong: &mut Vec<String>) {
        let number = |at: usize| row[at].parse::<i32>().unwrap();
        let status = number(3);
        let rank = match status {
            1 => 0,
            2 => 1,
            _ => 2,
        };
        let mut now = Seen {
            attempt: number(2),
            rank,
            status,
            stage: number(5),
            stage_status: number(6),
            left: BTreeSet::new(),
        };
        let key = (row[0].clone(), row[1].clone());
        if let Some(before) = self.assignments.get(&key) {
            let same_attempt = before.attempt == now.attempt;
            if same_attempt {
                now.left.clone_from(&before.left);
            }
            if same_attempt && before.stage != now.stage {
                now.left.insert(before.stage);
            }
            let same_stage = same_attempt && before.stage == now.stage;
            let backwards = now.attempt < before.attempt
                || (same_attempt && now.rank < before.rank)
                || (same_attempt && before.rank == 2 && now.status != before.status)
                || (same_stage && now.stage_status < before.stage_status)
                || (same_stage && before.stage_status >= ENDED && now.stage_status != before.stage_status)
                || now.left.contains(&now.stage);
            if backwards {
                wrong.push(format!("{key:?} went from {before:?} to {now:?}"));
            }
        }
        self.assignments.insert(key, now);
    }

    fn result(&mut self, row: &[String], wrong: &mut Vec<String>) {
        let now = (row[4].parse().unwrap(), row[5].clone());
        if let Some(before) = self.results.insert(row[..4].to_vec(), now.clone())
            && (now.0 < before.0 || (before.0 >= ENDED && now != before))
        {
            wrong.push(format!("the result {:?} went from {before:?} to {now:?}", &row[..4]));
        }
    }
}

/// Calls until there is an answer: the manager is up.
async fn ask(call: impl AsyncFn() -> Option<Answer>) -> Answer {
    for _ in 0..3 {
        if let Some(answer) = call().await {
            return answer;
        }
    }
    Answer { status: 0, body: bytes::Bytes::new(), retry_after: false }
}

fn unless(good: bool, what: impl FnOnce() -> String) -> Option<String> {
    (!good).then(what)
}

/// Whether what an answer promised is still so; what is wrong if not.
async fn holds(world: &World, fact: &Fact) -> Option<String> {
    let get = async |path: String| ask(async || world.get(&path).await.ok().flatten()).await;
    let post =
        async |path: &str, body: &Value| ask(async || world.post(path, body).await.ok().flatten()).await;
    match fact {
        Fact::Registered { .. } => None,
        Fact::Shown { child, offer } => {
            let answer = get(format!("/release?childID={child}&releaseID={offer}")).await;
            unless(answer.status == 200, || {
                format!("{offer}, once shown to {child}, is refused: {} {}", answer.status, answer.text())
            })
        }
        Fact::Fetched { child, offer, text } => {
            let answer = get(format!("/release?childID={child}&releaseID={offer}")).await;
            let over = || Offer::read(&answer.text()).is_ok_and(|offer| offer.stages.is_empty());
            unless(answer.status == 200 && (answer.body == *text || over()), || {
                format!("{offer}, once fetched by {child}, is now {} {}", answer.status, answer.text())
            })
        }
        Fact::Functions { offer, bytes } => {
            let answer = get(format!("/release/functions/{offer}")).await;
            unless(answer.status == 200 && answer.body == *bytes, || {
                format!("the functions of {offer} are others")
            })
        }
        Fact::Reported { child, offer, body, .. } => {
            let answer = post("/result", body).await;
            unless(answer.status == 200, || {
                format!(
                    "a stored result of {child} for {offer} is lost: {} {}\n{body}",
                    answer.status,
                    answer.text()
                )
            })
        }
        Fact::Ended { child, offer, stage } => {
            let answer =
                post("/end_stage", &json!({"id": child, "strategy_id": offer, "stage_name": stage})).await;
            unless(answer.status == 200 && answer.json()["end_stage"] == true, || {
                format!(
                    "the end of {stage} in {offer} for {child} is lost: {} {}",
                    answer.status,
                    answer.text()
                )
            })
        }
        Fact::Submitted { release, text } => {
            let again = ask(async || world.submit(text).await.ok().flatten()).await;
            let shown = get(format!("/api/v1/releases/{release}")).await;
            let same = again.status == 200 && shown.json()["strategy"] == *text;
            unless(same, || format!("{release} is another or gone: {} {}", again.status, again.text()))
        }
        Fact::Aborted { release } => {
            let shown = get(format!("/api/v1/releases/{release}")).await.json();
            unless(shown["state"] == "Aborted" || shown["state"] == "RollingBack", || {
                format!("{release} was aborted, and is {}", shown["state"])
            })
        }
    }
}

/// Verifies some of the facts, most of them recent ones.
pub async fn some_hold(world: &World, place: &Place, asker: &World, some: usize, rng: &mut StdRng) {
    let chosen: Vec<Fact> = {
        let ledger = world.ledger();
        let (all, recent) = (ledger.facts.len(), ledger.facts.len().saturating_sub(2 * some));
        if all == 0 {
            return;
        }
        let chosen = (0..some).map(|at| rng.random_range(if at % 3 == 0 { 0 } else { recent }..all));
        chosen
            .map(|at| ledger.facts[at].clone())
            // A fetch in the child's name would take from it what it is about to fetch.
            .filter(|fact| !matches!(fact, Fact::Shown { .. }))
            .filter(|fact| fact.child().is_none_or(|child| !ledger.retired.iter().any(|gone| gone == child)))
            .collect()
    };
    for fact in &chosen {
        if let Some(wrong) = holds(asker, fact).await {
            world.violation(wrong);
        }
    }
    registered(world, place).await;
}

/// Whoever was registered is known.
async fn registered(world: &World, place: &Place) {
    let promised: BTreeSet<String> = {
        let ledger = world.ledger();
        let children = ledger.facts.iter().filter_map(|fact| match fact {
            // One whose agent is gone may have been forgotten.
            Fact::Registered { child } if !ledger.retired.contains(child) => Some(child.clone()),
            _ => None,
        });
        children.collect()
    };
    let Some(known) = rows(place, CHILDREN).await else { return };
    let known: BTreeSet<String> = known.into_iter().map(|mut row| row.remove(0)).collect();
    for child in promised.difference(&known) {
        world.violation(format!("child {child} is not known any more"));
    }
}

/// Verifies every fact that can be verified without acting for a child.
pub async fn each_holds(world: &World, place: &Place, asker: &World) {
    registered(world, place).await;
    let facts = world.ledger().facts.clone();
    for fact in facts.iter().filter(|fact| !matches!(fact, Fact::Shown { .. })) {
        if let Some(wrong) = holds(asker, fact).await {
            world.violation(wrong);
        }
    }
}

/// Undos that wait for somebody: every machine comes back, if under another id.
pub async fn pending_undos(place: &Place) -> Vec<String> {
    let found = rows(place, ASSIGNMENTS).await.unwrap_or_default();
    found
        .iter()
        .filter(|row| {
            let detail: Value = serde_json::from_str(&row[7]).unwrap();
            detail["undo"]["functions"].as_u64().unwrap_or(0) != 0
        })
        .map(|row| row.join(" "))
        .collect()
}

/// Invariant 5: no release is left that neither is over nor says why it stands still.
pub async fn unfinished(place: &Place) -> Vec<String> {
    let found = rows(place, RELEASES).await.unwrap_or_default();
    let over = ["Done", "DoneWithFailures", "Aborted", "RolledBack"];
    found
        .into_iter()
        .filter(|row| !over.contains(&row[1].as_str()))
        .map(|row| format!("{} is {}", row[0], row[1]))
        .collect()
}

/// Whom the unfinished releases wait for.
pub async fn waited_for(place: &Place) -> String {
    let (releases, assignments) = (rows(place, RELEASES).await, rows(place, ASSIGNMENTS).await);
    let open = ["Planned", "Running", "Paused", "RollingBack"];
    let releases = releases.unwrap_or_default().into_iter().filter(|row| open.contains(&row[1].as_str()));
    let open: Vec<_> = releases.collect();
    let assignments = assignments.unwrap_or_default();
    let theirs = assignments.iter().filter(|row| open.iter().any(|release| release[0] == row[0]));
    let children = rows(place, CHILDREN).await.unwrap_or_default();
    let releases = open.iter().chain(theirs).chain(&children).map(|row| row.join(" "));
    let undos = pending_undos(place).await.into_iter().map(|undo| format!("to be undone: {undo}"));
    releases.chain(undos).map(|line| line + "\n").collect()
}

/// Everything that must be so at the end, when all is quiet.
pub async fn all_holds(world: &World, place: &Place, asker: &World) {
    registered(world, place).await;
    versions(world, place).await;
    let before = everything(place).await;
    let facts: Vec<Fact> = {
        let ledger = world.ledger();
        let gone: BTreeSet<&str> = ledger.retired.iter().map(String::as_str).collect();
        let live = |fact: &&Fact| fact.child().is_none_or(|child| !gone.contains(child));
        let facts: Vec<Fact> = ledger.facts.iter().filter(live).cloned().collect();
        // Evenly spread over the whole time.
        let step = facts.len().div_ceil(MOST_AT_THE_END).max(1);
        facts.into_iter().step_by(step).collect()
    };
    for fact in &facts {
        if let Some(wrong) = holds(asker, fact).await {
            world.violation(wrong);
        }
        if let Fact::Reported { child, offer, body, ended: true } = fact
            && let Some(wrong) = another_is_refused(asker, child, offer, body).await
        {
            world.violation(wrong);
        }
    }
    // Invariant 7: all that was said again.
    let after = everything(place).await;
    if before != after {
        let changed: Vec<_> = after.iter().filter(|row| !before.contains(row)).take(5).collect();
        world.violation(format!("calls that were made again have changed something: {changed:?}"));
    }
}

async fn everything(place: &Place) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for sql in [ASSIGNMENTS, RESULTS, RELEASES, DEPLOYMENTS] {
        all.extend(rows(place, sql).await.unwrap());
    }
    all
}

/// Another result for a stage that has ended is refused.
async fn another_is_refused(world: &World, child: &str, offer: &str, body: &Value) -> Option<String> {
    // An undo ends the same way whatever is said of it.
    if offer.contains(".undo") {
        return None;
    }
    let mut other = body.clone();
    other["stage_summaries"][0]["f2_times_summary"]["median"] = json!(1234.5);
    let answer = ask(async || world.post("/result", &other).await.ok().flatten()).await;
    unless(answer.status == 409, || {
        format!("another result of {child} for {offer} is answered with {}: {}", answer.status, answer.text())
    })
}

/// Invariant 6, and what the store says of each machine: it runs what it is said to run, and nobody is left with the
/// new version of a release that was not completed there.
async fn versions(world: &World, place: &Place) {
    let (machines, aborted) = {
        let ledger = world.ledger();
        let aborted: Vec<String> = ledger
            .facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Aborted { release } => Some(release.clone()),
                _ => None,
            })
            .collect();
        (ledger.machines.clone(), aborted)
    };
    let deployed: BTreeMap<(String, String), (String, String)> = rows(place, DEPLOYMENTS)
        .await
        .unwrap()
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].clone()), (row[2].clone(), row[3].clone())))
        .collect();
    for (id, functions) in machines.values() {
        for (function, runs) in functions {
            let said = deployed.get(&(id.clone(), function.clone())).map(|(variant, _)| variant.as_str());
            let agrees = match runs {
                Runs::Base => said != Some("new"),
                Runs::Test => false,
                Runs::New(_) => said != Some("base"),
            };
            if !agrees {
                let trail = trail(world, place, id).await;
                world.violation(format!(
                    "{function} at {id}: it runs {runs:?}, the store says {said:?}:\n{trail}"
                ));
            }
            if let Runs::New(offer) = runs
                && let Some(release) = aborted.iter().find(|release| is_of(offer, release))
            {
                let trail = trail(world, place, id).await;
                world.violation(format!(
                    "{id} was left with the new {function} of {release}, which was aborted:\n{trail}"
                ));
            }
        }
    }
}

/// Whether an offer belongs to a release; offers made anew have a suffix.
fn is_of(offer: &str, release: &str) -> bool {
    offer.strip_prefix(release).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a child was answered, and what the manager wrote down about it.
async fn trail(world: &World, place: &Place, child: &str) -> String {
    let mut lines: Vec<String> = {
        let ledger = world.ledger();
        let theirs = ledger.facts.iter().filter(|fact| fact.child() == Some(child));
        theirs.map(|fact| format!("{:.400}", format!("{fact:?}"))).collect()
    };
    let children = rows(place, CHILDREN).await.unwrap_or_default();
    let key = children.into_iter().find(|row| row[0] == child).map(|mut row| row.remove(1));
    lines.push(format!("its key is {key:?}"));
    for sql in [ASSIGNMENTS, DEPLOYMENTS, AUDIT] {
        let found = rows(place, sql).await.unwrap_or_default();
        let theirs = found.into_iter().filter(|row| row.iter().any(|text| text.contains(child)));
        lines.extend(theirs.map(|row| row.join(" | ")));
    }
    lines.join("\n")
}
