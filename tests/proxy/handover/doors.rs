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
async fn a_process_that_ends_while_it_is_told_of_the_table_is_gone_and_not_untold() {
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
