use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use proxy::{
    Limits, Proxy,
    control::{
        self, MAX_TABLE,
        client::{Client, ClientError},
        control_handler::ControlHandler,
        form::{Applied, Drained, Status, Unreachable},
    },
    form::TableForm,
    table_file::{LoadedTable, TableFile},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use crate::world::{read_head, table, version};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";

/// A proxy with a control, and whoever asks there.
struct Controlled {
    handler: Arc<ControlHandler>,
    client: Client,
    folder: TempDir,
}

impl Controlled {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(1, Limits::default()).unwrap();
        let handler =
            ControlHandler::new(proxy, &folder.path().join("state"), Vec::new(), "0.0.0-test").unwrap();
        let handler = Arc::new(handler);
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        handler.open();
        tokio::spawn(control::serve(listener, Arc::clone(&handler)));
        Self { handler, client: Client::new(path), folder }
    }

    async fn put(&self, form: &TableForm) -> Result<Applied, ClientError> {
        self.client.put("/table", Bytes::from(serde_json::to_vec(form).unwrap())).await
    }

    async fn put_text(&self, text: impl Into<Bytes>) -> (u16, String) {
        refused(self.client.put::<Applied>("/table", text.into()).await)
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }
}

fn refused<A: std::fmt::Debug>(answer: Result<A, ClientError>) -> (u16, String) {
    match answer {
        Err(ClientError::Refused { status, refusal }) => (status, refusal.error),
        other => panic!("{other:?}"),
    }
}

fn loaded(folder: &Path) -> TableForm {
    match TableFile::open(folder).unwrap().load().unwrap() {
        LoadedTable::Table(table) => table,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_table_is_on_disk_for_its_owner_alone_once_it_is_acknowledged() {
    use std::os::unix::fs::PermissionsExt as _;
    let controlled = Controlled::start();
    let (base, new) = (version(BASE).await, version(BASE).await);
    for generation in 1..=3 {
        let applied = controlled.put(&table(generation, base, new, 500)).await.unwrap();
        assert_eq!(applied.table.generation, generation);
        let in_force: TableForm = controlled.client.get("/table").await.unwrap();
        assert_eq!(loaded(&controlled.state()), in_force);
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&controlled.state()), 0o700);
    assert_eq!(mode(&controlled.state().join("table")), 0o600);
    assert!(!controlled.state().join("table.new").exists());
}

#[tokio::test]
async fn a_table_that_cannot_be_kept_is_refused_and_the_one_before_goes_on() {
    let controlled = Controlled::start();
    let at = version(BASE).await;
    controlled.put(&table(1, at, at, 0)).await.unwrap();
    let away = controlled.folder.path().join("away");
    fs::rename(controlled.state(), &away).unwrap();
    let (status, why) = refused(controlled.put(&table(2, at, at, 5_000)).await);
    assert_eq!(status, 507);
    assert!(why.contains("can't be kept on disk"), "{why}");
    assert_eq!(controlled.handler.proxy().table().generation(), 1);
    fs::rename(&away, controlled.state()).unwrap();
    controlled.put(&table(2, at, at, 5_000)).await.unwrap();
    assert_eq!(loaded(&controlled.state()).generation, 2);
}

#[tokio::test]
async fn a_table_that_is_old_changed_wrong_or_none_is_refused_with_a_sentence() {
    let controlled = Controlled::start();
    let at = version(BASE).await;
    controlled.put(&table(7, at, at, 0)).await.unwrap();
    let kept = fs::read(controlled.state().join("table")).unwrap();

    let (status, why) = refused(controlled.put(&table(6, at, at, 0)).await);
    assert_eq!((status, why.as_str()), (409, "table 0.6 is older than the one in force, 0.7"));
    let (status, why) = refused(controlled.put(&table(7, at, at, 1)).await);
    assert_eq!(status, 409);
    assert!(why.contains("0.7 is in force with another content"), "{why}");
    controlled.put(&table(7, at, at, 0)).await.unwrap();

    let mut sum = table(8, at, at, 0);
    sum.services[0].shares = Some(vec![9_000, 999]);
    let (status, why) = refused(controlled.put(&sum).await);
    assert_eq!(status, 422);
    assert!(why.contains("9999 hundredths of a percent"), "{why}");
    let (status, why) = controlled.put_text("{\"generation\": 8, \"services\": 3}").await;
    assert_eq!(status, 422);
    assert!(why.starts_with("this is no table: "), "{why}");
    let (status, why) = controlled.put_text(vec![b' '; MAX_TABLE + 1]).await;
    assert_eq!(status, 413, "{why}");

    assert_eq!(controlled.handler.proxy().table().generation(), 7);
    assert_eq!(fs::read(controlled.state().join("table")).unwrap(), kept);
}

#[tokio::test]
async fn what_the_control_does_not_have_it_says_so() {
    let controlled = Controlled::start();
    let ask = |target: &'static str| controlled.client.get::<Status>(target);
    assert_eq!(refused(ask("/tables").await).0, 404);
    assert_eq!(refused(ask("/drain").await).0, 405);
    assert_eq!(refused(ask("/drained?service=a").await), (400, "name a service and a variation".to_owned()));
    assert_eq!(refused(ask("/drained?service=a&variation=b&wait=long").await).0, 400);
    assert_eq!(refused(ask("/unreachable?wait=long").await).0, 400);
    assert_eq!(refused(ask("/unreachable?version=b").await).0, 400);
    let upgrade = controlled.client.post::<Status>("/upgrade").await;
    let (status, why) = refused(upgrade);
    assert_eq!(status, 409);
    assert!(why.contains("no process holds the listening sockets"), "{why}");
}

#[tokio::test]
async fn any_corrupted_byte_of_stored_table_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let kept = TableFile::open(folder.path()).unwrap();
    let at = "127.0.0.1:9".parse().unwrap();
    kept.keep(&table(3, at, at, 100)).unwrap();
    let path = folder.path().join("table");
    let whole = fs::read(&path).unwrap();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x11;
        fs::write(&path, &damaged).unwrap();
        let found = kept.load().unwrap();
        let LoadedTable::Damaged { aside, .. } = found else { panic!("byte {position}: {found:?}") };
        assert_eq!(fs::read(aside).unwrap(), damaged);
        assert!(matches!(kept.load().unwrap(), LoadedTable::Nothing));
    }
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(kept.load().unwrap(), LoadedTable::Damaged { .. }), "{length} bytes");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(loaded(folder.path()).generation, 3);
}

