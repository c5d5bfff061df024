//! A full disk: nothing is shown that is not stored, nobody is told a lie, and it goes on when there is room again.
//!
//! The limit on the size of a file that a process may write stands in for the disk: it can be lifted from outside.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::time::timeout;

use super::{
    agent, check,
    kill::until_quiet,
    operator::Operator,
    server::{Start, tail},
    world::World,
};
use crate::{
    deadline::DEADLINE,
    seed::seed,
    store::place::{Kind, Place},
};

/// The log of the store reaches this size before it is folded into the file for the first time, in bytes.
const ROOM: u64 = 1_500_000;

/// Callers are told to come back after ten seconds.
const REFUSED_BY: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_commits_and_nothing_else_until_there_is_room() {
    Place::with(Kind::Sqlite, async |place| {
        let start = Start { file_limit: Some(ROOM), ..Start::on(place) };
        let (world, asker) = (World::new(), World::new());
        let server = start.listening().await;
        world.serves_at(Some(server.address));
        asker.serves_at(Some(server.address));
        let agents = agent::start(&world, 8, seed());
        let room = Arc::new(AtomicBool::new(false));
        let operator = tokio::spawn(Operator::new(&world, seed()).run({
            let room = Arc::clone(&room);
            move || room.load(Ordering::Relaxed)
        }));
        // Somebody new can't be registered without a commit.
        let newcomer = json!({"id": "", "kind": "agent"});
        let refused = timeout(REFUSED_BY, async {
            loop {
                let answer = asker.post("/poll", &newcomer).await.unwrap().expect("the manager is gone");
                if answer.status != 200 {
                    return answer;
                }
            }
        });
        let refused = refused.await.expect("the disk is never full");
        assert_eq!((refused.status, refused.retry_after), (503, true), "{}", refused.text());
        let pid = server.id().to_string();
        assert!(
            Command::new("prlimit")
                .args(["--pid", &pid, "--fsize=unlimited:unlimited"])
                .status()
                .unwrap()
                .success()
        );
        room.store(true, Ordering::Relaxed);
        let ended = timeout(DEADLINE, operator).await;
        let quiet = until_quiet(place, DEADLINE).await;
        world.stop.cancel();
        agents.join_all().await;
        assert!(quiet && ended.is_ok(), "{}\n{}", check::waited_for(place).await, tail(&start.log));
        check::all_holds(&world, place, &asker).await;
        let violations = world.ledger().violations.join("\n");
        assert!(violations.is_empty(), "{violations}\n{}", tail(&start.log));
        server.kill();
    })
    .await;
}
