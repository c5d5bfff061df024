//! What stands at the runtime socket may be anything, and may change in the middle of an answer.

use std::time::Duration;

use router::{Router as _, RouterError, haproxy::Haproxy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
};

use super::RealHaproxy;
use crate::conformance::Real as _;

/// Answers the first commands as one would that has nothing of ours, and then so.
async fn answer(listener: UnixListener, good: usize, then: &'static [u8], ends: bool) {
    let maps = b"# id (file) description\n\n> ";
    let answers: [&[u8]; 5] = [
        b"\n> ",
        b"Pid: 77\nStopping: 0\n\n> ",
        maps,
        maps,
        b"1\n# be_id be_name srv_name srv_addr srv_op_state srv_admin_state srv_check_result srv_check_state srv_port\n\n> ",
    ];
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 4096];
        for answer in answers.into_iter().take(good) {
            if !stream.read(&mut asked).await.is_ok_and(|came| came > 0) {
                return;
            }
            stream.write_all(answer).await.unwrap();
        }
        if stream.read(&mut asked).await.is_ok_and(|came| came > 0) {
            let _ = stream.write_all(then).await;
        }
        if !ends {
            while stream.read(&mut asked).await.is_ok_and(|came| came > 0) {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_told_from_one_that_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = RealHaproxy::start().await.settings();
    settings.frame.folder = router::haproxy::config::Folder::new(&folder.path().join("ours")).unwrap();
    settings.socket = folder.path().join("liar.sock");
    settings.limits.answer = Duration::from_millis(300);
    let haproxy = Haproxy::open(settings).unwrap();
    let socket = folder.path().join("liar.sock");
    for good in 0..=5 {
        for (then, ends) in [
            (&b""[..], true),
            (b"Pid: 7", true),
            (b"Pid: 7", false),
            (b"nonsense\n\n> ", false),
            (b"\xff\xff\n> ", false),
        ] {
            let _ = std::fs::remove_file(&socket);
            let listener = UnixListener::bind(&socket).unwrap();
            let liar = tokio::spawn(answer(listener, good, then, ends));
            let error = haproxy.read().await.unwrap_err();
            let is_fit = match &error {
                RouterError::Away { .. } => ends,
                // Both lists are asked for before either is looked at.
                RouterError::Silent { .. } => !ends && (!then.ends_with(b"> ") || good == 4),
                RouterError::Nonsense { said, .. } => said.len() < 1_000 && (!ends || good == 0),
                _ => false,
            };
            assert!(is_fit, "{good} good answers, then {then:?}: {error}");
            liar.abort();
            let _ = liar.await;
        }
    }
}
