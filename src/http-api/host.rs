//! Under which names this manager is called, and who else is refused.
//!
//! A page of any site can have its own name resolved to this machine (DNS rebinding). Its browser then speaks to the
//! manager as if to the page's own site; only the name in `Host` gives it away.
//!
//! | calls | under an unknown name |
//! |---|---|
//! | of developers and operators | 421, whoever calls |
//! | of children | 421 to a browser (`Origin`, `Sec-Fetch-*`); others are served, with one warning a name |
//! | `/healthz`, `/readyz`; `/metrics` where it is open | served: probes call by whatever name they like |
//!
//! Known are `localhost`, loopback addresses, the addresses it listens on (all of the machine's where it listens on
//! 0.0.0.0 or ::), and the names in `http.hosts`. Ports don't count: something may forward another one.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Mutex, PoisonError},
};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header},
    response::{IntoResponse as _, Response},
};

use super::{child, problem::Problem};

/// Unknown names that are warned of one by one; what comes after them is not.
pub const MAX_WARNED: usize = 256;

/// Longest part of a name that is shown, in characters.
const MAX_SHOWN: usize = 100;

/// What a browser says of the site whose page makes it call. Every call of a child is asked for it, so it is read as a
/// name of a header once.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// All of a browser's own headers of a request; some are left out in some situations.
const SEC_FETCH: [&str; 4] = ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user"];

/// The names of a manager.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Names in lower case.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    /// Whether it listens on every address of the machine.
    everywhere: bool,
    /// Whether `/metrics` is for everybody.
    open_metrics: bool,
    warned: Mutex<HashSet<String>>,
}

/// Whose call it is, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    People,
    Children,
    Probes,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Denied {
    /// HTTP/1.1 has exactly one `Host`.
    HostCount(usize),
    UnknownName(String),
    OtherSite,
}

impl Hosts {
    /// `names` come from the configuration: names and addresses without a port.
    pub fn new(listen: &[SocketAddr], names: &[String], open_metrics: bool) -> Self {
        let mut hosts = Self { open_metrics, ..Self::default() };
        for address in listen {
            hosts.everywhere |= address.ip().is_unspecified();
            hosts.addresses.push(address.ip().to_canonical());
        }
        for name in names {
            match address_of(name) {
                Some(address) => hosts.addresses.push(address),
                None => hosts.names.push(name.trim_end_matches('.').to_ascii_lowercase()),
            }
        }
        hosts
    }

    /// Lets a request pass, or answers it. `local` is the address that the connection came to.
    #[expect(clippy::result_large_err, reason = "the answer is made once, on the way out")]
    pub fn admit<B>(&self, request: &Request<B>, local: Option<IpAddr>) -> Result<(), Response> {
        let audience = self.audience(request.method(), request.uri().path());
        self.check(request, audience, local).map_err(|denied| denied.answer(audience))
    }

    fn audience(&self, method: &Method, path: &str) -> Audience {
        match path {
            "/release" if *method == Method::POST => Audience::People,
            "/healthz" | "/readyz" => Audience::Probes,
            "/metrics" if self.open_metrics => Audience::Probes,
            path if child::is_child_path(path) => Audience::Children,
            _ => Audience::People,
        }
    }

    fn check<B>(
        &self,
        request: &Request<B>,
        audience: Audience,
        local: Option<IpAddr>,
    ) -> Result<(), Denied> {
        let headers = request.headers();
        let mut sent = headers.get_all(header::HOST).iter();
        let host = match (sent.next(), sent.next()) {
            (Some(host), None) => Some(host.as_bytes()),
            (None, _) if request.version() < Version::HTTP_11 => None,
            (None, _) => return Err(Denied::HostCount(0)),
            (Some(_), Some(_)) => return Err(Denied::HostCount(2 + sent.count())),
        };
        if audience == Audience::Probes {
            return Ok(());
        }
        // Proxies are asked with the whole address; its name counts as much as the header.
        let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let unknown = [host, target].into_iter().flatten().find(|name| !self.is_known(name, local));
        match unknown {
            None if audience == Audience::Children && is_of_another_site(headers, host) => {
                Err(Denied::OtherSite)
            }
            None => Ok(()),
            Some(name) => {
                let name = shown(name);
                let refused = audience == Audience::People || is_browser(headers);
                self.warn(&name, refused);
                if refused { Err(Denied::UnknownName(name)) } else { Ok(()) }
            }
        }
    }

