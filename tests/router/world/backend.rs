use std::net::SocketAddr;

use tokio::{net::TcpListener, task::JoinSet};
use traffic::wanted::Target;

use super::place;
use crate::loss::message::{Message, Wire};

/// Answers every call with its name, or with the value of the field that the path names: `/field/host`.
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
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if wire.write(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn body(call: &Message, name: &str) -> String {
    let path = call.path();
    let asked = path.strip_prefix("/field/").map(|field| call.field(field).unwrap_or_default().to_owned());
    asked.unwrap_or_else(|| name.to_owned())
}
