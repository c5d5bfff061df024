use std::{mem::MaybeUninit, net::IpAddr};

use super::{
    Framing, MOST_FIELDS, Refusal,
    fields::{Connection, append_passing, lines_end_in_crlf, tokens, trimmed},
    framing::Lengths,
};
use crate::Limits;

/// The head of a request, as it lies in the buffer it was read into.
pub(crate) struct Request<'h, 'f> {
    head: &'h [u8],
    pub method: &'h str,
    /// Path and query.
    pub target: &'h str,
    pub host: Option<&'h [u8]>,
    /// The target was a whole URL, whose host takes the place of what the `Host` field says.
    is_host_of_target: bool,
    fields: &'f [httparse::Header<'h>],
    connection: Connection<'h>,
    /// It names a length, be it 0.
    has_length: bool,
    pub asked: RequestSummary,
}

/// What stays of a request when its head is gone from the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestSummary {
    /// Bytes of its head.
    pub head_len: usize,
    pub framing: Framing,
    /// The caller speaks HTTP/1.0.
    pub is_http10: bool,
    /// The connection can take a further call after this one.
    pub keep_alive: bool,
    /// The caller would like another protocol from here on.
    pub upgrade: bool,
    pub is_head: bool,
    /// The caller sends its body once it was told to go on.
    pub awaits_continue: bool,
}

/// What the proxy adds to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarded<'c> {
    pub caller: IpAddr,
    pub scheme: &'static str,
    /// The path without what named the service, where that doesn't pass.
    pub target: &'c str,
    pub prefix: Option<&'c str>,
}

pub(crate) type Fields<'h> = [MaybeUninit<httparse::Header<'h>>; MOST_FIELDS];

impl<'h, 'f> Request<'h, 'f> {
    pub(crate) fn room() -> Fields<'h> {
        [MaybeUninit::uninit(); MOST_FIELDS]
    }

    /// Reads the head at the beginning of what came, or gives nothing if there is no whole one yet.
    pub(crate) fn read(
        came: &'h [u8],
        room: &'f mut Fields<'h>,
        limits: &Limits,
    ) -> Result<Option<Self>, Refusal> {
        let most = limits.head_fields.min(MOST_FIELDS);
        let mut parsed = httparse::Request::new(&mut []);
        let config = httparse::ParserConfig::default();
        let status = config.parse_request_with_uninit_headers(&mut parsed, came, &mut room[..most]);
        let head_len = match status {
            Ok(httparse::Status::Complete(head_len)) => head_len,
            Ok(httparse::Status::Partial) if came.len() > limits.head_bytes => return Err(too_large()),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(refusal_of(error)),
        };
        if head_len > limits.head_bytes {
            return Err(too_large());
        }
        let head = &came[..head_len];
        if !lines_end_in_crlf(head) {
            return Err(Refusal::bad("a line of the head doesn't end in CR LF"));
        }
        let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(Refusal::bad("no request line"));
        };
        Self::judged(head, head_len, (method, target, minor), parsed.headers)
    }

    fn judged(
        head: &'h [u8],
        head_len: usize,
        (method, target, minor): (&'h str, &'h str, u8),
        fields: &'f [httparse::Header<'h>],
    ) -> Result<Option<Self>, Refusal> {
        let is_http10 = minor == 0;
        let mut lengths = Lengths::default();
        let mut connection = Connection::default();
        let mut host = None;
        let (mut asks_upgrade, mut awaits_continue) = (None, false);
        for field in fields {
            lengths.note(field.name, field.value).map_err(Refusal::bad)?;
            if field.name.eq_ignore_ascii_case("host") {
                if host.replace(trimmed(field.value)).is_some() {
                    return Err(Refusal::bad("two hosts"));
                }
            } else if field.name.eq_ignore_ascii_case("connection") {
                connection.note(field.value).map_err(Refusal::bad)?;
            } else if field.name.eq_ignore_ascii_case("upgrade") {
                let all_can = tokens(field.value).all(can_be_tunnelled);
                asks_upgrade = Some(asks_upgrade.unwrap_or(true) && all_can);
            } else if field.name.eq_ignore_ascii_case("expect") {
                awaits_continue |= trimmed(field.value).eq_ignore_ascii_case(b"100-continue");
            }
        }
        if connection.names_what_must_pass() {
            return Err(Refusal::bad("a connection field that names one which must pass"));
        }
        if host.is_none() && !is_http10 {
            return Err(Refusal::bad("no host"));
        }
        if is_http10 && lengths.chunked {
            return Err(Refusal::bad("a transfer encoding in HTTP/1.0"));
        }
        if method == "CONNECT" {
            return Err(Refusal { status: 405, why: "CONNECT isn't served here" });
        }
        if target == "*" && method != "OPTIONS" {
            return Err(Refusal::bad("a target * for another method than OPTIONS"));
        }
        let (target, named_host) = origin_form(target)?;
        let is_host_of_target = named_host.is_some();
        let host = named_host.map(str::as_bytes).or(host);
        if !host.is_none_or(is_host) {
            return Err(Refusal::bad("a host that isn't one"));
        }
        let framing = lengths.of_request();
        let has_length = lengths.length.is_some();
        let keep_alive = !connection.close && (!is_http10 || connection.keep_alive);
        let upgrade =
            connection.upgrade && asks_upgrade == Some(true) && !is_http10 && framing == Framing::None;
        let awaits_continue = awaits_continue && !is_http10 && framing != Framing::None;
        let is_head = method == "HEAD";
        let asked =
            RequestSummary { head_len, framing, is_http10, keep_alive, upgrade, is_head, awaits_continue };
        Ok(Some(Self {
            head,
            method,
            target,
            host,
            is_host_of_target,
            fields,
            connection,
            has_length,
            asked,
        }))
    }

    /// The value of the first field of a name.
    pub(crate) fn field(&self, name: &str) -> Option<&'h [u8]> {
        let found = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| trimmed(field.value))
    }

    /// The value of the first cookie of a name.
    pub(crate) fn cookie(&self, name: &str) -> Option<&'h [u8]> {
        let cookies = self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("cookie"));
        cookies.flat_map(|field| field.value.split(|&byte| byte == b';')).find_map(|pair| {
            let at = memchr::memchr(b'=', pair)?;
            (trimmed(&pair[..at]) == name.as_bytes()).then(|| trimmed(&pair[at + 1..]))
        })
    }

    /// Writes the head that the version gets.
    pub(crate) fn write(&self, added: Forwarded<'_>, out: &mut Vec<u8>) {
        out.reserve(self.head.len() + 160);
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        if added.target.starts_with('?') {
            out.push(b'/');
        }
        out.extend_from_slice(added.target.as_bytes());
        out.extend_from_slice(if self.asked.is_http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        append_passing(out, self.head, self.fields, |field| {
            self.connection.passes(field.name)
                && !is_replaced(field.name)
                && !(self.is_host_of_target && field.name.eq_ignore_ascii_case("host"))
        });
        if let Some(host) = self.host.filter(|_| self.is_host_of_target) {
            out.extend_from_slice(b"Host: ");
            out.extend_from_slice(host);
            out.extend_from_slice(b"\r\n");
        }
        match self.asked.framing {
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::Length(length) => append_display(out, format_args!("Content-Length: {length}\r\n")),
            Framing::None if self.has_length => out.extend_from_slice(b"Content-Length: 0\r\n"),
            Framing::None | Framing::UntilClose => {}
        }
        out.extend_from_slice(b"X-Forwarded-For: ");
        for field in self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("x-forwarded-for")) {
            out.extend_from_slice(trimmed(field.value));
            out.extend_from_slice(b", ");
        }
        append_address(out, added.caller);
        out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
        out.extend_from_slice(added.scheme.as_bytes());
        if let Some(prefix) = added.prefix {
            out.extend_from_slice(b"\r\nX-Forwarded-Prefix: ");
            out.extend_from_slice(prefix.as_bytes());
        }
        if self.asked.upgrade {
            out.extend_from_slice(b"\r\nConnection: upgrade");
            for field in self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("upgrade")) {
                out.extend_from_slice(b"\r\nUpgrade: ");
                out.extend_from_slice(field.value);
            }
        } else if self.asked.is_http10 {
            out.extend_from_slice(b"\r\nConnection: close");
        }
        if self.field("te").is_some_and(|te| te.eq_ignore_ascii_case(b"trailers")) {
            out.extend_from_slice(b"\r\nTE: trailers");
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

fn append_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing into a vector can't fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{value}"));
}

