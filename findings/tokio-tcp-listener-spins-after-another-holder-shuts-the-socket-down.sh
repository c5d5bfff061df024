#!/bin/sh
# A listening socket that two programs have, as systemd lends it to both, and one of which waits for connections with the crate tokio.
#
# One would guess:  the other program drains by shutdown(SHUT_RD), as many do. That is that program's own end: it accepts nothing more, and this
#                   one goes on. Or, since the socket is one, this one hears of it once, calls listen() again, and goes on then.
# What happens:     the socket listens for nobody any more, and accept gives EINVAL here as well. After listen() it takes connections again, and
#                   they are accepted. But TcpListener::accept doesn't wait any more: tokio keeps for good that the socket was once closed for
#                   reading, takes it for ready each time, and asks the kernel again and again within one poll. A whole processor is gone, and
#                   nothing else on that thread gets its turn until somebody calls, not even a timeout around the accept.
# Why it matters:   whoever takes a port over while its program serves has the socket longer than that program does. A TcpListener that is made
#                   anew from the same socket waits as it should: it has to be registered again, in each thread that waits for it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cargo init --quiet --name shared --vcs none
cat >>Cargo.toml <<'TOML'
rustix = { version = "=1.1.6", features = ["net", "time"] }
tokio = { version = "=1.54.1", features = ["macros", "net", "rt", "time"] }
TOML
cat >src/main.rs <<'RUST'
use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener as StdListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::{
    net::{Shutdown, listen, shutdown},
    time::{ClockId, clock_gettime},
};
use tokio::{net::TcpListener, runtime::Builder, time::timeout};

/// So long a program waits for a caller where nobody calls.
const LIMIT: Duration = Duration::from_secs(1);
/// So long it is looked at meanwhile.
const LOOK: Duration = Duration::from_secs(3);

/// Seconds of a processor that this process has used.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Looks at a thread that waits for a caller for as long as its limit says. Whether it gave up in time, and how much of a processor was used.
fn watch(given_up: &mpsc::Receiver<bool>, at: SocketAddr) -> (bool, f64) {
    let before = used();
    let in_time = given_up.recv_timeout(LOOK).unwrap_or(false);
    let used = used() - before;
    if !in_time {
        // The one who calls frees it.
        TcpStream::connect(at).unwrap();
        assert!(!given_up.recv().unwrap(), "it was accepted");
    }
    (in_time, used)
}

fn main() {
    // A port that was named, as a socket unit names one: else it would be lost with the shutdown.
    let at = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = StdListener::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (other, again) = (socket.try_clone().unwrap(), socket.try_clone().unwrap());
    let (say, given_up) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let waiting = thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let waits = async |listener: &TcpListener| timeout(LIMIT, listener.accept()).await.is_err();
            let listener = TcpListener::from_std(socket).unwrap();
            say.send(waits(&listener).await).unwrap();
            gone.recv().unwrap();
            let error = listener.accept().await.unwrap_err();
            println!("after the shutdown: accept says {error}");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            listen(&listener, 128).unwrap();
            say.send(waits(&listener).await).unwrap();
            drop(listener);
            let listener = TcpListener::from_std(again).unwrap();
            say.send(waits(&listener).await).unwrap();
        });
    });
    let show = |what: &str, (in_time, used): (bool, f64)| {
        let ended = if in_time { "ends" } else { "doesn't end" };
        println!("{what} a wait of {LIMIT:?} {ended} by itself, and takes {used:.2} s of a processor");
    };
    let before = watch(&given_up, at);
    show("as it is:          ", before);
    shutdown(&other, Shutdown::Read).unwrap();
    go.send(()).unwrap();
    let after = watch(&given_up, at);
    show("after listen():    ", after);
    let anew = watch(&given_up, at);
    show("registered anew:   ", anew);
    waiting.join().unwrap();
    assert!(before.0 && !after.0 && anew.0);
    assert!(before.1 < 0.1 && after.1 > 1.0 && anew.1 < 0.1);
}
RUST
cargo build --quiet
echo "tokio $(cargo pkgid tokio | sed 's/.*[@#]//'), Linux $(uname -r)"
target/debug/shared
