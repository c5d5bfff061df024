//! Calls of a target, without a proxy between.

use proxy::live::Target;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

/// An answer: its status, its head in lower case, its body.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

pub async fn get(target: &Target, path: &str) -> Answered {
    call(target, "GET", path, "").await.unwrap()
}

pub async fn post(target: &Target, body: &str) -> Answered {
    call(target, "POST", "/", body).await.unwrap()
}

pub async fn call(target: &Target, method: &str, path: &str, body: &str) -> std::io::Result<Answered> {
    let (length, path) = (body.len(), target.with_path(path));
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    raw(target, &format!("{head}{body}")).await
}

/// Sends this, and reads until the connection ends.
pub async fn raw(target: &Target, text: &str) -> std::io::Result<Answered> {
    match target {
        Target::Tcp(address) | Target::Below { address, .. } => {
            exchange(TcpStream::connect(address).await?, text).await
        }
        Target::Unix(path) => exchange(UnixStream::connect(path).await?, text).await,
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> std::io::Result<Answered> {
    stream.write_all(text.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    let cut = || std::io::Error::other(format!("no answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    Ok(Answered { status, head: head.to_lowercase(), body: body.to_owned() })
}
