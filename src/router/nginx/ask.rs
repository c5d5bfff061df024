//! Questions to the running nginx: the server of ours in the include answers them over HTTP.

use std::{io, net::SocketAddr, time::Duration};

use crate::nginx::config::{FLIGHT_FIELD, FLIGHT_STEPS, ended, flight, is_reached, path};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};
use traffic::desired::Number;

use super::NGINX;
use crate::RouterError;

/// Nobody of ours answers with a longer line, more fields, or a longer body.
const LONGEST_LINE: u64 = 1024;
const MOST_FIELDS: usize = 32;
const LONGEST_BODY: usize = 1024;

/// Where nginx answers.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    pub at: SocketAddr,
    /// For one answer.
    pub time_limit: Duration,
}

/// What nginx has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub digest: String,
    pub load: u64,
}

/// What a key gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfKey {
    pub service: String,
    pub structure: String,
    pub variation: u8,
    pub bucket: u16,
}

/// What it says of services of TCP and UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Of the file that it has loaded.
    pub digest: String,
    /// Some of those that were asked about are open.
    pub has_open: bool,
}

/// An answer.
#[derive(Debug)]
struct Told {
    /// None where nothing is there.
    text: Option<String>,
    /// [`FLIGHT_FIELD`].
    field: Option<String>,
}

/// A connection to it.
#[derive(Debug)]
pub struct Asking {
    door: Door,
    stream: BufReader<TcpStream>,
}

impl Door {
    pub async fn open(self) -> Result<Asking, RouterError> {
        let stream = self.within("connecting", TcpStream::connect(self.at)).await?;
        let _ = stream.set_nodelay(true);
        Ok(Asking { door: self, stream: BufReader::new(stream) })
    }

    /// What it has loaded for services of TCP and UDP, and whether sessions under a key are open. A connection has one question.
    pub async fn sessions(self, key: &str) -> Result<Sessions, RouterError> {
        let mut stream = self.within("connecting", TcpStream::connect(self.at)).await?;
        let exchange = async {
            stream.write_all(format!("PROXY TCP6 {key} 0 0 0\r\n").as_bytes()).await?;
            let mut said = Vec::new();
            (&mut stream).take(LONGEST_LINE).read_to_end(&mut said).await?;
            String::from_utf8(said).map_err(|_| invalid("bytes that are no text".to_owned()))
        };
        let said = self.within("asking", exchange).await?;
        let words = said.strip_prefix("choirmaster ").and_then(|said| said.trim_end().split_once(' '));
        let answer = words.and_then(|(digest, status)| {
            Some(Sessions { digest: digest.to_owned(), has_open: is_reached(status)? })
        });
        answer.ok_or_else(|| nonsense(&said))
    }

    async fn within<T>(
        self,
        doing: &str,
        what: impl Future<Output = io::Result<T>>,
    ) -> Result<T, RouterError> {
        let doing = || format!("{doing} at {}", self.at);
        match timeout(self.time_limit, what).await {
            Ok(done) => done.map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => {
                    RouterError::Nonsense { router: NGINX, said: source.to_string() }
                }
                _ => RouterError::Away { router: NGINX, doing: doing(), source },
            }),
            Err(_) => Err(RouterError::Silent { router: NGINX, within: self.time_limit, doing: doing() }),
        }
    }
}

impl Asking {
    pub async fn loaded(&mut self) -> Result<Loaded, RouterError> {
        let said = self.get(path::LOADED).await?;
        let words = said.as_deref().and_then(|said| said.strip_prefix("choirmaster ")).unwrap_or_default();
        let loaded = words
            .split_once(' ')
            .and_then(|(digest, load)| Some(Loaded { digest: digest.to_owned(), load: load.parse().ok()? }));
        loaded.ok_or_else(|| nonsense(said.as_deref().unwrap_or("it knows nothing of choirmaster")))
    }

