//! What nginx is told, and what it says: its configuration as one include of ours, and a file for each bucket that isn't the
//! stable variation's. Pure: texts and names of files, which `router` writes.
//!
//! nginx (without modules from elsewhere) can't have its shares changed but by loading its configuration anew, which loses idle
//! connections. So the include says only *where to look*: two `split_clients` of 100 parts give a call its bucket, and a call
//! whose bucket is a file in the folder of a variation gets that variation; all others get the stable one. A change of shares makes
//! and removes files, and nginx needn't know. What changes with services, targets, rules and keys is the include, which is
//! loaded anew.
//!
//! ```nginx
//! # Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.
//! # digest 9c2f6e1d0b7a5843 load 17
//! map $cookie_cm_user $cm_1f00_key { default $cookie_cm_user; "" $request_id; }
//! split_clients "release-7${cm_1f00_key}" $cm_1f00_h { 1% 00; 1% 01; …; * 99; }
//! split_clients "release-7${cm_1f00_key}#" $cm_1f00_l { 1% 00; 1% 01; …; * 99; }
//! upstream cm_1f00_0 { server 127.0.0.1:9101; … }
//! upstream cm_1f00_1 { server 127.0.0.1:9111; … }
//! server {
//!     listen 127.0.0.1:8080;
//!     location / {
//!         limit_conn choirmaster_flights 65535; limit_conn_dry_run on;
//!         set $cm_flight 1f00:A;
//!         if (-f "/dev/shm/choirmaster/1f00/77aa/1/$cm_1f00_h$cm_1f00_l") { set $cm_flight 1f00:B; proxy_pass http://cm_1f00_1; }
//!         proxy_pass http://cm_1f00_0;
//!     }
//! }
//! ```
//!
//! - The folders: `FOLDER/SERVICE/STRUCTURE/VARIATION/BUCKET`. SERVICE is a hash of the service's name and STRUCTURE one of what
//!   the include has of it, so that workers that still go by the include before look into a folder of their own. VARIATION is
//!   its place, from 1; BUCKET has four digits.
//! - Who asks by a header: the include says which value of the header this is, and a file `FOLDER/SERVICE/STRUCTURE/asked/VARIATION/VALUE`
//!   which variation that leads to. So a roll-back of a service, with its shares and all that a header leads to, is one renaming of its
//!   folder.
//! - **No instant has a call between two variations.** A bucket is made in its new folder before it goes from the old one.
//!   With three variations and more a call looks more than once: see [`lookups`].
//! - **The end of a drain is seen.** nginx counts nothing by upstream, but its `limit_conn` counts the calls of a key that go on, in memory
//!   that its workers share, those that were replaced too. The key is the variation; nothing is ever refused (`limit_conn_dry_run`). A
//!   question of ours under the same key with a limit of 1 is told whether there is any: [`FLIGHT_STEPS`].
//! - Lines of calls are spread among [`LANES`](crate::log_line::LANES) sockets, since few wait in each.
//! - A server of ours on a loopback port answers what the *running* nginx has loaded, by which wanted state it goes, and which
//!   variation a given key gets. It is no unix socket because nginx doesn't start anew beside one that a killed nginx left.
//! - Nothing that a user wrote stands in it as it was written: values of headers become patterns of letters, digits and codes of
//!   bytes, services are known by hashes, and names have no characters that mean anything to nginx.
//!
//! - A port that services share by hosts and paths, or that has TLS, has a server for each host (those whose paths are the same services'
//!   stand in one), which answers 404 for what is nobody's. Of a host whose other paths no service has, the server is the operator's: what
//!   is ours there are locations in a file of their own, which they include.
//!
//! - Services of TCP and UDP stand in a file next to it, for the operator's `stream { … }`; what it says is described in `stream.rs`.
//!
//! Deliberately not here: health of targets beyond nginx's own `max_fails`; HTTP/2 towards callers; TLS that is passed on unopened; PROXY
//! headers; adopting what the operator's `stream { … }` serves.

mod adopt;
mod buckets;
mod log_line;
mod parse;
mod parts;
mod render;
mod sites;
mod stream;
mod text;
mod words;

use std::net::{IpAddr, SocketAddr};

pub(crate) use self::log_line::{read_line, read_stream_line};
pub use self::{
    adopt::{adopt, listens_of_others},
    buckets::{Changes, as_answered, bucket_name, changes, lookups, table_of},
    parse::{Header, ParseError, ParsedService, header, listens, parse, with_load},
    parts::{PART_HEAD, Part, keeps_apart, names_of, not_included, parts_of},
    render::{Place, RenderError, Rendered, render},
    sites::Listens,
    stream::{
        StreamService, parse_stream, session, shutdown_timeout, stream_digest, stream_not_included, stream_of,
    },
};
use crate::log_line::LogPath;

/// The file of services of TCP and UDP is called as the include, with a point and this after it.
pub const STREAM_ENDING: &str = "stream";

/// What the include needs to know beside the wanted state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    folder: String,
    /// Where our own server answers.
    pub ask: SocketAddr,
    /// The addresses at which services take calls.
    pub listen_on: Vec<IpAddr>,
    /// Where a line of each call goes; none: nowhere of ours.
    pub log: Option<Log>,
    /// What services of HTTPS are known by; none: there can be no such services.
    pub certificate: Option<Certificate>,
    /// Where our own server of services of TCP and UDP answers, which is there if they are; none: there can be no such services.
    pub ask_stream: Option<SocketAddr>,
}

