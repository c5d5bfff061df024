//! A parent that speaks only the plain protocol, with ids as numbers, and that can be told to behave badly. It answers
//! byte by byte, so that it can also send half of an answer, or none.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::sleep,
};

use std::time::Duration;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    Good,
    /// HTML where JSON or YAML should be.
    Nonsense,
    /// Well-formed JSON of other things.
    OtherJson,
    Fails,
    HalfABody,
    Closes,
    /// More than anybody wants to read.
    Huge,
    Slow,
    /// Well, but it says of functions what they are, and each answer with them breaks off after a third.
    BreaksOff,
    /// 404 for the id that the manager has.
    Forgot,
    /// 404 for what it offers.
    Denies,
    /// It shows no offer at /poll, as after a download, and hands it out if asked.
    Hides,
}

impl Manners {
    /// All but the good ones.
    pub const BAD: [Self; 7] =
        [Self::Nonsense, Self::OtherJson, Self::Fails, Self::HalfABody, Self::Closes, Self::Huge, Self::Slow];
}

/// A release that it offers.
#[derive(Debug, Clone)]
pub struct Offer {
    pub id: &'static str,
    pub yaml: String,
    pub zip: Vec<u8>,
}

#[derive(Debug)]
pub struct Script {
    pub manners: Manners,
    pub offer: Option<Offer>,
    /// What it calls the manager: a number.
    pub child: u32,
    /// What `/end_stage` answers.
    pub ends: bool,
    /// It keeps account of the stages of the offer: status by name, as [`Script::track`] says.
    pub stages: Vec<(String, u64)>,
    /// `Done`, `Failed`: what it takes the manager's part for.
    pub part: &'static str,
    /// Calls answered in the present manners.
    pub calls: usize,
    pub polls: Vec<Value>,
    pub results: Vec<Value>,
    /// Paths with their queries.
    pub paths: Vec<String>,
}

pub struct PlainParent {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    serving: JoinHandle<()>,
}

impl Drop for PlainParent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl PlainParent {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script {
            manners: Manners::Good,
            offer: None,
            child: 7,
            ends: false,
            stages: Vec::new(),
            part: "Todo",
            calls: 0,
            polls: Vec::new(),
            results: Vec::new(),
            paths: Vec::new(),
        }));
        let shared = Arc::clone(&script);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, &script).await });
            }
        });
        Self { address, script, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn behave(&self, manners: Manners) {
        let mut script = self.script();
        (script.manners, script.calls) = (manners, 0);
    }

    /// The statuses that it was sent, in order.
    pub fn statuses(&self) -> Vec<u64> {
        let of = |result: &Value| result["stage_summaries"][0]["status"].as_u64().unwrap();
        self.script().results.iter().map(of).collect()
    }
}

/// One call, and the end of the connection.
async fn serve(mut stream: TcpStream, script: &Mutex<Script>) {
    let Some((path, from, body)) = read(&mut stream).await else { return };
    let (manners, status, answer) =
        script.lock().unwrap_or_else(PoisonError::into_inner).answer(&path, &body);
    let kind = if manners == Manners::Nonsense { "content-type: text/html\r\n" } else { "" };
    let head = |length: usize| {
        let head = format!("HTTP/1.1 {status} Whatever\r\n{kind}content-length: {length}\r\n");
        (head + "connection: close\r\n\r\n").into_bytes()
    };
    let bytes = match manners {
        Manners::Closes => return,
        Manners::HalfABody => [head(answer.len()), answer[..answer.len() / 2].to_vec()].concat(),
        Manners::Huge => [head(64 << 20), vec![b' '; 32 << 20]].concat(),
        Manners::Slow => {
            sleep(Duration::from_millis(150)).await;
            [head(answer.len()), answer].concat()
        }
        Manners::BreaksOff if path.starts_with("/release/functions/") => third(&answer, from),
        _ => [head(answer.len()), answer].concat(),
    };
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
}

/// A third of the functions, from a byte on, as an answer that was to be the whole.
fn third(zip: &[u8], from: Option<usize>) -> Vec<u8> {
    let (first, all) = (from.unwrap_or(0), zip.len());
    let digest = STANDARD.encode(Sha256::digest(zip));
    let status = match from {
        None => "200 OK\r\n".to_owned(),
        Some(first) => format!("206 Partial\r\ncontent-range: bytes {first}-{}/{all}\r\n", all - 1),
    };
    let head = format!(
        "HTTP/1.1 {status}content-length: {}\r\netag: \"the-one\"\r\nrepr-digest: sha-256=:{digest}:\r\n\
         connection: close\r\n\r\n",
        all - first
    );
    [head.as_bytes(), &zip[first..all.min(first + all / 3 + 1)]].concat()
}