    /// Whether this manager, called at the address `local`, is known under this name or address.
    pub fn is_known(&self, host: &[u8], local: Option<IpAddr>) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let Some(name) = name_of(host) else { return false };
        if let Some(address) = address_of(name) {
            return address.is_loopback()
                || local.is_some_and(|local| local.to_canonical() == address)
                || self.addresses.contains(&address)
                || (self.everywhere && is_of_machine(address));
        }
        let name = name.trim_end_matches('.');
        name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// How many unknown names were warned of.
    pub fn warned_count(&self) -> usize {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Logs that somebody calls under this name, once.
    pub fn warn(&self, name: &str, refused: bool) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= MAX_WARNED || !warned.insert(name.to_owned()) {
            return;
        }
        let advice = "http.hosts lists the names under which this manager may be called";
        if refused {
            tracing::warn!(host = name, "a call under an unknown name was refused; {advice}");
        } else {
            tracing::warn!(host = name, "a child calls under an unknown name and is served; {advice}");
        }
        if warned.len() == MAX_WARNED {
            tracing::warn!("there were {MAX_WARNED} unknown names; no more of them are logged");
        }
    }
}

impl Denied {
    fn answer(self, audience: Audience) -> Response {
        let (status, text) = match self {
            Self::HostCount(0) => {
                (StatusCode::BAD_REQUEST, "the header Host is missing, which HTTP/1.1 requires".to_owned())
            }
            Self::HostCount(_) => {
                (StatusCode::BAD_REQUEST, "the header Host is there more than once".to_owned())
            }
            Self::UnknownName(name) => (
                StatusCode::MISDIRECTED_REQUEST,
                format!(
                    "this manager is not known as {name:?}; http.hosts in its configuration lists its names"
                ),
            ),
            Self::OtherSite => (StatusCode::FORBIDDEN, "a page of another site may not act here".to_owned()),
        };
        match audience {
            Audience::Children => child::refusal(status, text),
            Audience::People | Audience::Probes => Problem::plain(status, text).into_response(),
        }
    }
}

/// The name or the address in a `Host`, without its port; `None` for what can't be one.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = if host.starts_with('[') {
        host.split_at(host.find(']')? + 1)
    } else {
        host.split_at(host.find(':').unwrap_or(host.len()))
    };
    let is_port = port.is_empty() || port.strip_prefix(':')?.bytes().all(|byte| byte.is_ascii_digit());
    (is_port && !name.is_empty()).then_some(name)
}

fn address_of(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Whether an address is one of this machine's now. Interfaces come and go, so the system is asked: it lets nobody
/// take an address that is another machine's.
fn is_of_machine(address: IpAddr) -> bool {
    let names_one = match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    };
    names_one && UdpSocket::bind((address, 0)).is_ok()
}

fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || SEC_FETCH.iter().any(|name| headers.contains_key(*name))
}

/// Whether a browser calls for a page of another site. Browsers say which site it is; nobody else does.
pub(super) fn is_of_another_site(headers: &HeaderMap, host: Option<&[u8]>) -> bool {
    if let Some(origin) = headers.get(header::ORIGIN) {
        let site = origin.as_bytes().split(|byte| *byte == b'/').next_back();
        return site != host;
    }
    let site = headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
}

/// A name that somebody else chose, fit for a line of text.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().filter(char::is_ascii_graphic).take(MAX_SHOWN).collect()
}
