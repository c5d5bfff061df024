//! What the kernel makes of the rules, with nft as this machine has it, in a network of their own; and what is made of what nft says.

use std::{
    env, fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use agent::takeover::{
    Ground,
    machine::Machine,
    nft::{Found, Redirect, Redirects},
};
use model::traffic::Socket;
use proxy::nftables::MARK;
use router::health::{Fault, ask_marked};
use traffic::{desired::Health, health::Probe};

use crate::own_network::{WITHIN, in_a_network_of_its_own, rules};

/// How long somebody may take to answer who is there.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn the_kernel_sends_callers_as_the_rules_say_and_those_who_are_marked_past_them() {
    in_a_network_of_its_own("takeover::kernel::story_of_callers", Stdio::piped());
}

#[test]
fn flows_of_udp_go_back_once_the_kernel_forgets_them() {
    in_a_network_of_its_own("takeover::kernel::story_of_flows", Stdio::piped());
}

#[test]
fn rules_of_somebody_else_and_another_agent_are_known() {
    in_a_network_of_its_own("takeover::kernel::story_of_others", Stdio::piped());
}

/// Answers each call with a status, over connections that are kept.
fn serve(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || -> io::Result<()> {
                let mut room = [0; 4_096];
                while stream.read(&mut room)? > 0 {
                    stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
                }
                Ok(())
            });
        }
    });
    at
}

/// The status of an answer, to a caller who is marked or is not.
async fn called(at: SocketAddr, mark: Option<u32>) -> u16 {
    let how = Health { path: Some("/".into()), timeout: PATIENCE, ..Health::default() };
    match ask_marked(&Probe { target: at.to_string().parse().unwrap(), how }, mark).await {
        Ok(()) => 200,
        Err(Fault::Status(status)) => status,
        Err(fault) => panic!("{fault}"),
    }
}

/// Another call over a connection.
fn called_again(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut room = [0; 4_096];
    let read = stream.read(&mut room).unwrap();
    String::from_utf8_lossy(&room[9..read.min(12)]).into_owned()
}

fn nft(text: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "{text}");
}

fn redirects(is_udp: bool, called: SocketAddr, to: SocketAddr) -> Redirects {
    let redirect = Redirect { to: to.port(), of: vec![called.ip()] };
    Redirects::from([(Socket { port: called.port(), is_udp }, redirect)])
}

#[tokio::test]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_callers() {
    if env::var_os(WITHIN).is_none() {
        return;
    }
    let before = rules();
    let machine = Machine::new("nft".into());
    machine.hold().unwrap();
    assert_eq!(machine.look().await.unwrap(), Found::default());
    let (program, proxy) = (serve("200 OK"), serve("503 Busy"));
    assert_eq!(machine.listeners(Socket { port: program.port(), is_udp: false }), [program.ip()]);
    let mut early = TcpStream::connect(program).unwrap();
    assert_eq!(called_again(&mut early), "200");

    let taken = redirects(false, program, proxy);
    machine.take(&taken).await.unwrap();
    assert!(machine.look().await.unwrap().is(&taken));
    assert_eq!((called(program, None).await, called(program, Some(MARK)).await), (503, 200));
    // At another address of this machine nobody listens, as before.
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], program.port()));
    assert!(TcpStream::connect(elsewhere).is_err());
    assert_eq!(called_again(&mut early), "200", "who came before goes on there");
    let mut late = TcpStream::connect(program).unwrap();
    assert_eq!(called_again(&mut late), "503");

    // With none, and in the place of what was there: whoever was sent goes on.
    machine.take(&Redirects::new()).await.unwrap();
    assert!(machine.look().await.unwrap().is(&Redirects::new()));
    assert_eq!((called_again(&mut late).as_str(), called(program, None).await), ("503", 200));

    let all = Redirects::from([(
        Socket { port: program.port(), is_udp: false },
        Redirect { to: proxy.port(), of: Vec::new() },
    )]);
    machine.take(&all).await.unwrap();
    assert_eq!((called(program, None).await, called(program, Some(MARK)).await), (503, 200));
    machine.give_back().await.unwrap();
    assert_eq!(machine.look().await.unwrap(), Found::default());
    assert_eq!((called(program, None).await, rules()), (200, before));
}

/// Answers each datagram with a word.
fn reply(word: &'static str) -> SocketAddr {
    let answering = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = answering.local_addr().unwrap();
    thread::spawn(move || -> io::Result<()> {
        loop {
            let (_, from) = answering.recv_from(&mut [0; 16])?;
            answering.send_to(word.as_bytes(), from)?;
        }
    });
    at
}

fn replied(caller: &UdpSocket) -> String {
    let mut room = [0; 16];
    caller.send(b"?").unwrap();
    let read = caller.recv(&mut room).unwrap();
    String::from_utf8_lossy(&room[..read]).into_owned()
}

