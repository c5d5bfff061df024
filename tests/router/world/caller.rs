use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};

use crate::loss::message::{Broken, Message, Wire};

/// Makes one call after the other on a connection that stays.
#[derive(Debug)]
pub struct Caller {
    at: SocketAddr,
    /// The address that it calls from.
    from: Option<IpAddr>,
    host: String,
    wire: Option<Wire<TcpStream>>,
}

impl Caller {
    pub fn new(at: SocketAddr) -> Self {
        Self::of_host(at, "here")
    }

    pub fn of_host(at: SocketAddr, host: &str) -> Self {
        Self { at, from: None, host: host.to_owned(), wire: None }
    }

    pub fn from_address(at: SocketAddr, from: IpAddr) -> Self {
        Self { from: Some(from), ..Self::new(at) }
    }

    /// The whole answer to a GET of this path with these fields.
    pub async fn try_get(&mut self, path: &str, fields: &[(&str, &str)]) -> Result<Message, Broken> {
        let mut call = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in fields {
            call.extend([name, ": ", value, "\r\n"]);
        }
        call.push_str("\r\n");
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::new(self.connect().await.map_err(|_| Broken::Nothing)?),
        };
        wire.write(call.as_bytes()).await?;
        let answer = wire.read().await?;
        if !answer.closes() {
            self.wire = Some(wire);
        }
        Ok(answer)
    }

    /// The same, of a router that answers.
    pub async fn get(&mut self, path: &str, fields: &[(&str, &str)]) -> Message {
        let answer = self.try_get(path, fields).await.expect("it answers");
        assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
        answer
    }

    /// Which variation gets a call with these fields.
    pub async fn variation(&mut self, fields: &[(&str, &str)]) -> String {
        String::from_utf8(self.get("/", fields).await.body).unwrap()
    }

    async fn connect(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if let Some(from) = self.from {
            socket.bind((from, 0).into())?;
        }
        let stream = socket.connect(self.at).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
