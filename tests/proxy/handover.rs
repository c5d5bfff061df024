//! Processes that end, are killed and are renewed while calls go on: supervisor and serving processes are this test program itself.

mod counted;
mod doors;
pub mod load;
pub mod processes;
mod renewed;
mod secured;

use proxy::control::{client::ClientError, form::Status};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

use self::{
    load::{Callers, Counting},
    processes::{Broken, Held, kill, wait_until},
};
use crate::world::read_head;

const UPGRADES: u64 = 20;
const KILLS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_or_doubled_and_no_idle_connection_closed_over_twenty_upgrades() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 8);
    for upgrade in 0..UPGRADES {
        callers.make(50).await;
        let before = held.status().await.pid;
        let after = held.upgrade().await;
        assert_ne!(before, after, "upgrade {upgrade}");
        assert_eq!(held.status().await.table.generation, upgrade + 1);
        // Each process takes tables, also from the one before.
        held.put(upgrade + 2, version.at).await;
    }
    callers.make(50).await;
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    assert_eq!(version.answered(), made.answered);
    assert!(made.told_to_close >= UPGRADES, "{made:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_proxy_loses_only_calls_in_flight_and_keeps_table() {
    const CALLERS: u64 = 6;
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(5, version.at).await;
    let callers = Callers::start(held.at, CALLERS);
    for _ in 0..KILLS {
        callers.make(30).await;
        let pid = held.status().await.pid;
        kill(pid);
        wait_until(async || held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
            .await;
        assert_eq!(held.status().await.table.generation, 5);
    }
    callers.make(30).await;
    let made = callers.end().await;
    assert_eq!(made.refused, 0, "{made:?}");
    assert!(made.lost <= CALLERS * KILLS, "{made:?}");
    // What was answered was carried out, and nothing more than that but what was in flight.
    let executed = version.answered();
    assert!((made.answered..=made.answered + made.lost).contains(&executed), "{executed} of {made:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_in_the_middle_of_an_upgrade_somebody_serves_by_the_same_table() {
    const CALLERS: u64 = 4;
    const UPGRADES: u64 = 16;
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(9, version.at).await;
    let callers = Callers::start(held.at, CALLERS);
    for upgrade in 0..UPGRADES {
        let before = held.status().await.pid;
        // Pids begin anew when the last one was given out: no order says who came later.
        let known = held.doors();
        let new_doors = || held.doors().into_iter().filter(|pid| !known.contains(pid)).collect::<Vec<_>>();
        held.client.post::<proxy::control::form::Upgrading>("/upgrade").await.unwrap();
        // At another moment of the upgrade each time: the old one, or the new one as soon as it has a door.
        if upgrade % 2 == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2 * upgrade)).await;
            kill(before);
        } else {
            wait_until(async || !new_doors().is_empty()).await;
            new_doors().into_iter().for_each(kill);
        }
        wait_until(async || {
            held.client
                .get::<Status>("/status")
                .await
                .is_ok_and(|status| upgrade % 2 == 1 || status.pid != before)
        })
        .await;
        callers.make(20).await;
        assert_eq!(held.status().await.table.generation, 9);
    }
    let made = callers.end().await;
    assert_eq!(made.refused, 0, "{made:?}");
    assert!(made.lost <= CALLERS * UPGRADES, "{made:?}");
    held.put(10, version.at).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_process_that_is_killed_while_it_opens_its_door_nothing_is_left() {
    let held = Held::start().await;
    let before = held.status().await.pid;
    held.break_program(Some(Broken::KilledAtItsDoor));
    held.fail_to_upgrade().await;
    held.break_program(None);
    assert_eq!(held.unfinished(), [""; 0]);
    assert_eq!(held.status().await.pid, before);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_takes_away_what_processes_that_are_gone_have_left_beside_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (left, of_one_that_lives) = (
        folder.path().join(format!(".{}-0", gone.id())),
        folder.path().join(format!(".{}-0", std::process::id())),
    );
    for folder in [&left, &of_one_that_lives] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("s"), "").unwrap();
    }
    let held = Held::start_in(folder).await;
    assert_eq!((left.exists(), of_one_that_lives.exists()), (false, true));
    std::fs::remove_dir_all(of_one_that_lives).unwrap();
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_supervisor_loses_nothing_and_next_inherits_sockets_from_proxy() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 6);
    for generation in 2..5 {
        callers.make(50).await;
        let before = held.status().await;
        held.kill_holder();
        wait_until(async || !held.status().await.held).await;
        callers.make(50).await;
        let refused = held.client.post::<Status>("/upgrade").await;
        assert!(matches!(refused, Err(ClientError::Refused { status: 409, .. })), "{refused:?}");
        assert_eq!(held.status().await.pid, before.pid);
        held.start_holder_again().await;
        wait_until(async || held.status().await.pid != before.pid).await;
        let after = held.status().await;
        assert!(after.held);
        assert_eq!(after.listen, before.listen);
        held.put(generation, version.at).await;
        // The new supervisor does what supervisors do.
        held.upgrade().await;
    }
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    assert_eq!(version.answered(), made.answered);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_to_the_serving_process_lets_another_one_take_its_place() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 4);
    callers.make(50).await;
    let pid = held.status().await.pid;
    processes::terminate(pid);
    wait_until(async || held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
        .await;
    callers.make(50).await;
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_to_a_program_that_does_not_start_is_told_and_nothing_else_happens() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let callers = Callers::start(held.at, 2);
    let before = held.status().await.pid;
    held.break_program(Some(Broken::AtOnce));
    held.client.post::<proxy::control::form::Upgrading>("/upgrade").await.unwrap();
    wait_until(async || held.status().await.upgrade_failed.is_some()).await;
    let why = held.status().await.upgrade_failed.unwrap();
    assert!(why.contains("ended before it served, with code 3"), "{why}");
    callers.make(20).await;
    assert_eq!(held.status().await.pid, before);
    held.put(2, version.at).await;
    held.break_program(None);
    assert_ne!(held.upgrade().await, before);
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_handed_over_follows_the_table_and_counts_for_what_it_holds() {
    let held = Held::start().await;
    let (old, new) = (Counting::start().await, Counting::start().await);
    held.put(1, old.at).await;
    let mut idle = TcpStream::connect(held.at).await.unwrap();
    load::call(&mut idle, "GET").await.unwrap();
    let (mut slow, mut version) = held.call_without_answer(2).await;
    let before = held.upgrade().await;
    assert_eq!(held.status().await.finishing.len(), 1);

    // The connection that stood idle belongs to the process that handed over, and its next call is given by the new table.
    held.put(3, new.at).await;
    let answered = old.answered();
    let head = load::call(&mut idle, "GET").await.unwrap();
    assert!(head.contains("Connection: close\r\n"), "{head}");
    assert_eq!((old.answered(), new.answered()), (answered, 1));

    let target = "/drained?service=a&variation=slow&wait=0";
    let drained = held.client.get::<proxy::control::form::Drained>(target).await.unwrap();
    assert_eq!((drained.drained, drained.in_flight), (false, 1));
    // Also when those that finish are two.
    assert_ne!(held.upgrade().await, before);
    version.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    assert!(read_head(&mut slow).await.unwrap().starts_with("HTTP/1.1 200"));
    wait_until(async || held.client.get::<proxy::control::form::Drained>(target).await.unwrap().drained)
        .await;
    wait_until(async || held.status().await.finishing.is_empty()).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbouring_builds_understand_each_other_and_distant_ones_are_refused_by_name() {
    let held = Held::start().await;
    let pid = held.status().await.pid;
    let say = async |word: &str| {
        let mut door = UnixStream::connect(format!("{}.{pid}", held.control().display())).await.unwrap();
        door.write_u32(word.len() as u32).await.unwrap();
        door.write_all(word.as_bytes()).await.unwrap();
        let length = door.read_u32().await.unwrap();
        let mut answer = vec![0; length as usize];
        door.read_exact(&mut answer).await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&answer).unwrap()
    };
    let frozen =
        say(r#"{"word": "freeze", "forms": {"newest": 9, "oldest": 1, "more": 0}, "more": 1}"#).await;
    assert_eq!((&frozen["word"], &frozen["forms"]["newest"]), (&"frozen".into(), &2.into()));
    let refused = say(r#"{"word": "freeze", "forms": {"newest": 9, "oldest": 8}}"#).await;
    assert_eq!(refused["word"], "refused");
    assert!(refused["why"].as_str().unwrap().contains("knows the forms 8 to 9"), "{refused}");
    assert_eq!(say(r#"{"word": "what_comes_later", "of": {}}"#).await["word"], "refused");
    // Who froze it has ended, so it goes on.
    let version = Counting::start().await;
    held.put(1, version.at).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_what_is_in_flight_and_leaves_nothing_behind() {
    let held = Held::start().await;
    let (mut slow, mut version) = held.call_without_answer(1).await;
    let serving = held.status().await.pid;
    let (control, at) = (held.control(), held.at);
    let stopping = tokio::spawn(held.stop());
    wait_until(async || TcpStream::connect(at).await.is_err()).await;
    assert!(processes::lives(serving) && !control.exists());
    version.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    let head = read_head(&mut slow).await.unwrap();
    assert!(head.contains("Connection: close\r\n"), "{head}");
    stopping.await.unwrap();
    assert!(!processes::lives(serving));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_holder_on_the_same_control_socket_is_refused() {
    let held = Held::start().await;
    let second = held.second_holder().await;
    assert!(second.contains("is there already"), "{second}");
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_of_a_service_manager_are_taken_and_it_is_told_how_the_service_stands() {
    let folder = tempfile::tempdir().unwrap();
    let told = tokio::net::UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let hear = async || {
        let mut text = [0; 100];
        let length = told.recv(&mut text).await.unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    // A connection that comes before the proxy is there waits for it.
    let mut early = TcpStream::connect(at).await.unwrap();
    let held = Held::start_with(
        tempfile::tempdir().unwrap(),
        processes::Given { socket, notify: folder.path().join("notify") },
    )
    .await;
    assert_eq!(hear().await, "READY=1");
    assert_eq!(held.status().await.listen, [at.to_string()]);
    let version = Counting::start().await;
    held.put(1, version.at).await;
    load::call(&mut early, "GET").await.unwrap();
    drop(early);
    held.stop().await;
    assert_eq!(hear().await, "STOPPING=1");
}
