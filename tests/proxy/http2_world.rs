//! Versions and callers that speak HTTP/2, and versions of HTTP/1.1 that say what they got.

use std::net::SocketAddr;

use bytes::Bytes;
use call_metrics::Tally;
use h2::{
    RecvStream, SendStream,
    client::SendRequest,
    server::{self, SendResponse},
};
use http::{HeaderMap, Request, Response};
use proxy::{Proxy, form::TableForm};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::world::read_head;
pub use crate::world::wait_until as until;

/// A version that speaks HTTP/2 and does this with each call.
pub async fn h2_version<D, F>(does: D) -> SocketAddr
where
    D: Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let does = does.clone();
            tokio::spawn(async move {
                let mut connection = server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(does(request, respond));
                }
            });
        }
    });
    at
}

/// A version of HTTP/1.1 that answers each call with the head and the body that it got, as they came.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while let Some(head) = read_head(&mut stream).await {
                    let mut got = head.clone().into_bytes();
                    let lower = head.to_lowercase();
                    if let Some((_, length)) = lower.split_once("content-length: ") {
                        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
                        let mut body = vec![0; length];
                        stream.read_exact(&mut body).await.unwrap();
                        got.extend(body);
                    } else if lower.contains("transfer-encoding: chunked") {
                        got.extend(read_chunks(&mut stream).await);
                    }
                    let head =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Is: echo\r\n\r\n", got.len());
                    stream.write_all(&[head.as_bytes(), &got].concat()).await.unwrap();
                }
            });
        }
    });
    at
}

/// A body in chunks, as it came.
pub async fn read_chunks<S: AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let line = read_line(stream).await;
        all.extend(&line);
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        if size == 0 {
            loop {
                let line = read_line(stream).await;
                all.extend(&line);
                if line == b"\r\n" {
                    return all;
                }
            }
        }
        let mut data = vec![0; size + 2];
        stream.read_exact(&mut data).await.unwrap();
        all.extend(data);
    }
}

async fn read_line<S: AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    line
}

/// A caller that speaks HTTP/2 from the first byte on.
pub async fn connect(at: SocketAddr) -> SendRequest<Bytes> {
    over(TcpStream::connect(at).await.unwrap()).await
}

pub async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> SendRequest<Bytes> {
    // Many small messages may come before any is read.
    let mut builder = h2::client::Builder::new();
    let (send, connection) = builder.data_frame_budget(64 * 1024 * 1024).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    send
}

/// A call's head, to the service of the tests.
pub fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://here.example{path}")).body(()).unwrap()
}

/// An answer whole.
#[derive(Debug)]
pub struct Whole {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

impl Whole {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Makes a call without trailers.
pub async fn call(
    send: &SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
) -> Result<Whole, h2::Error> {
    let body: Bytes = body.into();
    let mut send = send.clone().ready().await?;
    let (answer, mut stream) = send.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        let sending = tokio::spawn(async move { give(&mut stream, body, true).await });
        let whole = whole(answer.await?).await;
        sending.abort();
        return whole;
    }
    whole(answer.await?).await
}

/// Hands data to a stream as it takes it.
pub async fn give(stream: &mut SendStream<Bytes>, mut data: Bytes, last: bool) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        while stream.capacity() == 0 {
            match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
        let part = data.split_to(stream.capacity().min(data.len()));
        stream.send_data(part, last && data.is_empty())?;
    }
    Ok(())
}

/// Reads an answer to its end.
pub async fn whole(answer: Response<RecvStream>) -> Result<Whole, h2::Error> {
    let (head, body) = answer.into_parts();
    let (body, trailers) = read(body).await?;
    Ok(Whole { status: head.status.as_u16(), fields: head.headers, body, trailers })
}

pub async fn read(mut stream: RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?;
    Ok((body, trailers))
}

/// Says that these variations of the only service speak HTTP/2.
pub fn speaking_h2c(form: TableForm, names: &[&str]) -> TableForm {
    let mut form = serde_json::to_value(form).unwrap();
    for variation in form["services"][0]["variations"].as_array_mut().unwrap() {
        if names.iter().any(|name| variation["name"] == **name) {
            variation["protocol"] = "h2c".into();
        }
    }
    serde_json::from_value(form).unwrap()
}

/// What was counted of a variation since `before`, which becomes what is counted now.
pub async fn counted_since(proxy: &Proxy, variation: &str, before: &mut Tally) -> Tally {
    let now = counted(proxy, variation).await;
    let mut since = Tally {
        calls: now.calls - before.calls,
        errors: now.errors - before.errors,
        repeated: now.repeated - before.repeated,
        passed_over: now.passed_over - before.passed_over,
        ..Tally::default()
    };
    for (at, failed) in since.failed.iter_mut().enumerate() {
        *failed = now.failed[at] - before.failed[at];
    }
    *before = now;
    since
}

/// What was counted of a variation.
pub async fn counted(proxy: &Proxy, variation: &str) -> Tally {
    let mut sum = Tally::default();
    for of_one in proxy.gather().await.into_iter().filter(|of_one| of_one.key.variation == variation) {
        sum.merge(&of_one.tally);
    }
    sum
}
