//! What is asked, refused and carried out.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use agent::control::{
    self, ControlError, MAX_QUESTION, Order,
    client::Client,
    form::{Added, FunctionStatus, Removed, Status, Undo, Undone},
};
use bytes::Bytes;
use hyper::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{mpsc, oneshot},
};

use super::{LONG, Open, body, of_folder, raw, standing};

#[tokio::test]
async fn the_socket_is_its_owners_alone_and_one_agent_has_it_at_a_time() {
    let open = Open::start(standing());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&open.path()), 0o600);
    assert_eq!(mode(open.path().parent().unwrap()), 0o700);

    let (sender, _orders) = mpsc::channel(1);
    let second = control::open(&open.path(), None, sender.clone()).unwrap_err();
    assert!(second.to_string().ends_with("is there already"), "{second}");
    open.client.get::<Status>("/status").await.unwrap();
    let path = open.path();
    drop(open.control);
    assert!(!path.exists());
    control::open(&path, None, sender.clone()).unwrap();

    let file = open.folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    let wrong = control::open(&file, None, sender.clone()).unwrap_err();
    assert!(wrong.to_string().contains("is there and no socket"), "{wrong}");
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    let long = open.folder.path().join("x".repeat(96));
    assert!(matches!(control::open(&long, None, sender), Err(ControlError::LongPath(_))));
}

#[tokio::test]
async fn how_it_stands_comes_as_it_was_told() {
    let open = Open::start(standing());
    assert_eq!(open.client.get::<Status>("/status").await.unwrap(), standing());
    let functions: Vec<FunctionStatus> = open.client.get("/functions").await.unwrap();
    assert_eq!(functions, standing().functions);
}

#[tokio::test]
async fn status_of_another_program_version_is_read_where_known() {
    let mut status = serde_json::to_value(standing()).unwrap();
    let keys = status.as_object_mut().unwrap();
    keys.insert("newer".to_owned(), 3.into());
    for key in ["runtimes", "functions", "work", "owed", "stops", "id", "name"] {
        keys.remove(key);
    }
    let read: Status = serde_json::from_value(status).unwrap();
    assert_eq!((read.program.as_str(), read.functions.len(), read.owed.results), ("0.0.0-test", 0, 0));
}

#[tokio::test]
async fn orders_reach_the_desk_and_its_answers_their_callers() {
    let open = Open::start(standing());
    let added = open.put("resize-2.x", of_folder("/fns/resize")).await.unwrap();
    assert_eq!(added.name, "resize-2.x");
    let removed: Removed =
        open.client.ask(Method::DELETE, "/functions/greet", Bytes::new(), LONG).await.unwrap();
    assert_eq!(removed.name, "greet");
    // Without a body, everything is meant.
    let undone: Undone = open.client.post("/undo").await.unwrap();
    assert_eq!(undone.text, "the version before serves again");
    let why = Undo { function: Some("sieve".to_owned()), why: Some("slow".to_owned()) };
    let undone: Undone = open.client.ask(Method::POST, "/undo", body(&why), LONG).await.unwrap();
    assert_eq!(undone.functions, ["sieve"]);
    assert_eq!(
        open.asked(),
        [
            "add resize-2.x of /fns/resize",
            "remove greet",
            "undo None because None",
            "undo Some(\"sieve\") because Some(\"slow\")",
        ]
    );
}

#[tokio::test]
async fn a_refusal_says_why_and_what_was_meant() {
    let open = Open::start(standing());
    let (put, post, delete) = (Method::PUT, Method::POST, Method::DELETE);
    let undo = |name: &str| body(&Undo { function: Some(name.to_owned()), why: None });
    let unknown = open.refused(post.clone(), "/undo", undo("seive")).await;
    assert_eq!(unknown, (404, "no function \"seive\" is served here; did you mean sieve?".to_owned()));
    let unknown = open.refused(delete, "/functions/resize", Bytes::new()).await;
    assert_eq!(unknown, (404, "no function \"resize\" is served here; there are greet, sieve".to_owned()));
    let busy = open.refused(put.clone(), "/functions/sieve", of_folder("/fns/other")).await;
    assert_eq!(busy, (409, "the release ab has sieve in hand: wait for it, or undo it".to_owned()));
    assert_eq!(open.refused(post, "/undo", undo("greet")).await.0, 409);
    let wrong = open.refused(put.clone(), "/functions/empty", of_folder("/empty")).await;
    assert_eq!(wrong, (422, "/empty holds nothing that can be run".to_owned()));
    let failed = open.refused(put, "/functions/full", of_folder("/fns/full")).await;
    assert_eq!(failed, (500, "no space left on device".to_owned()));
    let nobody = Status { functions: Vec::new(), ..standing() };
    let (status, why) = Open::start(nobody).refused(Method::POST, "/undo", undo("sieve")).await;
    assert_eq!(status, 404);
    assert!(why.ends_with("there is none yet: choirmaster agent functions add NAME FOLDER"), "{why}");
}

