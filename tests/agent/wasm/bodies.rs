//! Bodies of calls, as they go in and come out.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::live::Target;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{GRACE, WasmWorld, World, can, started};
use crate::calls::raw;

/// A call whose body goes out while its answer comes in, with chunks on both sides.
pub struct Slow {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Slow {
    /// With a body of so many bytes. Returns when the head of the answer is there.
    pub async fn begin(target: &Target, path: &str, length: usize) -> Self {
        let Target::Unix(socket) = target else { panic!("{target} is no socket") };
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut slow = Self { stream, read: Vec::new() };
        let head = slow.until(b"\r\n\r\n").await;
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        slow
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next bytes of the answer's body, all of them in one chunk.
    pub async fn receive(&mut self, length: usize) -> Vec<u8> {
        let size = self.until(b"\r\n").await;
        assert_eq!(usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap(), length);
        let mut chunk = self.until(b"\r\n").await;
        chunk.truncate(length);
        chunk
    }

    /// The answer ends well.
    pub async fn end(&mut self) {
        assert_eq!(self.until(b"\r\n").await, b"0\r\n");
        self.until(b"\r\n").await;
    }

    async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|part| part == end) {
                let rest = self.read.split_off(at + end.len());
                return std::mem::replace(&mut self.read, rest);
            }
            let mut part = [0; 4096];
            let length = self.stream.read(&mut part).await.unwrap();
            assert!(length > 0, "it ended: {}", String::from_utf8_lossy(&self.read));
            self.read.extend_from_slice(&part[..length]);
        }
    }
}

#[tokio::test]
async fn bodies_go_in_and_come_out_as_they_are_made() {
    if !can("bodies go in and come out") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    let mut slow = Slow::begin(&running.target, "/echo", 6).await;
    for part in [b"ab", b"cd", b"ef"] {
        slow.send(part).await;
        assert_eq!(slow.receive(2).await, part);
    }
    slow.end().await;
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    if !can("trailers pass") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    let head = "POST /echo HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: close\r\n";
    let with = format!(
        "{head}Trailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 42\r\n\r\n"
    );
    let answered = raw(&running.target, &with).await.unwrap();
    assert_eq!((answered.status, answered.body.as_str()), (200, "3\r\nabc\r\n0\r\nx-sum: 42\r\n\r\n"));
    let without = format!("{head}Content-Length: 3\r\n\r\nabc");
    let answered = raw(&running.target, &without).await.unwrap();
    assert_eq!(answered.body, "3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n", "the component has trailers of its own");
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_larger_than_the_memory_of_a_call_is_streamed() {
    if !can("an answer larger than memory") {
        return;
    }
    let mut world = WasmWorld::new();
    world.bounds.memory = 4 << 20;
    let (runtime, order, running) = started(&world).await;
    let text = "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nlong";
    let answered = raw(&running.target, text).await.unwrap();
    assert_eq!((answered.status, answered.body.len()), (200, 64 << 20), "a call that names no host, too");
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn an_answer_whose_function_fails_on_the_way_is_cut_and_no_whole_one() {
    if !can("an answer that is cut") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    let text = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\npart";
    let answered = raw(&running.target, text).await.unwrap();
    assert_eq!((answered.status, answered.body.as_str()), (200, "5\r\nHello\r\n"), "without the last chunk");
    runtime.stop(&order.version, GRACE).await.unwrap();
}

#[tokio::test]
async fn calls_over_http2_are_answered_too() {
    if !can("calls over HTTP/2") {
        return;
    }
    let world = WasmWorld::new();
    let (runtime, order, running) = started(&world).await;
    let Target::Unix(socket) = &running.target else { panic!("{} is no socket", running.target) };
    let stream = TokioIo::new(UnixStream::connect(socket).await.unwrap());
    let (mut calls, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let body = Full::new(bytes::Bytes::from("Ada"));
    let request = hyper::Request::post("http://x/echo").body(body).unwrap();
    let (head, body) = calls.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
    assert_eq!(body.to_bytes(), "Ada");
    drop(calls);
    runtime.stop(&order.version, GRACE).await.unwrap();
}
