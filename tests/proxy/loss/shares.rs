//! The same as of routers of others (`tests/router/loss`, `tests/router/conformance/users.rs`): losses while shares change many times among
//! three variations, and who moves while shares go up and back.

use proxy::{Limits, Proxy, form::TableForm};
use tokio::{net::TcpStream, task::JoinSet};
use traffic::{Bucket, HashFunction, Shares, Table};

use super::{
    callers::{Callers, PATIENCE, all_habits},
    ledger::Ledger,
    message::Wire,
    version::{Behaviour::Good, Place, Version},
};
use crate::world::start;

const CALLS: u32 = 1_000_000;
const CHANGES: u32 = 10_000;
const USERS: u32 = 100_000;
const PARTS: u32 = 20;
/// Where it is set, all of them are made.
const ALL: &str = "CHOIRMASTER_TEST_ALL_CHANGES";
/// By how many points shares of all users may be off with two variations.
const POINTS_OFF: f64 = 0.2;
const NAMES: [&str; 3] = ["A", "B", "C"];
const SALT: &str = "release-7";
/// Callers who ask for users at once.
const CALLERS: u32 = 8;

fn part_of(all: u32) -> u32 {
    if std::env::var_os(ALL).is_some() { all } else { all / PARTS }
}

async fn share(
    proxy: &Proxy,
    versions: &[Version],
    (generation, hundredths): (u32, &[u16]),
    sticky: &serde_json::Value,
) {
    let variation =
        |(name, version): (&&str, &Version)| serde_json::json!({"name": name, "targets": [version.target()]});
    let variations: Vec<_> = NAMES.iter().zip(versions).map(variation).collect();
    let mut service = serde_json::json!({
        "name": "a", "variations": variations, "shares": hundredths, "split": "s", "salt": SALT,
    });
    if !sticky.is_null() {
        service["sticky"] = sticky.clone();
    }
    let table = serde_json::json!({"generation": generation, "services": [service]});
    let table: TableForm = serde_json::from_value(table).unwrap();
    proxy.apply(&table).await.unwrap();
}

async fn versions(count: usize, folder: &std::path::Path) -> Vec<Version> {
    let mut all = Vec::new();
    for name in &NAMES[..count] {
        all.push(Version::start((*name).to_owned(), Good, Place::Here, folder).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_cut_or_doubled_by_changes_of_shares() {
    let steps: [&[u16]; 6] = [
        &[9_500, 500, 0],
        &[9_000, 1_000, 0],
        &[8_500, 500, 1_000],
        &[8_000, 1_000, 1_000],
        &[9_000, 0, 1_000],
        &[10_000, 0, 0],
    ];
    let folder = tempfile::tempdir().unwrap();
    let versions = versions(3, folder.path()).await;
    let running = start(Limits::default());
    let nobody = serde_json::Value::Null;
    share(&running.proxy, &versions, (1, steps[5]), &nobody).await;
    let (calls, changes) = (part_of(CALLS), part_of(CHANGES));
    let callers = Callers::start(running.at, &all_habits(), PATIENCE);
    for change in 1..=changes {
        share(&running.proxy, &versions, (change + 1, steps[change as usize % steps.len()]), &nobody).await;
        let due = (u64::from(calls) * u64::from(change) / u64::from(changes)) as u32;
        while callers.begun() < due {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    let ledger = Ledger::new(callers.finish().await, folder.path());
    let sums = ledger.sums();
    println!("embedded: {changes} changes, {sums}, {} carried out", ledger.executions());
    let doubled = ledger.more_than_once(|_| true);
    assert_eq!((sums.calls - sums.answered, doubled, ledger.invented()), (0, 0, 0), "{sums}");
    assert_eq!(ledger.executions(), sums.calls);
    for name in NAMES {
        assert!(ledger.executions_of(name) > sums.calls / 40, "{name}: {}", ledger.executions_of(name));
    }
}

/// What one of the callers finds of the users that are its.
async fn ask(at: std::net::SocketAddr, caller: u32, users: u32) -> Vec<(u32, u8)> {
    let mut wire = Wire::new(TcpStream::connect(at).await.unwrap());
    let mut found = Vec::new();
    for number in (caller..users).step_by(CALLERS as usize) {
        let request = format!("GET /a/call/1 HTTP/1.1\r\nHost: here\r\nX-User: user-{number}\r\n\r\n");
        wire.write(request.as_bytes()).await.unwrap();
        let answer = wire.read().await.unwrap();
        let name = answer.field("x-choirmaster-version").unwrap_or_default().to_uppercase();
        found.push((number, NAMES.iter().position(|known| *known == name).unwrap() as u8));
    }
    found
}

async fn variations(at: std::net::SocketAddr, users: u32) -> Vec<u8> {
    let mut asking: JoinSet<_> = (0..CALLERS).map(|caller| ask(at, caller, users)).collect();
    let mut of = vec![u8::MAX; users as usize];
    while let Some(found) = asking.join_next().await {
        for (number, which) in found.unwrap() {
            of[number as usize] = which;
        }
    }
    of
}

/// By how many points the share of users may be off. Users are drawn by their keys: the two variations that are promised are held to their
/// word, of which fewer users keep less, and any others to four standard deviations of a fair draw.
fn most_off(wanted: f64, variations: usize, users: u32) -> f64 {
    if variations == 2 {
        return POINTS_OFF * f64::from(USERS / users).sqrt();
    }
    4.0 * (wanted * (100.0 - wanted) / f64::from(users)).sqrt()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_those_users_move_who_must_and_shares_of_users_are_those_wanted() {
    let two: &[&[u16]] = &[&[9_500, 500], &[9_000, 1_000], &[5_000, 5_000], &[9_000, 1_000], &[10_000, 0]];
    let three: &[&[u16]] = &[
        &[9_000, 500, 500],
        &[8_000, 1_000, 1_000],
        &[5_000, 2_000, 3_000],
        &[9_000, 0, 1_000],
        &[10_000, 0, 0],
    ];
    let users = part_of(USERS);
    let sticky = serde_json::json!({"header": "X-User"});
    for steps in [two, three] {
        let folder = tempfile::tempdir().unwrap();
        let versions = versions(steps[0].len(), folder.path()).await;
        let running = start(Limits::default());
        let mut table: Option<Table> = None;
        for (generation, hundredths) in (1..).zip(steps) {
            let shares = Shares::new(*hundredths).unwrap();
            let next = table
                .as_ref()
                .map_or_else(|| Table::new(&shares), |before| before.with_shares(&shares).unwrap());
            share(&running.proxy, &versions, (generation, hundredths), &sticky).await;
            let of = variations(running.at, users).await;
            // Who moves is told by the tables, whose changes are tried in `tests/traffic`.
            for (number, which) in (0..users).zip(&of) {
                let key = format!("user-{number}");
                let bucket = Bucket::of_key(HashFunction::default(), SALT.as_bytes(), key.as_bytes());
                assert_eq!(next.variation(bucket).0, *which, "{key} at {hundredths:?}");
            }
            for (which, wanted) in (0..).zip(*hundredths) {
                let have = of.iter().fold(0_u32, |have, one| have + u32::from(*one == which));
                let (points, wanted) =
                    (100.0 * f64::from(have) / f64::from(users), f64::from(*wanted) / 100.0);
                let off = most_off(wanted, hundredths.len(), users);
                assert!((points - wanted).abs() <= off, "{points} % of users have {which}: {hundredths:?}");
            }
            table = Some(next);
        }
    }
    println!("embedded: {users} users");
}
