use std::{borrow::Cow, net::IpAddr};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    request,
};

use crate::{
    caller::Caller,
    head::{Framing, MOST_FIELDS, Refusal, RequestSummary, Response},
    live::{self, Route},
};

/// The host of a call that names none, which HTTP/2 doesn't know.
const NO_HOST: &str = "localhost";

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// Only copies of calls have it.
const SHADOW: HeaderName = HeaderName::from_static("x-choirmaster-shadow");

/// Fields of one connection, which don't pass; `TE` is looked at apart.
const OF_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];

/// Fields that say something else behind a body than before it.
const NOT_BEHIND: [HeaderName; 3] = [CONTENT_LENGTH, TRAILER, TE];

/// The head of a call as the versions get it, whatever protocol they speak.
#[derive(Debug)]
pub(crate) struct Asking {
    method: Method,
    authority: Option<Box<str>>,
    /// Path and query.
    target: Box<str>,
    /// The path below which the version is that gets it; empty where there is none.
    below: String,
    fields: HeaderMap,
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub fields: HeaderMap,
}

/// The head of a call in HTTP/2, judged.
pub(crate) struct CheckedHead<'r> {
    pub head: &'r request::Parts,
    pub host: Option<&'r str>,
    pub address: IpAddr,
}

impl<'r> CheckedHead<'r> {
    /// Refused is what would leave room for a second reading in HTTP/1.1.
    pub(crate) fn judged(
        head: &'r request::Parts,
        address: IpAddr,
        most_fields: usize,
    ) -> Result<Self, Refusal> {
        if head.method == Method::CONNECT {
            return Err(Refusal { status: 405, why: "CONNECT isn't served here" });
        }
        if head.headers.len() > most_fields {
            return Err(Refusal { status: 431, why: "the head has too many fields" });
        }
        has_one_length(&head.headers).map_err(Refusal::bad)?;
        if head.headers.get_all(HOST).iter().count() > 1 {
            return Err(Refusal::bad("two hosts"));
        }
        let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(http::uri::Authority::as_str).or(named);
        if host.is_some_and(|host| host.contains('@')) {
            return Err(Refusal::bad("a host with a user"));
        }
        Ok(Self { head, host, address })
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &'r str {
        self.head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }
}

impl traffic::Call for CheckedHead<'_> {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.headers.get(name).map(|value| value.as_bytes().trim_ascii())
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        let cookies = self.head.headers.get_all(COOKIE).into_iter();
        cookies.flat_map(|field| field.as_bytes().split(|&byte| byte == b';')).find_map(|pair| {
            let at = memchr::memchr(b'=', pair)?;
            (pair[..at].trim_ascii() == name.as_bytes()).then(|| pair[at + 1..].trim_ascii())
        })
    }

    fn address(&self) -> IpAddr {
        self.address
    }
}

impl Asking {
    /// Of a call in HTTP/2.
    pub(crate) fn of_stream(
        seen: &CheckedHead<'_>,
        route: Route<'_>,
        caller: Caller,
    ) -> Result<Self, Refusal> {
        let (target, authority) = (route.target.into(), seen.host.map(Into::into));
        let mut fields = seen.head.headers.clone();
        drop_of_connection(&mut fields);
        let mut forwarded = Vec::new();
        for before in fields.get_all(FORWARDED_FOR) {
            forwarded.extend_from_slice(before.as_bytes().trim_ascii());
            forwarded.extend_from_slice(b", ");
        }
        forwarded.extend_from_slice(caller.address.to_string().as_bytes());
        let value =
            |bytes: &[u8]| HeaderValue::from_bytes(bytes).map_err(|_| Refusal::bad("a field that isn't one"));
        fields.insert(FORWARDED_FOR, value(&forwarded)?);
        fields.insert(FORWARDED_PROTO, HeaderValue::from_static(caller.scheme));
        fields.remove(FORWARDED_PREFIX);
        fields.remove(SHADOW);
        if let Some(prefix) = route.prefix {
            fields.insert(FORWARDED_PREFIX, value(prefix.as_bytes())?);
        }
        Ok(Self { method: seen.head.method.clone(), authority, target, below: String::new(), fields })
    }

    /// Of a call in HTTP/1.1, whose head was written for a version that speaks that as well.
    pub(crate) fn of_plain(head: &[u8]) -> Option<Self> {
        let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Request::new(&mut room);
        parsed.parse(head).ok()?;
        let (method, target) = (parsed.method?.parse().ok()?, parsed.path?.into());
        let mut fields = of_plain(parsed.headers)?;
        let authority = fields.get(HOST).and_then(|host| host.to_str().ok()).map(Into::into);
        drop_of_connection(&mut fields);
        Some(Self { method, authority, target, below: String::new(), fields })
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Says below which path the version is that the call goes to now.
    pub(crate) fn go_below(&mut self, path: &str) {
        self.below.clear();
        self.below.push_str(path);
    }

    /// Path and query as this version gets them.
    fn target(&self) -> Cow<'_, str> {
        if self.below.is_empty() {
            Cow::Borrowed(&*self.target)
        } else {
            Cow::Owned(live::below(&self.below, &self.target))
        }
    }