    /// By which wanted state its buckets go; none where it has none.
    pub async fn number(&mut self) -> Result<Option<Number>, RouterError> {
        let Some(said) = self.get(path::NUMBER).await? else { return Ok(None) };
        let number = said.split_once('.').and_then(|(epoch, generation)| {
            Some(Number { epoch: epoch.parse().ok()?, generation: generation.parse().ok()? })
        });
        number.map(Some).ok_or_else(|| nonsense(&said))
    }

    /// How many calls it carried out that have ended, this one not among them; none where it was loaded so that it doesn't tell.
    pub async fn ended(&mut self) -> Result<Option<u64>, RouterError> {
        let Some(said) = self.get(path::TOTAL).await? else { return Ok(None) };
        ended(&said).map(Some).ok_or_else(|| nonsense(&said))
    }

    /// How many calls of a variation go on, in all its processes: at least so many, in the steps of [`FLIGHT_STEPS`]. None where it
    /// loaded nothing that tells.
    pub async fn flights(&mut self, id: &str, variation: &str) -> Result<Option<u64>, RouterError> {
        let mut least = 0;
        for (at, step) in FLIGHT_STEPS.iter().enumerate() {
            let path = format!("{}?of={}", path::flights(at), flight(id, variation));
            let Told { field, .. } = self.told(&path).await?;
            // A 404 of who doesn't know the path has no such field.
            let Some(said) = field else { return Ok(None) };
            if !is_reached(&said).ok_or_else(|| nonsense(&said))? {
                break;
            }
            least = u64::from(*step);
        }
        Ok(Some(least))
    }

    /// What a key of letters and digits gets; none where it doesn't know the service.
    pub async fn of_key(&mut self, id: &str, key: &str) -> Result<Option<OfKey>, RouterError> {
        let Some(said) = self.get(&path::key(id, key)).await? else { return Ok(None) };
        let mut words = said.split(' ');
        let mut word = || words.next();
        let of_key = (|| {
            Some(OfKey {
                service: word()?.to_owned(),
                structure: word()?.to_owned(),
                variation: word()?.parse().ok()?,
                bucket: word()?.parse().ok()?,
            })
        })();
        of_key.map(Some).ok_or_else(|| nonsense(&said))
    }

    /// The text behind a path, without the end of its line; none where there is none.
    async fn get(&mut self, path: &str) -> Result<Option<String>, RouterError> {
        self.told(path).await.map(|told| told.text)
    }

    async fn told(&mut self, path: &str) -> Result<Told, RouterError> {
        let door = self.door;
        door.within("asking", self.exchange(path)).await
    }

    async fn exchange(&mut self, path: &str) -> io::Result<Told> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: choirmaster\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).map(str::to_owned);
        let (length, field) = self.fields().await?;
        let (Some(status), Some(length)) = (status, length.filter(|length| *length <= LONGEST_BODY)) else {
            return Err(invalid("an answer that isn't one of nginx to choirmaster".to_owned()));
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        match status.as_str() {
            "200" => {
                let text =
                    String::from_utf8(body).map_err(|_| invalid("bytes that are no text".to_owned()))?;
                Ok(Told { text: Some(text.trim_end().to_owned()), field })
            }
            "404" => Ok(Told { text: None, field }),
            status => Err(invalid(format!("status {status} at {path}"))),
        }
    }

    /// The length of the body that follows, and the field [`FLIGHT_FIELD`].
    async fn fields(&mut self) -> io::Result<(Option<usize>, Option<String>)> {
        let (mut length, mut told) = (None, None);
        for _ in 0..MOST_FIELDS {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok((length, told));
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            } else if name.eq_ignore_ascii_case(FLIGHT_FIELD) {
                told = Some(value.trim().to_owned());
            }
        }
        Err(invalid("more fields than an answer has".to_owned()))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(LONGEST_LINE);
        let read = bounded.read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        let text = text
            .ok_or_else(|| invalid(format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(80)]))))?;
        Ok(text.trim_end_matches('\r').to_owned())
    }
}

fn invalid(said: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, said)
}

fn nonsense(said: &str) -> RouterError {
    RouterError::Nonsense { router: NGINX, said: said.chars().take(200).collect() }
}
