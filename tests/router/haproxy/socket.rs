//! What stands at the runtime socket may be anything, and may change in the middle of an answer.

use std::{path::Path, time::Duration};

use choirmaster_router::{Router as _, RouterError, haproxy::Haproxy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
};
use traffic::HashFunction;

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    world::{
        backend::Backend,
        place::free_port,
        wants::{service, wanted},
    },
};

/// Answers the first commands as one would that has nothing of ours, and then so.
async fn answer(socket: &Path, good: usize, then: &'static [u8], ends: bool) {
    let answers: [&[u8]; 4] = [
        b"\n> ",
        b"Pid: 77\nStopping: 0\n\n> ",
        b"# id (file) description\n\n> ",
        b"1\n# be_id be_name srv_name srv_addr srv_op_state srv_admin_state srv_check_result srv_check_state srv_port\n\n> ",
    ];
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
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
    settings.frame.folder = traffic::haproxy::Folder::new(&folder.path().join("ours")).unwrap();
    settings.socket = folder.path().join("liar.sock");
    settings.limits.answer = Duration::from_millis(300);
    let haproxy = Haproxy::open(settings).unwrap();
    let socket = folder.path().join("liar.sock");
    for good in 0..=4 {
        for (then, ends) in
            [(&b""[..], true), (b"Pid: 7", true), (b"Pid: 7", false), (b"nonsense\n\n> ", false), (b"\xff\xff\n> ", false)]
        {
            let liar = tokio::spawn({
                let socket = socket.clone();
                async move { answer(&socket, good, then, ends).await }
            });
            while tokio::net::UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let error = haproxy.read().await.unwrap_err();
            let is_fit = match &error {
                RouterError::Away { .. } => ends,
                RouterError::Silent { .. } => !ends && !then.ends_with(b"> "),
                RouterError::Nonsense { said, .. } => said.len() < 1_000 && (!ends || good == 0),
                _ => false,
            };
            assert!(is_fit, "{good} good answers, then {then:?}: {error}");
            liar.abort();
            let _ = liar.await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_may_not_change_anything_is_told_so_and_disk_and_process_stay_apart_for_no_longer() {
    let mut real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", free_port(), &backends, &[5_000, 5_000]);
    spec.hash = HashFunction::Xxh32;
    done(&router, &wanted(1, &[&spec])).await;
    let operators = std::fs::read_to_string(&real.settings().config[0]).unwrap();
    std::fs::write(&real.settings().config[0], operators.replace("level admin", "level user")).unwrap();
    real.start_again().await;
    let next = wanted(2, &[&with_shares(&spec, &[10_000, 0])]);
    let error = router.apply(&next).await.unwrap_err();
    assert!(matches!(&error, RouterError::Nonsense { said, .. } if said.contains("ermission")), "{error}");
    std::fs::write(&real.settings().config[0], operators).unwrap();
    real.start_again().await;
    done(&router, &next).await;
}