    /// As a version gets it that speaks HTTP/2.
    pub(crate) fn to_stream(&self) -> Option<Request<()>> {
        let authority = self.authority.as_deref().unwrap_or(NO_HOST);
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query(&*self.target());
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.build().ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.fields.clone();
        if request.headers().get(TE).is_some_and(|te| te.as_bytes() != b"trailers") {
            request.headers_mut().remove(TE);
        }
        Some(request)
    }

    /// As a version gets it that speaks HTTP/1.1. Without a length the body goes in chunks.
    pub(crate) fn to_plain(&self, has_body: bool) -> (Vec<u8>, Framing) {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target().as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.authority.as_deref().unwrap_or_default().as_bytes());
        out.extend_from_slice(b"\r\n");
        let mut cookies = self.fields.get_all(COOKIE).into_iter();
        if let Some(first) = cookies.next() {
            // HTTP/2 may have parted it.
            out.extend_from_slice(b"Cookie: ");
            out.extend_from_slice(first.as_bytes());
            for cookie in cookies {
                out.extend_from_slice(b"; ");
                out.extend_from_slice(cookie.as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        for (name, value) in self.fields.iter().filter(|&(name, _)| name != COOKIE) {
            append(&mut out, name, value);
        }
        let length = length(&self.fields);
        let framing = match length {
            None if has_body => Framing::Chunked,
            Some(1..) if has_body => Framing::Length(length.unwrap_or_default()),
            None | Some(_) => Framing::None,
        };
        if framing == Framing::Chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        out.extend_from_slice(b"\r\n");
        (out, framing)
    }
}

impl Answer {
    /// Of an answer in HTTP/1.1.
    pub(crate) fn of_plain(response: &Response<'_, '_>) -> Option<Self> {
        let status = StatusCode::from_u16(response.answered.status).ok()?;
        let mut fields = HeaderMap::new();
        for field in response.passing() {
            let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
            if name != TRANSFER_ENCODING {
                fields.append(name, HeaderValue::from_bytes(field.value.trim_ascii()).ok()?);
            }
        }
        Some(Self { status, fields })
    }

    /// Of an answer in HTTP/2.
    pub(crate) fn of_stream(head: http::response::Parts) -> Result<Self, &'static str> {
        let mut fields = head.headers;
        has_one_length(&fields)?;
        drop_of_connection(&mut fields);
        Ok(Self { status: head.status, fields })
    }

    /// As a caller gets it who speaks HTTP/1.1, with how the end of its body is told.
    pub(crate) fn to_plain(&self, asked: &RequestSummary, ended: bool, close: bool) -> (Vec<u8>, Framing) {
        let framing = self.framing(asked, ended);
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(if asked.is_http10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        out.extend_from_slice(self.status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.status.canonical_reason().unwrap_or_default().as_bytes());
        out.extend_from_slice(b"\r\n");
        for (name, value) in &self.fields {
            append(&mut out, name, value);
        }
        let may_have_body = !self.status.is_informational() && self.status != StatusCode::NO_CONTENT;
        match framing {
            Framing::None
                if may_have_body
                    && !asked.is_head
                    && self.status != StatusCode::NOT_MODIFIED
                    && !self.fields.contains_key(CONTENT_LENGTH) =>
            {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::None | Framing::Length(_) | Framing::UntilClose => {}
        }
        if close || framing == Framing::UntilClose {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if asked.is_http10 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
        (out, framing)
    }

    fn framing(&self, asked: &RequestSummary, ended: bool) -> Framing {
        let has_none = asked.is_head || self.status.is_informational() || ended;
        let has_none = has_none || matches!(self.status.as_u16(), 204 | 304);
        match length(&self.fields) {
            _ if has_none => Framing::None,
            Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
            None if asked.is_http10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }
}

/// What stays of a call in HTTP/2 when it is read by what reads answers of HTTP/1.1.
pub(crate) fn asked(is_head: bool) -> RequestSummary {
    RequestSummary {
        head_len: 0,
        framing: Framing::None,
        is_http10: false,
        keep_alive: true,
        upgrade: false,
        is_head,
        awaits_continue: false,
    }
}

/// Reads trailers, without those that would change what the message is.
pub(crate) fn trailers(text: &[u8]) -> Option<HeaderMap> {
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(text, &mut room) else {
        return None;
    };
    let mut fields = of_plain(parsed)?;
    drop_of_connection(&mut fields);
    for name in NOT_BEHIND {
        fields.remove(name);
    }
    Some(fields)
}

/// Writes trailers with the empty line behind them.
pub(crate) fn write_trailers(fields: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in fields {
        if !OF_CONNECTION.contains(name) && !NOT_BEHIND.contains(name) {
            append(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A field that the proxy adds.
pub(crate) fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::copy_from_slice(text.as_bytes())).ok()
}

fn of_plain(parsed: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut fields = HeaderMap::with_capacity(parsed.len());
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        fields.append(name, HeaderValue::from_bytes(field.value.trim_ascii()).ok()?);
    }
    Some(fields)
}

fn drop_of_connection(fields: &mut HeaderMap) {
    for name in OF_CONNECTION {
        fields.remove(name);
    }
}

fn append(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn length(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

fn has_one_length(fields: &HeaderMap) -> Result<(), &'static str> {
    let mut lengths = crate::head::Lengths::default();
    let values = fields.get_all(CONTENT_LENGTH).into_iter();
    values.map(HeaderValue::as_bytes).try_for_each(|value| lengths.note("content-length", value))
}
