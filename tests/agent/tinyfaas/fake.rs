//! A tinyFaaS of the tests. Its functions are processes, where the real one has containers, and it differs from others in what
//! the real one was measured and read to do:
//!
//! - an upload under a name that is there ends what is there before anything new is built;
//! - calls are answered with 200 whatever the function answered, with 404 where the name isn't known, and with 500 where nobody
//!   answers; nothing is below a name, and methods and queries are the same to it;
//! - an upload that is answered has a line a protocol; the function was asked whether it is healthy, ten times at most;
//! - uploads go on when their caller is gone, and those that fail leave their name, which can't be deleted;
//! - what ends by itself isn't started again; who is asked to end has a moment;
//! - logs are what was written to standard output, and of a function of which nothing is there, an error.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Cursor, Write},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use proxy::live::Target;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::{net::TcpListener, time::sleep};

use crate::{calls, world::names};

/// How often a function is asked whether it is healthy, and how long is waited in between (the real one waits a second).
const ASKED: u32 = 10;
const PAUSE: Duration = Duration::from_millis(600);
/// What a function has to end in.
const GRACE: Duration = Duration::from_secs(1);
/// Marks the processes of a function.
const MARK: &str = "FAKE_CONTAINER";

#[derive(Debug)]
pub struct Fake {
    pub management: SocketAddr,
    pub calls: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    root: PathBuf,
    port: u16,
    /// What the management knows.
    handlers: Mutex<BTreeMap<String, Handler>>,
    /// What calls reach: ports of containers.
    hosts: Mutex<BTreeMap<String, Vec<u16>>>,
    /// One at a time is built or ended.
    turn: tokio::sync::Mutex<()>,
    updates: AtomicU32,
    made: AtomicU32,
}

#[derive(Debug, Clone)]
struct Handler {
    folder: PathBuf,
    containers: Arc<Mutex<Vec<Child>>>,
    is_destroyed: bool,
}

#[derive(Debug, Deserialize)]
struct Upload {
    name: String,
    env: String,
    threads: u32,
    zip: String,
    #[serde(default)]
    envs: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Delete {
    name: String,
}

type Answer = Response<Full<Bytes>>;

fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

impl Fake {
    pub fn start(root: &Path) -> Self {
        let listen = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            TcpListener::from_std(listener).unwrap()
        };
        let [management, calls] = [listen(), listen()];
        let (at, calls_at) = (management.local_addr().unwrap(), calls.local_addr().unwrap());
        let state = Arc::new(State {
            root: root.to_owned(),
            port: calls_at.port(),
            handlers: Mutex::default(),
            hosts: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            updates: AtomicU32::new(0),
            made: AtomicU32::new(0),
        });
        serve(management, Arc::clone(&state), manage);
        serve(calls, Arc::clone(&state), call);
        Self { management: at, calls: calls_at, state }
    }

    /// How often something was built under a name that was there.
    pub fn updates(&self) -> u32 {
        self.state.updates.load(Ordering::Relaxed)
    }

    pub fn names(&self) -> Vec<String> {
        self.state.handlers.lock().unwrap().keys().cloned().collect()
    }

    /// Functions of which more is there than a name, and processes.
    pub fn left_behind(&self) -> Vec<String> {
        let handlers = self.state.handlers.lock().unwrap();
        let there =
            handlers.iter().filter(|(_, handler)| !handler.is_destroyed).map(|(name, _)| name.clone());
        let mut left: Vec<_> = there.collect();
        left.extend(self.state.hosts.lock().unwrap().keys().map(|name| format!("calls of {name}")));
        left.extend(
            marked(&self.state.root.display().to_string()).iter().map(|pid| format!("{pid}: a process")),
        );
        left
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        kill_marked(&self.state.root.display().to_string());
    }
}

