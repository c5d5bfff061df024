//! Versions that answer, a proxy before them, and callers.

use std::net::{SocketAddr, TcpListener};

use choirmaster_proxy::{Limits, Proxy, form::TableForm};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A proxy on a free port.
pub struct Running {
    pub proxy: Proxy,
    pub at: SocketAddr,
}

pub fn start(limits: Limits) -> Running {
    let proxy = Proxy::start(2, limits).unwrap();
    let at = proxy.listen(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    Running { proxy, at }
}

/// A table of one service `a` with a stable version, and a new one with so many hundredths of a percent.
pub fn table(generation: u64, base: SocketAddr, new: SocketAddr, share: u16) -> TableForm {
    let text = serde_json::json!({
        "generation": generation,
        "services": [{
            "name": "a",
            "variations": [{"name": "base", "targets": [base.to_string()]}, {"name": "new", "targets": [new.to_string()]}],
            "shares": [10_000 - share, share],
        }],
    });
    serde_json::from_value(text).unwrap()
}

/// A version that reads heads of calls without bodies and gives each this answer, whole and as it is.
pub async fn version(answer: &'static str) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while read_head(&mut stream).await.is_some() {
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

/// The next head, up to and with its empty line.
pub async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Waits until something is so.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), so).await.expect(what);
}
