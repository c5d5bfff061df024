//! Requests as bytes, for what no client would send.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::deadline::DEADLINE;

/// An answer as it came.
#[derive(Debug)]
pub struct Raw(pub String);

impl Raw {
    pub fn status(&self) -> u16 {
        self.0.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// Whether the connection ends with this answer, as its head says.
    pub fn says_close(&self) -> bool {
        self.head().contains("\r\nconnection: close")
    }

    fn head(&self) -> String {
        self.0.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
    }
}

/// Sends bytes on a connection of their own and reads the first answer.
pub async fn raw(address: SocketAddr, request: &[u8]) -> Raw {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    first_answer(&mut stream).await
}

/// Reads one answer, or whatever comes before the end.
pub async fn first_answer(stream: &mut TcpStream) -> Raw {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    let reading = async {
        while !is_whole(&text) {
            // A reset is as good an end as a close.
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => break,
                Ok(bytes) => text.extend_from_slice(&part[..bytes]),
            }
        }
    };
    timeout(DEADLINE, reading).await.expect("an answer in time");
    Raw(String::from_utf8_lossy(&text).into_owned())
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}
