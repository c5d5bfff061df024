//! What isn't HTTP: connections of TCP, TLS that passes unopened, and flows of UDP.

mod announced;
mod held;
mod named;
mod tcp;
pub mod udp;

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use proxy::form::TableForm;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::Running;

/// An address for connections of TCP.
pub fn tcp(running: &Running) -> SocketAddr {
    running.proxy.listen_tcp(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap()
}

/// Whether a connection ends in an error before anything comes.
pub async fn is_refused(at: SocketAddr) -> bool {
    match tokio::net::TcpStream::connect(at).await {
        Ok(mut stream) => stream.read_u8().await.is_err_and(|error| error.kind() != ErrorKind::UnexpectedEof),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A version that says its name, and then everything that it hears, until it has heard all.
pub async fn echo(name: &'static str) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                stream.write_all(name.as_bytes()).await?;
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await?;
                to.shutdown().await
            });
        }
    });
    at
}

/// A service `a` of a protocol at a port, with these hundredths of a percent for the second of its variations.
pub fn service(protocol: &str, port: SocketAddr, base: &str, new: &str, share: u16) -> Value {
    json!({
        "protocol": protocol, "ports": [port.port()],
        "variations": [{"name": "base", "targets": [base]}, {"name": "new", "targets": [new]}],
        "shares": [10_000 - share, share],
    })
}

/// A table of services `a`, `b` and so on.
pub fn table(generation: u64, services: impl IntoIterator<Item = Value>) -> TableForm {
    let named = services.into_iter().zip('a'..).map(|(mut service, name)| {
        service["name"] = json!(name.to_string());
        service
    });
    let services: Vec<Value> = named.collect();
    serde_json::from_value(json!({"format": 3, "generation": generation, "services": services})).unwrap()
}

impl Running {
    /// Puts a table of one service `a` in force.
    pub async fn share(&self, generation: u64, service: Value) {
        self.proxy.apply(&table(generation, [service])).await.unwrap();
    }
}