fn serve<F>(listener: TcpListener, state: Arc<State>, does: fn(Arc<State>, Request<Incoming>) -> F)
where
    F: Future<Output = Answer> + Send + 'static,
{
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let state = Arc::clone(&state);
            let service = service_fn(move |request| {
                // It goes on when its caller is gone.
                tokio::spawn(does(Arc::clone(&state), request))
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}

async fn manage(state: Arc<State>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return answer(400, "") };
    let body = body.to_bytes();
    let (method, path) = (head.method, head.uri.path().to_owned());
    match path.as_str() {
        "/upload" if method == Method::POST => match serde_json::from_slice::<Upload>(&body) {
            Ok(upload) => match state.upload(&upload).await {
                Ok(()) => {
                    let lines = ["coap", "http", "grpc"].map(|kind| {
                        let port = if kind == "http" { state.port } else { 5683 };
                        format!("{kind}://:{port}/{}\n", upload.name)
                    });
                    answer(200, lines.concat())
                }
                Err(why) => {
                    eprintln!("upload of {}: {why}", upload.name);
                    answer(500, "")
                }
            },
            Err(_) => answer(400, ""),
        },
        "/delete" if method == Method::POST => match serde_json::from_slice::<Delete>(&body) {
            Ok(Delete { name }) => match state.delete(&name).await {
                Ok(()) => answer(200, ""),
                Err(_) => answer(500, ""),
            },
            Err(_) => answer(400, ""),
        },
        "/list" if method == Method::GET => {
            let names = state.handlers.lock().unwrap();
            answer(200, lines(names.keys().map(String::as_str), ""))
        }
        "/logs" if method == Method::GET => {
            let name = head.uri.query().and_then(|query| query.strip_prefix("name=")).unwrap_or_default();
            match state.logs(name) {
                Some(logs) => answer(200, logs),
                None => answer(500, ""),
            }
        }
        "/upload" | "/delete" | "/list" | "/logs" => answer(400, ""),
        _ => answer(404, ""),
    }
}

async fn call(state: Arc<State>, request: Request<Incoming>) -> Answer {
    let name = request.uri().path().trim_start_matches('/').to_owned();
    let Ok(body) = request.into_body().collect().await else { return answer(500, "") };
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let ports = state.hosts.lock().unwrap().get(&name).cloned();
    let Some(ports) = ports else { return answer(404, "") };
    let port = ports[fastrand::usize(0..ports.len())];
    let container = Target::Tcp(([127, 0, 0, 1], port).into());
    match calls::call(&container, "POST", "/fn", &body).await {
        Ok(answered) => answer(200, answered.body),
        Err(_) => answer(500, ""),
    }
}

impl State {
    async fn upload(&self, upload: &Upload) -> Result<(), String> {
        if upload.name.is_empty() || !upload.name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err("function name contains non-alphanumeric characters".to_owned());
        }
        let zip = STANDARD.decode(&upload.zip).map_err(|error| error.to_string())?;
        let before = self.handlers.lock().unwrap().get(&upload.name).cloned();
        if let Some(before) = before {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.destroy(&upload.name, &before).await?;
        }
        let _turn = self.turn.lock().await;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.root.join(format!("container-{number}"));
        unzip(&zip, &folder).map_err(|error| error.to_string())?;
        let handler = Handler { folder, containers: Arc::default(), is_destroyed: false };
        self.handlers.lock().unwrap().insert(upload.name.clone(), handler.clone());
        let mut ports = Vec::new();
        for number in 0..upload.threads {
            let place = handler.folder.with_extension(format!("port-{number}"));
            let container = container(upload, &handler.folder, &place);
            handler.containers.lock().unwrap().push(container);
            ports.push(place);
        }
        let mut found = Vec::new();
        for place in ports {
            found.push(healthy(&place).await.ok_or("container not ready after 10 retries")?);
        }
        self.hosts.lock().unwrap().insert(upload.name.clone(), found);
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<(), &'static str> {
        let handler = self.handlers.lock().unwrap().get(name).cloned().ok_or("function not found")?;
        let _turn = self.turn.lock().await;
        self.destroy(name, &handler).await?;
        // It is forgotten only once calls were taken from it.
        self.hosts.lock().unwrap().remove(name).ok_or("rproxy returned status code 500")?;
        self.handlers.lock().unwrap().remove(name);
        Ok(())
    }

    async fn destroy(&self, name: &str, handler: &Handler) -> Result<(), &'static str> {
        if handler.is_destroyed {
            return Err("no such network");
        }
        let mut containers = std::mem::take(&mut *handler.containers.lock().unwrap());
        for container in &containers {
            let _ = kill_process(Pid::from_child(container), Signal::TERM);
        }
        let until = tokio::time::Instant::now() + GRACE;
        while tokio::time::Instant::now() < until
            && !containers.iter_mut().all(|container| container.try_wait().unwrap().is_some())
        {
            sleep(Duration::from_millis(5)).await;
        }
        // A container ends with all that is in it.
        kill_marked(&handler.folder.display().to_string());
        for mut container in containers {
            container.wait().unwrap();
        }
        if let Some(handler) = self.handlers.lock().unwrap().get_mut(name) {
            handler.is_destroyed = true;
        }
        Ok(())
    }

    fn logs(&self, name: &str) -> Option<String> {
        let handler =
            self.handlers.lock().unwrap().get(name).cloned().filter(|handler| !handler.is_destroyed)?;
        let log = fs::read(handler.folder.with_extension("log")).unwrap_or_default();
        Some(lines(String::from_utf8_lossy(&log).lines(), &format!("function={name} handler=0 ")))
    }
}