/// A certificate in PEM and its private key, as nginx sees them: one for all, or, where both have `{host}` in their paths, one for each host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    const HOST: &str = "{host}";

    /// # Errors
    ///
    /// A path that could mean something to nginx, or only one of both is of each host.
    pub fn new(certificate: &str, key: &str) -> Result<Self, LayoutError> {
        let is_each = |path: &str| path.contains(Self::HOST);
        for path in [certificate, key] {
            if !is_plain(&path.replace(Self::HOST, "")) || is_each(certificate) != is_each(key) {
                return Err(LayoutError::Certificate(path.to_owned()));
            }
        }
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned() })
    }

    fn is_each(&self) -> bool {
        self.certificate.contains(Self::HOST)
    }

    /// The files of a host.
    fn of(&self, host: &str) -> (String, String) {
        (self.certificate.replace(Self::HOST, host), self.key.replace(Self::HOST, host))
    }
}

/// Whether it is an absolute path that is nothing but itself to nginx.
fn is_plain(path: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    path.starts_with('/') && path.bytes().all(may_stand)
}

/// How calls are logged for whoever counts them. It takes the place of what the operator's configuration has for all servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// As nginx sees it.
    pub socket: LogPath,
    /// It serves nothing beside what is in the include. Then it is asked how many calls it carried out, for which it needs its module
    /// `stub_status`, as it is in the packages of systems.
    pub is_alone: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the folder {0:?} is none: write an absolute path of letters, digits and / . _ -")]
    Folder(String),
    #[error(
        "the path {0:?} is of no use: write an absolute one of letters, digits and / . _ -, with {{host}} in those of certificate and key or in neither"
    )]
    Certificate(String),
    #[error("{0} is not at a loopback address: whoever may call it learns which variation a key gets")]
    Exposed(SocketAddr),
    #[error("services take calls at no address")]
    Nowhere,
}

impl Layout {
    /// # Errors
    ///
    /// A folder whose path could mean something to nginx; an address of ours that others could reach; no address for services.
    pub fn new(folder: &str, ask: SocketAddr, listen_on: Vec<IpAddr>) -> Result<Self, LayoutError> {
        if !is_plain(folder) {
            return Err(LayoutError::Folder(folder.to_owned()));
        }
        if !ask.ip().is_loopback() {
            return Err(LayoutError::Exposed(ask));
        }
        if listen_on.is_empty() {
            return Err(LayoutError::Nowhere);
        }
        Ok(Self {
            folder: folder.trim_end_matches('/').to_owned(),
            ask,
            listen_on,
            log: None,
            certificate: None,
            ask_stream: None,
        })
    }

    /// Where the files of buckets are.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.folder
    }
}

/// The paths at which our own server answers.
pub mod path {
    /// What is loaded: see [`super::loaded`].
    pub const LOADED: &str = "/choirmaster/loaded";
    /// The number of the wanted state, as it stands in the file [`NUMBER_FILE`].
    pub const NUMBER: &str = "/choirmaster/number";
    pub const NUMBER_FILE: &str = "number";
    /// The folder, beside those of buckets, of what callers may ask for.
    pub const ASKED: &str = "asked";
    /// How many calls there were: see [`super::ended`].
    pub const TOTAL: &str = "/choirmaster/total";

    /// Whether a variation has as many calls that go on as this step of [`super::FLIGHT_STEPS`] says.
    #[must_use]
    pub fn flights(step: usize) -> String {
        format!("/choirmaster/flights/{step}")
    }

    /// Which variation a key gets, and its bucket.
    #[must_use]
    pub fn key(service: &str, key: &str) -> String {
        format!("/choirmaster/of/{service}?key={key}")
    }
}

/// What our server answers for the include with this digest, the so-manyth that was loaded.
#[must_use]
pub fn loaded(digest: &str, load: u64) -> String {
    format!("choirmaster {digest} {load}")
}

/// What calls of a variation stand under while they go on.
#[must_use]
pub fn flight(id: &str, variation: &str) -> String {
    format!("{id}:{variation}")
}

/// In such steps it is told how many calls go on: at least so many.
pub const FLIGHT_STEPS: [u16; 14] = [1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000];

/// The field that tells it, of the answer at [`path::flights`].
pub const FLIGHT_FIELD: &str = "X-Choirmaster-Flights";

/// What that field says: whether the step is reached. None where it is no answer.
#[must_use]
pub fn is_reached(said: &str) -> Option<bool> {
    match said {
        "PASSED" => Some(false),
        "REJECTED_DRY_RUN" => Some(true),
        _ => None,
    }
}

/// How many calls have ended, of all that nginx ever carried out, by what its `stub_status` answers: those that began, less those that
/// go on, of which the question is one.
#[must_use]
pub fn ended(answer: &str) -> Option<u64> {
    let mut lines = answer.lines();
    lines.next().filter(|line| line.starts_with("Active connections:"))?;
    lines.next().filter(|line| line.starts_with("server accepts handled requests"))?;
    let begun: u64 = lines.next()?.split_ascii_whitespace().nth(2)?.parse().ok()?;
    let words: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let go_on = |name: &str| -> Option<u64> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse().ok()
    };
    Some(begun.saturating_sub(go_on("Reading:")?.saturating_add(go_on("Writing:")?)))
}

/// What the file of a header's value is called, and the value in the include: by its place in the rule.
#[must_use]
pub fn asked_name(value: usize) -> String {
    format!("r{value}")
}

/// By what a service is known in the include and on disk: 16 hexadecimal digits.
#[must_use]
pub fn id_of(service: &str) -> String {
    digest_of(service)
}

fn digest_of(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh64::xxh64(text.as_bytes(), 0))
}