fn append_address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else { return append_display(out, address) };
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        for (unit, least) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= least {
                out.push(b'0' + octet / unit % 10);
            }
        }
    }
}

fn is_replaced(name: &str) -> bool {
    let replaced = match name.len() {
        14 => "content-length",
        15 => "x-forwarded-for",
        17 if name.starts_with(['t', 'T']) => "transfer-encoding",
        17 => "x-forwarded-proto",
        18 => "x-forwarded-prefix",
        20 => "x-choirmaster-shadow",
        _ => return false,
    };
    name.eq_ignore_ascii_case(replaced)
}

/// Whether a protocol may be changed to without anybody looking at it from then on. Another HTTP would bring calls past everything
/// that is decided here.
fn can_be_tunnelled(protocol: &[u8]) -> bool {
    let name = protocol.split(|&byte| byte == b'/').next().unwrap_or_default();
    !["h2", "h2c", "http", "tls"].iter().any(|refused| name.eq_ignore_ascii_case(refused.as_bytes()))
}

/// Whether a host has only characters that hosts and ports are written with. It may be empty, which says that there is none.
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte))
}

fn too_large() -> Refusal {
    Refusal { status: 431, why: "the head is too large" }
}

fn refusal_of(error: httparse::Error) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal { status: 431, why: "the head has too many fields" },
        httparse::Error::Version => Refusal { status: 505, why: "this is neither HTTP/1.1 nor HTTP/1.0" },
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Refusal::bad("a field that isn't one"),
        _ => Refusal::bad("this isn't HTTP"),
    }
}

/// Path and query of a target, and the host where it names one.
fn origin_form(target: &str) -> Result<(&str, Option<&str>), Refusal> {
    if target.starts_with('/') || target == "*" {
        return Ok((target, None));
    }
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let head = target.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    });
    let rest = rest.ok_or(Refusal::bad("a target that is neither a path nor a URL"))?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    match (rest.split_at(at), at) {
        (_, 0) => Err(Refusal::bad("a URL without a host")),
        ((host, path), _) if path.starts_with('/') => Ok((path, Some(host))),
        ((host, ""), _) => Ok(("/", Some(host))),
        _ => Err(Refusal::bad("a URL whose query follows its host")),
    }
}