/// Each with this before it.
fn lines<'l>(all: impl Iterator<Item = &'l str>, before: &str) -> String {
    all.fold(String::new(), |text, line| text + before + line + "\n")
}

fn unzip(zip: &[u8], folder: &Path) -> Result<(), zip::result::ZipError> {
    let mut zip = zip::ZipArchive::new(Cursor::new(zip))?;
    fs::create_dir_all(folder)?;
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at)?;
        let path = folder.join(entry.enclosed_name().unwrap());
        fs::create_dir_all(path.parent().unwrap())?;
        std::io::copy(&mut entry, &mut File::create(&path)?)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(entry.unix_mode().unwrap_or(0o644)))?;
    }
    Ok(())
}

fn container(upload: &Upload, folder: &Path, place: &Path) -> Child {
    let source = folder.with_extension("py");
    File::create(&source).unwrap().write_all(include_bytes!("container.py")).unwrap();
    let log = File::options().create(true).append(true).open(folder.with_extension("log")).unwrap();
    Command::new("python3")
        .args(["-u", "-B"])
        .arg(source)
        .arg(&upload.env)
        .arg(place)
        .current_dir(folder)
        .env(MARK, folder)
        .envs(upload.envs.iter().filter_map(|env| env.split_once('=')))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The port of a container that says that it is healthy.
async fn healthy(place: &Path) -> Option<u16> {
    for _ in 0..ASKED {
        if let Some(port) = fs::read_to_string(place).ok().and_then(|port| port.parse().ok()) {
            let container = Target::Tcp(([127, 0, 0, 1], port).into());
            if calls::call(&container, "GET", "/health", "")
                .await
                .is_ok_and(|answered| answered.status == 200)
            {
                return Some(port);
            }
        }
        sleep(PAUSE).await;
    }
    None
}

/// The processes that were started for a container, or for all below a folder.
fn marked(folder: &str) -> Vec<String> {
    let entry = format!("{MARK}={folder}");
    let holds = |pid: &String| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is = |one: &[u8]| {
            let one = String::from_utf8_lossy(one);
            one.strip_prefix(&entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        environ.split(|byte| *byte == 0).any(is)
    };
    names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()).filter(holds).collect()
}

fn kill_marked(folder: &str) {
    loop {
        let left: Vec<_> = marked(folder).into_iter().filter(|pid| !is_dead(pid)).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_dead(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}
