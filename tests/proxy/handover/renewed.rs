//! The supervisor becomes the program that is on disk, too.

use proxy::control::form::{Status, Upgrading};

use super::{
    load::{Callers, Counting},
    processes::{self, Broken, Held, kill, lives, wait_until},
};

/// Zombies and others that this process started and has not waited for.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    let listed: Vec<String> = threads.map(|thread| of_thread(thread.unwrap())).collect();
    listed.iter().flat_map(|pids| pids.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_to_another_program_replaces_supervisor_without_losing_calls() {
    let held = Held::start_with_own_program().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 6);
    for upgrade in 0..5 {
        callers.make(40).await;
        held.exchange_program();
        let listen = held.status().await.listen;
        held.upgrade().await;
        wait_until(async || held.are_of_the_program_there().await == (true, true)).await;
        let status = held.status().await;
        assert_eq!((status.listen, status.held), (listen, true));
        held.put(upgrade + 2, version.at).await;
        // The new one does what supervisors do, at once: the question waits until it is there.
        held.upgrade().await;
        callers.make(20).await;
        let pid = held.status().await.pid;
        processes::terminate(pid);
        wait_until(async || held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
            .await;
    }
    callers.make(40).await;
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    assert_eq!(version.answered(), made.answered);
    // Nothing is left of the processes before, which were its children as another program.
    let serving = held.status().await.pid;
    wait_until(async || children_of(held.supervisor()) == [serving]).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_holder_starts_a_process_again_that_is_killed_also_while_it_is_renewed() {
    let held = Held::start_with_own_program().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    for turn in 0..6 {
        held.exchange_program();
        let Upgrading { pid } = held.client.post("/upgrade").await.unwrap();
        let serves = async |others: &[u32]| {
            held.client.get::<Status>("/status").await.is_ok_and(|status| !others.contains(&status.pid))
        };
        wait_until(async || serves(&[pid]).await).await;
        // In the middle of it, at another moment each time.
        tokio::time::sleep(std::time::Duration::from_millis(3 * turn)).await;
        let next = held.status().await.pid;
        kill(next);
        wait_until(async || serves(&[pid, next]).await).await;
        assert_eq!(held.status().await.table.generation, 1);
        wait_until(async || held.are_of_the_program_there().await == (true, true)).await;
        wait_until(async || held.status().await.held).await;
    }
    let callers = Callers::start(held.at, 2);
    callers.make(20).await;
    assert_eq!(callers.end().await.lost, 0);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_to_a_program_that_does_not_serve_leaves_the_holder_what_it_is() {
    let held = Held::start_with_own_program().await;
    held.put(1, Counting::start().await.at).await;
    held.exchange_program();
    held.break_program(Some(Broken::AtOnce));
    held.client.post::<Upgrading>("/upgrade").await.unwrap();
    wait_until(async || held.status().await.upgrade_failed.is_some()).await;
    assert_eq!(held.are_of_the_program_there().await, (false, false));
    assert!(lives(held.supervisor()));
    held.break_program(None);
    held.upgrade().await;
    wait_until(async || held.are_of_the_program_there().await == (true, true)).await;
    wait_until(async || held.status().await.held).await;
    held.stop().await;
}
