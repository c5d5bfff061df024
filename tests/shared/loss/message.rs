use bytes::BytesMut;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A connection, as callers, versions and the imitation use it here: one message after the other.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    came: BytesMut,
}

/// A request or an answer.
#[derive(Debug)]
pub struct Message {
    /// In small letters but for its first line.
    head: String,
    pub body: Vec<u8>,
}

/// Why there is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Not one byte of it came.
    Nothing,
    /// It began, and did not end.
    Cut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, came: BytesMut::new() }
    }

    pub async fn write(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.stream.write_all(message).await.map_err(|_| Broken::Nothing)
    }

    pub async fn read(&mut self) -> Result<Message, Broken> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head);
        let (line, fields) = head.split_once("\r\n").ok_or(Broken::Cut)?;
        let head = format!("{line}\r\n{}", fields.to_lowercase());
        let mut message = Message { head, body: Vec::new() };
        if let Some(length) = message.field("content-length") {
            let length = length.parse().map_err(|_| Broken::Cut)?;
            message.body = self.exactly(length).await?;
        } else if message.field("transfer-encoding") == Some("chunked") {
            message.body = self.chunks().await?;
        }
        Ok(message)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut all = Vec::new();
        loop {
            let line = self.until(b"\r\n").await.map_err(|_| Broken::Cut)?;
            let digits = std::str::from_utf8(line.trim_ascii()).map_err(|_| Broken::Cut)?;
            let size = usize::from_str_radix(digits, 16).map_err(|_| Broken::Cut)?;
            let chunk = self.exactly(size + 2).await?;
            if size == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&chunk[..size]);
        }
    }

    async fn until(&mut self, end: &[u8]) -> Result<BytesMut, Broken> {
        loop {
            if let Some(at) = memmem::find(&self.came, end) {
                return Ok(self.came.split_to(at + end.len()));
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Broken> {
        while self.came.len() < length {
            self.more().await.map_err(|_| Broken::Cut)?;
        }
        Ok(self.came.split_to(length).to_vec())
    }

    async fn more(&mut self) -> Result<(), Broken> {
        let broken = if self.came.is_empty() { Broken::Nothing } else { Broken::Cut };
        self.came.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.came).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(broken),
        }
    }
}

impl Message {
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(of_this, _)| *of_this == name).map(|(_, value)| value.trim())
    }

    /// Of an answer.
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Of a request.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Whether the connection ends with it.
    pub fn closes(&self) -> bool {
        self.field("connection") == Some("close")
    }

    /// The number of a call: the last part of its path.
    pub fn number(&self) -> Option<u32> {
        self.path().rsplit('/').next()?.parse().ok()
    }

    /// As it is passed on by whoever changes nothing.
    pub fn written(&self) -> Vec<u8> {
        let length = format!("content-length: {}\r\n\r\n", self.body.len());
        let is_framed = self.field("content-length").is_some() || self.body.is_empty();
        let head = if is_framed {
            self.head.clone()
        } else {
            self.head.replace("transfer-encoding: chunked\r\n\r\n", &length)
        };
        [head.as_bytes(), &self.body].concat()
    }
}