#[tokio::test]
async fn nonsense_is_refused_with_a_sentence_and_no_order_comes_of_it() {
    let open = Open::start(standing());
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let long = "x".repeat(201);
    for name in ["", ".hidden", "a/b", "a%20b", "..", &long] {
        let (status, why) =
            open.refused(put.clone(), &format!("/functions/{name}"), of_folder("/fns/a")).await;
        assert_eq!(status, 422, "{name}");
        assert!(why.contains("a function's name is 1 to 200 characters"), "{why}");
    }
    for (text, part) in [
        ("nonsense", "this is no function: expected"),
        ("{}", "missing field `folder`"),
        ("[]", "this is no function"),
        (r#"{"folder": "/a", "runer": "nodejs"}"#, "unknown field `runer`"),
        (r#"{"folder": "/a", "sticky": "cookie"}"#, "this is no function"),
        (r#"{"folder": "/a", "retry": "always"}"#, "unknown variant `always`"),
        (r#"{"folder": "fns/a"}"#, "fns/a isn't absolute"),
        ("{\"folder\": \"\u{fffd}\"}", "isn't absolute"),
    ] {
        let (status, why) = open.refused(put.clone(), "/functions/a", text.to_owned()).await;
        assert_eq!(status, 422, "{text}");
        assert!(why.contains(part), "{why}");
    }
    let huge = Bytes::from(vec![b' '; MAX_QUESTION + 1]);
    assert_eq!(open.refused(put.clone(), "/functions/a", huge.clone()).await.0, 413);
    assert_eq!(open.refused(post.clone(), "/undo", huge).await.0, 413);
    let long = body(&Undo { function: None, why: Some("x".repeat(1025)) });
    assert_eq!(
        open.refused(post.clone(), "/undo", long).await,
        (422, "a reason has at most 1024 bytes".to_owned())
    );
    assert_eq!(open.refused(post.clone(), "/undo", r#"{"functions": []}"#).await.0, 422);

    for (query, part) in [
        ("", "name a function, or a release"),
        ("?version=new", "name a function"),
        ("?release=a&function=sieve", "leave function and version out"),
        ("?release=a&version=new", "leave function and version out"),
        ("?function=sieve&version=old", "version=old is neither new nor base"),
        ("?function=sieve&lines=3", "there is no \"lines\" here"),
    ] {
        let (status, why) = open.refused(get.clone(), &format!("/logs{query}"), Bytes::new()).await;
        assert_eq!((status, why.contains(part)), (400, true), "{why}");
    }
    assert_eq!(open.refused(get.clone(), "/nothing", Bytes::new()).await.0, 404);
    for (method, path) in [
        (&post, "/status"),
        (&get, "/undo"),
        (&get, "/functions/sieve"),
        (&post, "/functions"),
        (&put, "/logs"),
    ] {
        let (status, why) = open.refused(method.clone(), path, Bytes::new()).await;
        assert_eq!(status, 405, "{why}");
    }
    assert_eq!(open.asked(), <[String; 0]>::default());
}

#[tokio::test]
async fn what_is_no_http_ends_its_own_connection_alone() {
    let open = Open::start(standing());
    for text in [
        "\0\u{1}\u{2}\r\n\r\n",
        "GET /status HTTP/9\r\n\r\n",
        "PUT /functions/a HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        assert!(raw(&open.path(), text).await.starts_with("HTTP/1.1 400 "), "{text:?}");
    }
    open.client.get::<Status>("/status").await.unwrap();
}

#[tokio::test]
async fn who_is_slow_keeps_nobody_waiting_and_who_leaves_ends_nothing() {
    let open = Open::start(standing());
    let mut slow = Vec::new();
    for text in ["", "GET /sta", "PUT /functions/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"] {
        let mut stream = UnixStream::connect(open.path()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    open.client.get::<Status>("/status").await.unwrap();
    assert_eq!(open.asked(), <[String; 0]>::default(), "half a body is no order");
    drop(slow);

    // Its order was whole; it doesn't wait for the answer.
    let whole = String::from_utf8(of_folder("/fns/left").to_vec()).unwrap();
    let text =
        format!("PUT /functions/left HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{whole}", whole.len());
    let mut stream = UnixStream::connect(open.path()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    drop(stream);
    assert_eq!(open.asked(), ["add left of /fns/left"]);
}

#[tokio::test]
async fn two_at_once_are_answered_each_with_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (sender, mut orders) = mpsc::channel(4);
    let _control = control::open(&path, None, sender).unwrap();
    let add = |name: &'static str| {
        let client = Client::new(&path);
        tokio::spawn(async move {
            let target = format!("/functions/{name}");
            client.ask::<Added>(Method::PUT, &target, of_folder("/fns/x"), LONG).await.unwrap()
        })
    };
    let both = [add("first"), add("second")];
    let mut waiting = Vec::new();
    while waiting.len() < 2 {
        let Some(Order::Add { name, answer, .. }) = orders.recv().await else { panic!("another order") };
        waiting.push((name, answer));
    }
    // The later one is answered first.
    for (name, answer) in waiting.into_iter().rev() {
        answer.send(Ok(Added { version: "f".repeat(64), name, at: Vec::new() })).unwrap();
    }
    let [first, second] = both;
    assert_eq!(first.await.unwrap().name, "first");
    assert_eq!(second.await.unwrap().name, "second");
}

#[tokio::test]
async fn an_agent_that_ends_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (sender, mut orders) = mpsc::channel(4);
    let _control = control::open(&path, None, sender).unwrap();
    let ask = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    let (answered, ()) = tokio::join!(raw(&path, ask), async {
        let Some(Order::Status(answer)) = orders.recv().await else { panic!("another order") };
        drop::<oneshot::Sender<Status>>(answer);
    });
    assert!(answered.starts_with("HTTP/1.1 503 "), "{answered}");
    drop(orders);
    let answered = raw(&path, ask).await;
    assert!(answered.ends_with(r#"{"error":"the agent is about to end"}"#), "{answered}");
}