#[tokio::test]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_flows() {
    if env::var_os(WITHIN).is_none() {
        return;
    }
    // Somebody else who has the kernel change addresses, as who runs containers does: then flows go on without our table, too.
    nft(
        "table ip others {\n chain output { type nat hook output priority -100;\n tcp dport 1 dnat to 127.0.0.1:2\n }\n}\n",
    );
    let before = rules();
    let machine = Machine::new("nft".into());
    let (program, proxy) = (reply("program"), reply("proxy"));
    let caller = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(program).unwrap();
        socket
    };
    let taken = redirects(true, program, proxy);
    machine.take(&taken).await.unwrap();
    assert!(machine.look().await.unwrap().is(&taken));
    let first = caller();
    assert_eq!(replied(&first), "proxy");
    machine.take(&Redirects::new()).await.unwrap();
    assert_eq!(replied(&first), "proxy", "who was sent goes on");
    machine.forget_flows(Some(1));
    assert_eq!(replied(&first), "proxy", "flows to other ports are forgotten");
    machine.forget_flows(Some(proxy.port()));
    assert_eq!((replied(&first), replied(&caller())), ("program".to_owned(), "program".to_owned()));

    machine.take(&taken).await.unwrap();
    let second = caller();
    assert_eq!((replied(&first), replied(&second)), ("program".to_owned(), "proxy".to_owned()));
    machine.give_back().await.unwrap();
    assert_eq!((replied(&second), rules()), ("proxy".to_owned(), before));
    machine.forget_flows(None);
    assert_eq!(replied(&second), "program");
}

#[tokio::test]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_others() {
    if env::var_os(WITHIN).is_none() {
        return;
    }
    let machine = Machine::new("nft".into());
    machine.hold().unwrap();
    // Another agent, which says who is in its way.
    let other = Machine::new("nft".into());
    assert!(other.is_anothers() && !machine.is_anothers());
    let why = other.hold().unwrap_err().text;
    assert!(why.contains("another agent of this network has takeover.nftables"), "{why}");

    let none = Redirects::new();
    machine.take(&none).await.unwrap();
    // Who hasn't put them in force doesn't know whether they are as they should be.
    let found = other.look().await.unwrap();
    assert!(found.is_there && !found.is(&none));
    for change in [
        "add rule inet choirmaster output tcp dport 22 accept\n",
        "flush chain inet choirmaster prerouting\n",
        "add chain inet choirmaster others\n",
    ] {
        assert!(machine.look().await.unwrap().is(&none), "{change}");
        nft(change);
        assert!(!machine.look().await.unwrap().is(&none), "{change}");
        machine.take(&none).await.unwrap();
    }
    nft("flush ruleset\n");
    assert_eq!(machine.look().await.unwrap(), Found::default());
    drop(machine);
    other.hold().unwrap();

    nft("table inet choirmaster {\n chain theirs {\n tcp dport 22 accept\n }\n}\n");
    let why = other.look().await.unwrap_err().text;
    assert!(why.contains("isn't the agent's") && why.contains("nft delete table inet choirmaster"), "{why}");
}

/// A program in the place of nft, which says this and fails.
fn saying(folder: &tempfile::TempDir, script: &str) -> Machine {
    let program = folder.path().join("nft");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Machine::new(program)
}

/// Tried again while a process that is being started has the file from when it was written.
async fn looked(machine: &Machine) -> Result<Found, String> {
    loop {
        match machine.look().await {
            Err(trouble) if trouble.text.contains("Text file busy") => thread::yield_now(),
            found => return found.map_err(|trouble| trouble.text),
        }
    }
}

#[tokio::test]
async fn what_is_missing_is_named_and_is_never_taken_for_no_rules() {
    let folder = tempfile::tempdir().unwrap();
    let why = Machine::new(folder.path().join("nowhere")).look().await.unwrap_err().text;
    assert!(why.contains("can't be run") && why.contains("install nftables"), "{why}");
    for (script, expected) in [
        ("echo 'Error: No such file or directory' >&2; exit 1", None),
        (
            "echo 'nft: error while loading shared libraries: libnftables.so.1: cannot open shared object file: No such file or \
             directory' >&2; exit 127",
            Some("nftables: nft: error while loading shared libraries"),
        ),
        (
            "echo 'Operation not permitted (you must be root)' >&2; echo 'netlink: Error: cache initialization failed' >&2; exit 1",
            Some("give whoever runs this the right to (CAP_NET_ADMIN)"),
        ),
        (
            "echo '# Warning: table ip nat is managed by iptables-nft' >&2; echo 'Error: Could not process rule: Protocol error' >&2; exit 1",
            Some("nftables: Error: Could not process rule: Protocol error"),
        ),
        ("exit 1", Some("nftables: nft failed, and says nothing")),
    ] {
        let found = looked(&saying(&folder, script)).await;
        match (&found, expected) {
            (Ok(found), None) => assert_eq!(*found, Found::default()),
            (Err(why), Some(expected)) => assert!(why.contains(expected), "{why}"),
            _ => panic!("{script}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let why = looked(&saying(&folder, "exec sleep 600")).await.unwrap_err();
    assert_eq!(why, "nft did not end within 5 seconds");
}