/// The path of a request, the byte from which on it asks for something, and its body.
async fn read(stream: &mut TcpStream) -> Option<(String, Option<usize>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    while bytes.len() < end + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let original = String::from_utf8_lossy(&bytes[..end]);
    let path = original.split_whitespace().nth(1)?.to_owned();
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-'));
    Some((path, range.and_then(|first| first.parse().ok()), bytes[end..].to_vec()))
}

impl Script {
    fn answer(&mut self, path: &str, body: &[u8]) -> (Manners, u16, Vec<u8>) {
        self.calls += 1;
        self.paths.push(path.to_owned());
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let manners = self.manners;
        let child = self.child.to_string();
        let of_old_id = body["id"].as_str().is_some_and(|id| !id.is_empty() && id != child);
        match manners {
            Manners::Nonsense => return (manners, 200, b"<html>please log in</html>".to_vec()),
            // As far as a plain parent's answer to a result tells, it has it.
            Manners::OtherJson if !path.starts_with("/result") => {
                return (manners, 200, br#"{"ok":true,"items":[1,2,3]}"#.to_vec());
            }
            Manners::Fails => return (manners, 500, b"no idea".to_vec()),
            Manners::Denies if path.starts_with("/release") => return (manners, 404, b"what?".to_vec()),
            Manners::Hides if path.starts_with("/poll") => {
                let nothing = format!(r#"{{"id": {child}, "new_release": ""}}"#);
                return (manners, 200, nothing.into_bytes());
            }
            Manners::Forgot if of_old_id => return (manners, 404, b"unknown child".to_vec()),
            _ => {}
        }
        let (status, answer) = self.plain(path, body);
        (manners, status, answer)
    }

    /// As the reference document has it, with numbers for ids.
    fn plain(&mut self, path: &str, body: Value) -> (u16, Vec<u8>) {
        let offer = self.offer.clone();
        match path.split('?').next().unwrap() {
            "/poll" => {
                self.polls.push(body);
                let offer = offer.map_or("\"\"", |offer| offer.id);
                (200, format!(r#"{{"id": {}, "new_release": {offer}}}"#, self.child).into_bytes())
            }
            "/release" => {
                if let Some((_, status)) = self.stages.first_mut().filter(|(_, status)| *status == 0) {
                    (*status, self.part) = (1, "Doing");
                }
                offer.map_or((404, b"none".to_vec()), |offer| (200, offer.yaml.into_bytes()))
            }
            "/result" => {
                self.results.push(body);
                if self.stages.is_empty() { (200, b"{}".to_vec()) } else { self.track() }
            }
            "/end_stage" if !self.stages.is_empty() => {
                let found = self.stages.iter().find(|(name, _)| body["stage_name"] == **name);
                match found {
                    Some((_, status)) => (200, format!(r#"{{"end_stage": {}}}"#, *status >= 3).into_bytes()),
                    None => (404, b"No stage status found for mentioned combination\n".to_vec()),
                }
            }
            "/end_stage" => (200, format!(r#"{{"end_stage": {}}}"#, self.ends).into_bytes()),
            path if path.starts_with("/release/functions/") => {
                offer.map_or((404, b"none".to_vec()), |offer| (200, offer.zip))
            }
            _ => (404, b"no such path".to_vec()),
        }
    }

    /// Takes the last result as the recorded manager does: a stage that has not begun is refused, for it is the result
    /// of the stage before that begins it, by naming it; a result that names none ends the whole part.
    fn track(&mut self) -> (u16, Vec<u8>) {
        let result = self.results.last().unwrap().clone();
        let summary = &result["stage_summaries"][0];
        let status = summary["status"].as_u64().unwrap();
        let name = summary["stage_name"].as_str().unwrap_or_default();
        match self.stages.iter_mut().find(|(of, _)| of == name) {
            None => return (409, format!("stage '{name}' does not exist in the result").into_bytes()),
            Some((_, 0)) => {
                return (409, format!("stage '{name}' already exists in the result").into_bytes());
            }
            Some((_, of)) => *of = status.max(if status == 2 && self.ends { 3 } else { 0 }),
        }
        if status == 2 {
            return (200, Vec::new());
        }
        let next = result["next_stage"].as_str().unwrap_or_default();
        match self.stages.iter_mut().find(|(of, _)| of == next) {
            Some((_, of)) => *of = 1,
            None => self.part = if status == 4 { "Done" } else { "Failed" },
        }
        (200, Vec::new())
    }
}
