//! A server that answers every call with the bytes it was given, and remembers what it was asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

pub struct Stub {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

/// What follows the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Close,
    Hang,
}

impl Stub {
    pub async fn new(answer: Vec<u8>, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                seen.lock().unwrap().push(request);
                // Whoever has read enough closes the connection.
                let _ = stream.write_all(&answer).await;
                if then == Then::Hang {
                    open.push(stream);
                }
            }
        });
        Self { address, asked, serving }
    }

    /// A whole answer.
    pub async fn says(status: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        Self::new([head.as_bytes(), body.as_bytes()].concat(), Then::Close).await
    }

    /// The calls so far: head and body.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break;
            }
        }
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&part[..read]),
            _ => break,
        }
    }
    String::from_utf8(bytes).unwrap()
}
