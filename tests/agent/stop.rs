//! Ends agents whose files somebody has who can't be seen.

use std::{
    fs::{self, File},
    io::IoSlice,
    mem::MaybeUninit,
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::Path,
};

use agent::{
    Settings,
    settings::Runtimes,
    stop::{self, StopError},
};
use proxy::local_http::socket::lock_file;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

use crate::drive;

/// The folder of an agent that has run.
fn ended() -> (TempDir, Settings) {
    let root = tempfile::Builder::new().prefix("stop").tempdir().unwrap();
    let settings = drive::settings(root.path(), Runtimes::default());
    fs::create_dir(&settings.state).unwrap();
    let sockets = serde_json::json!({"agent": settings.control, "proxy": root.path().join("proxy.sock")});
    fs::write(settings.state.join("sockets.json"), sockets.to_string()).unwrap();
    (root, settings)
}

/// Locks a file for as long as these are there. No process has it open: it is on the way from one to the other.
fn lock_unseen(path: &Path) -> (UnixStream, UnixStream) {
    let file = File::create(path).unwrap();
    file.try_lock().unwrap();
    let (from, to) = UnixStream::pair().unwrap();
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    assert!(along.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&from, &[IoSlice::new(b"x")], &mut along, SendFlags::empty()).unwrap();
    (from, to)
}

#[tokio::test]
async fn an_agent_that_cant_be_seen_is_not_taken_for_one_that_has_ended() {
    let (_root, settings) = ended();
    stop::agent(&settings, &mut |_: &str| {}).await.unwrap();
    let _held = lock_unseen(&settings.state.join("lock"));
    let alone = stop::agent(&settings, &mut |_: &str| {}).await;
    assert!(matches!(alone, Err(StopError::Unseen(_))), "{alone:?}");
    let all = stop::all(&settings, &mut |_: &str| {}).await;
    assert!(matches!(all, Err(StopError::Unseen(_))), "{all:?}");
}

#[tokio::test]
async fn the_proxy_of_a_folder_goes_on_where_another_agent_has_the_control_socket() {
    for has_successor in [false, true] {
        let (root, settings) = ended();
        let _supervisor = lock_unseen(&lock_file(&root.path().join("proxy.sock")));
        let _successor = has_successor.then(|| lock_unseen(&lock_file(&settings.control)));
        let mut said = Vec::new();
        let stopped = stop::all(&settings, &mut |line: &str| said.push(line.to_owned())).await;
        if has_successor {
            stopped.unwrap();
            let line = said.join("\n");
            assert!(line.contains("proxy.sock goes on: an agent with another folder answers at "), "{line}");
        } else {
            assert!(matches!(stopped, Err(StopError::Processes { who: "the proxy", .. })), "{stopped:?}");
        }
    }
}
