//! Doors of processes that are none, or that are just ending.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use call_metrics::Reading;
use proxy::control::form::Status;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use super::{
    load::Counting,
    processes::{Held, wait_until},
};

/// A pid that no process of the system has: it has at most 2^22 of them.
const NOBODY: u32 = 1 << 23;

/// A door at which the test answers.
struct Door {
    path: PathBuf,
    /// The next connection is not accepted: the door closes while it waits.
    closes: Arc<AtomicBool>,
}

impl Door {
    /// Answers each word with what this gives for it.
    fn open(control: &Path, pid: u32, answer: fn(&Value) -> Value) -> Self {
        let path = PathBuf::from(format!("{}.{pid}", control.display()));
        let listener = UnixListener::bind(&path).unwrap();
        let closes = Arc::<AtomicBool>::default();
        let (is_closing, own) = (Arc::clone(&closes), path.clone());
        std::thread::spawn(move || {
            loop {
                // Somebody is there, and was not accepted yet.
                poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
                if is_closing.load(Ordering::SeqCst) {
                    drop(listener);
                    std::fs::remove_file(own).unwrap();
                    return;
                }
                let (stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || converse(stream, answer));
            }
        });
        Self { path, closes }
    }
}

fn converse(mut stream: UnixStream, answer: fn(&Value) -> Value) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut word = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut word).unwrap();
        let answer = answer(&serde_json::from_slice(&word).unwrap()).to_string();
        let mut frame = (answer.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(answer.as_bytes());
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a process says that has handed over and has nothing left.
fn finishing(word: &Value) -> Value {
    match word["word"].as_str().unwrap() {
        "freeze" => json!({"word": "finishing", "forms": {"newest": 1, "oldest": 1}}),
        "ask" => {
            json!({"word": "holds", "table": {"epoch": 0, "generation": 1}, "connections": 0, "leaving": []})
        }
        _ => json!({"word": "done"}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_ending_during_table_update_does_not_fail_the_update() {
    const DOORS: u32 = 50;
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let doors: Vec<Door> =
        (0..DOORS).map(|number| Door::open(&held.control(), NOBODY + number, finishing)).collect();
    held.upgrade().await;
    assert!(held.status().await.finishing.len() >= doors.len());
    for door in &doors {
        door.closes.store(true, Ordering::SeqCst);
    }
    // It says that everybody was told who is there.
    held.put(2, version.at).await;
    wait_until(async || held.status().await.finishing.is_empty()).await;
    wait_until(async || doors.iter().all(|door| !door.path.exists())).await;
    held.stop().await;
}

/// A word that is no answer to what was said.
type Lie = (fn(&Value) -> Value, &'static str);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_that_lies_is_named_with_its_pid_and_whoever_serves_goes_on() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let lies: [Lie; 6] = [
        (|_| json!({"word": "done"}), "said Done"),
        (|_| json!({"word": "from_another_time"}), "said Unknown"),
        (|_| json!("no word"), "said invalid type: string"),
        (|_| json!({"word": "refused", "why": "I don't feel like it"}), "refused: I don't feel like it"),
        (
            |_| json!({"word": "frozen", "forms": {"newest": 9, "oldest": 8}, "table": {"generation": 9}}),
            "knows the forms 8 to 9 of the hand-over, and this program knows 1 to 2",
        ),
        (
            |_| {
                json!({"word": "frozen", "forms": {"newest": 1, "oldest": 1}, "table": {"generation": 9, "services": [
                    {"name": "a", "variations": []},
                ]}})
            },
            "the table of the process before isn't taken: service \"a\": it has 0 variations",
        ),
    ];
    for (number, (lie, expected)) in lies.into_iter().enumerate() {
        let pid = NOBODY + number as u32;
        let door = Door::open(&held.control(), pid, lie);
        let why = held.fail_to_upgrade().await;
        assert!(why.starts_with("the new process can't serve: ") && why.contains(expected), "{why}");
        assert!(number == 5 || why.contains(&pid.to_string()), "{why}");
        drop(door);
    }
    held.put(2, version.at).await;
    held.upgrade().await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_or_silent_handover_socket_is_given_up_quickly() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    for (pid, begins, expected) in [
        (NOBODY, u32::MAX.to_be_bytes().to_vec(), "a word of 4294967295 bytes"),
        (NOBODY + 1, Vec::new(), "doesn't answer"),
    ] {
        let path = PathBuf::from(format!("{}.{pid}", held.control().display()));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&begins);
            // Until the other end has heard enough.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let why = held.fail_to_upgrade().await;
        assert!(why.contains(expected) && why.contains(&pid.to_string()), "{why}");
        std::fs::remove_file(path).unwrap();
    }
    // While it was waited for, the process that serves was frozen; it takes tables again.
    held.put(2, version.at).await;
    held.stop().await;
}

/// What a program says that serves, and knows nothing of how counts are handed over.
fn earlier(word: &Value) -> Value {
    let variations = json!([{"name": "earlier", "targets": ["127.0.0.1:9"]}]);
    let services = json!([{"name": "a", "variations": variations}]);
    match word["word"].as_str().unwrap() {
        "freeze" => json!({
            "word": "frozen", "forms": {"newest": 1, "oldest": 1}, "table": {"generation": 50, "services": services},
        }),
        "finish" | "table" => json!({"word": "done"}),
        _ => json!({"word": "refused", "why": "another process of this proxy said Unknown"}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handover_from_earlier_program_omits_only_its_own_counts() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    super::load::call(&mut tokio::net::TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
    let before: Reading = held.client.get("/counts").await.unwrap();
    let door = Door::open(&held.control(), NOBODY, earlier);
    held.upgrade().await;
    // Should two serve, the newer table holds.
    let table: proxy::form::TableForm = held.client.get("/table").await.unwrap();
    assert_eq!((table.generation, table.services[0].variations[0].name.as_str()), (50, "earlier"));
    let after: Reading = held.client.get("/counts").await.unwrap();
    let calls = after.closed.iter().flat_map(|interval| &interval.rows).map(|row| row.tally.calls);
    assert_eq!((calls.sum::<u64>(), after.next.life, after.cut_short), (1, before.next.life, 0));
    drop(door);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_program_takes_over_without_waiting_for_counts() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    super::load::call(&mut tokio::net::TcpStream::connect(held.at).await.unwrap(), "GET").await.unwrap();
    let pid = held.status().await.pid;
    let mut door = UnixStream::connect(format!("{}.{pid}", held.control().display())).unwrap();
    for (word, answer) in [
        (json!({"word": "freeze", "forms": {"newest": 1, "oldest": 1}}), "frozen"),
        (json!({"word": "finish"}), "done"),
    ] {
        let word = word.to_string();
        door.write_all(&(word.len() as u32).to_be_bytes()).unwrap();
        door.write_all(word.as_bytes()).unwrap();
        let mut length = [0; 4];
        door.read_exact(&mut length).unwrap();
        let mut heard = vec![0; u32::from_be_bytes(length) as usize];
        door.read_exact(&mut heard).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&heard).unwrap()["word"], answer);
    }
    // As nobody serves, its supervisor starts another one, which may be there before it has ended.
    wait_until(async || held.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != pid))
        .await;
    wait_until(async || !super::processes::lives(pid)).await;
    held.stop().await;
}
