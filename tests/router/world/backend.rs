use std::net::SocketAddr;

use tokio::{net::TcpListener, task::JoinSet};
use traffic::desired::Target;

use super::place;
use crate::loss::message::{Message, Wire};

/// Bytes of an answer that no buffer on the way takes.
const BIG: usize = 64 * 1024 * 1024;

/// Answers every call with its name, or with the value of the field that the path names: `/field/host`, or with all of a path that begins
/// with `/api/path`. It misbehaves where the path says
/// so: `/status/503` is that status, `/die` closes without an answer, `/break` in the middle of one, and `/big` is answered with more than
/// waits on its way.
#[derive(Debug)]
pub struct Backend {
    pub name: String,
    pub target: Target,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Backend {
    pub async fn start(name: &str) -> Self {
        let listener = TcpListener::bind(place::at(0)).await.unwrap();
        let target = listener.local_addr().unwrap().to_string().parse().unwrap();
        let task = tokio::spawn(serve(listener, name.to_owned()));
        Self { name: name.to_owned(), target, task: Some(task) }
    }

    /// One that somebody else serves.
    pub fn elsewhere(name: &str, at: SocketAddr) -> Self {
        let target = at.to_string().parse().unwrap();
        Self { name: name.to_owned(), target, task: None }
    }

    /// So many of these names, in their order.
    pub async fn start_all<const N: usize>(names: [&str; N]) -> [Self; N] {
        let mut all = Vec::new();
        for name in names {
            all.push(Self::start(name).await);
        }
        all.try_into().unwrap()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn serve(listener: TcpListener, name: String) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        connections.spawn(converse(Wire::new(stream), name.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut wire: Wire<tokio::net::TcpStream>, name: String) {
    while let Ok(call) = wire.read().await {
        let body = body(&call, &name);
        let status = call.path().strip_prefix("/status/").unwrap_or("200").to_owned();
        match call.path() {
            "/die" => return,
            "/break" => {
                let _ = wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
                return;
            }
            "/big" => {
                let _ =
                    wire.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n").as_bytes()).await;
                let _ = wire.write(&vec![b'.'; BIG]).await;
                continue;
            }
            _ => {}
        }
        let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if wire.write(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn body(call: &Message, name: &str) -> String {
    let path = call.path();
    let asked = path.strip_prefix("/field/").map(|field| call.field(field).unwrap_or_default().to_owned());
    let whole = Some(path).filter(|path| path.starts_with("/api/path")).map(str::to_owned);
    asked.or(whole).unwrap_or_else(|| name.to_owned())
}