#[tokio::test]
async fn a_version_is_drained_once_no_table_names_it_and_its_last_call_has_ended() {
    let controlled = Controlled::start();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = controlled.handler.proxy().listen(&socket).unwrap();
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = version(BASE).await;
    controlled.put(&table(1, base, slow.local_addr().unwrap(), 10_000)).await.unwrap();
    let mut caller = TcpStream::connect(at).await.unwrap();
    caller.write_all(b"GET /a HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    let (mut to_caller, _) = slow.accept().await.unwrap();
    read_head(&mut to_caller).await.unwrap();

    let drained = "/drained?service=a&variation=new&version=&wait=0";
    assert_eq!(refused(controlled.client.get::<Drained>(drained).await).0, 409);
    let mut without = table(2, base, base, 0);
    without.services[0].variations.truncate(1);
    without.services[0].shares = None;
    controlled.put(&without).await.unwrap();
    let held: Drained = controlled.client.get(drained).await.unwrap();
    assert_eq!(held, Drained { drained: false, in_flight: 1 });
    let status: Status = controlled.client.get("/status").await.unwrap();
    assert_eq!(status.leaving.len(), 1);
    assert_eq!((status.leaving[0].variation.as_str(), status.connections), ("new", 1));

    let client = controlled.client.clone();
    let waiting = tokio::spawn(async move {
        let wait = Duration::from_mins(1);
        client.wait::<Drained>("/drained?service=a&variation=new&wait=60", wait).await.unwrap()
    });
    to_caller.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").await.unwrap();
    assert_eq!(waiting.await.unwrap(), Drained { drained: true, in_flight: 0 });
    read_head(&mut caller).await.unwrap();
    let status: Status = controlled.client.get("/status").await.unwrap();
    assert!(status.leaving.is_empty());
}

#[tokio::test]
async fn that_a_version_can_not_be_connected_to_is_told_at_once_and_once() {
    let controlled = Controlled::start();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = controlled.handler.proxy().listen(&socket).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    controlled.put(&table(1, gone, gone, 0)).await.unwrap();
    let ask = async |wait: u64| {
        let target = format!("/unreachable?wait={wait}");
        let told = controlled.client.wait::<Unreachable>(&target, Duration::from_secs(wait)).await;
        told.unwrap().unreachable
    };
    assert!(!ask(0).await);
    let call = async {
        let mut caller = TcpStream::connect(at).await.unwrap();
        caller.write_all(b"GET /a HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
        let head = read_head(&mut caller).await.unwrap();
        assert!(head.contains(" 502 "), "{head}");
    };
    assert!(tokio::join!(ask(60), call).0);
    assert!(!ask(0).await);
}

#[tokio::test]
async fn tables_that_change_often_leave_nothing_behind() {
    let controlled = Controlled::start();
    let at = version(BASE).await;
    for generation in 1..=300 {
        controlled.put(&table(generation, at, at, (generation % 100) as u16)).await.unwrap();
    }
    assert!(controlled.handler.proxy().leaving().is_empty());
}

#[tokio::test]
async fn a_caller_that_breaks_off_in_the_middle_of_a_table_changes_nothing() {
    let controlled = Controlled::start();
    let path = controlled.folder.path().join("control.sock");
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream
        .write_all(b"PUT /table HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"generation\"")
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let status: Status = controlled.client.get("/status").await.unwrap();
    assert_eq!(status.table.generation, 0);
}
