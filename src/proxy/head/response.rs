use super::{
    Framing,
    fields::{Connection, append_passing, lines_end_in_crlf},
    framing::Lengths,
    request::{Fields, RequestSummary},
};

/// The most bytes of an answer's head.
pub(crate) const HEAD_BYTES: usize = 256 * 1024;

/// The head of an answer, as it lies in the buffer it was read into.
pub(crate) struct Response<'h, 'f> {
    head: &'h [u8],
    /// Status, space and reason.
    line: &'h [u8],
    fields: &'f [httparse::Header<'h>],
    connection: Connection<'h>,
    pub answered: ResponseSummary,
}

/// What stays of an answer when its head is gone from the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseSummary {
    pub head_len: usize,
    pub status: u16,
    pub framing: Framing,
    /// The version's connection can take a further call after this one.
    pub keep_alive: bool,
    /// How many seconds the version keeps an idle connection, where it says so.
    pub keeps_idle: Option<u32>,
}

/// It isn't an answer that has one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseFault(pub &'static str);

impl<'h, 'f> Response<'h, 'f> {
    /// Reads the head at the beginning of what came, or gives nothing if there is no whole one yet.
    pub(crate) fn read(
        came: &'h [u8],
        room: &'f mut Fields<'h>,
        asked: &RequestSummary,
    ) -> Result<Option<Self>, ResponseFault> {
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let head_len = match config.parse_response_with_uninit_headers(&mut parsed, came, room) {
            Ok(httparse::Status::Complete(head_len)) => head_len,
            Ok(httparse::Status::Partial) if came.len() > HEAD_BYTES => {
                return Err(ResponseFault("a head that is too large"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(ResponseFault("no HTTP")),
        };
        let head = &came[..head_len];
        // The parser passes over empty lines before the head.
        if !head.starts_with(b"HTTP/1.") {
            return Err(ResponseFault("no HTTP"));
        }
        if !lines_end_in_crlf(head) {
            return Err(ResponseFault("a line of the head that doesn't end in CR LF"));
        }
        let (Some(minor), Some(status)) = (parsed.version, parsed.code) else {
            return Err(ResponseFault("no status line"));
        };
        if !(100..1000).contains(&status) {
            return Err(ResponseFault("a status that is none"));
        }
        let mut lengths = Lengths::default();
        let mut connection = Connection::default();
        let mut keeps_idle = None;
        for field in &*parsed.headers {
            lengths.note(field.name, field.value).map_err(ResponseFault)?;
            if field.name.eq_ignore_ascii_case("connection") {
                connection.note(field.value).map_err(ResponseFault)?;
            } else if field.name.eq_ignore_ascii_case("keep-alive") {
                keeps_idle = idle_seconds(field.value);
            }
        }
        if connection.names_what_must_pass() {
            return Err(ResponseFault("a connection field that names one which must pass"));
        }
        if lengths.chunked && minor == 0 {
            return Err(ResponseFault("a transfer encoding in HTTP/1.0"));
        }
        if lengths.chunked && asked.is_http10 {
            return Err(ResponseFault("a transfer encoding for a caller that speaks HTTP/1.0"));
        }
        let framing = if asked.is_head || matches!(status, 100..=199 | 204 | 304) {
            Framing::None
        } else {
            match (lengths.chunked, lengths.length) {
                (true, _) => Framing::Chunked,
                (false, Some(0)) => Framing::None,
                (false, Some(length)) => Framing::Length(length),
                (false, None) => Framing::UntilClose,
            }
        };
        let keep_alive = !connection.close
            && (minor == 1 || connection.keep_alive)
            && framing != Framing::UntilClose
            && !asked.is_http10;
        let line_len = memchr::memchr(b'\r', head).unwrap_or(head.len());
        let answered = ResponseSummary { head_len, status, framing, keep_alive, keeps_idle };
        let line = head.get("HTTP/1.1 ".len()..line_len).unwrap_or_default();
        Ok(Some(Self { head, line, fields: parsed.headers, connection, answered }))
    }

    /// The fields that pass.
    pub(crate) fn passing(&self) -> impl Iterator<Item = &httparse::Header<'h>> {
        self.fields.iter().filter(|field| self.connection.passes(field.name))
    }

    /// Writes the head that the caller gets.
    pub(crate) fn write(&self, asked: &RequestSummary, added: &Added<'_>, out: &mut Vec<u8>) {
        out.reserve(self.head.len() + 96);
        out.extend_from_slice(if asked.is_http10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        out.extend_from_slice(self.line);
        out.extend_from_slice(b"\r\n");
        // These never have a body: what says how long it is would only be misread.
        let has_no_length = matches!(self.answered.status, 100..=199 | 204);
        append_passing(out, self.head, self.fields, |field| {
            self.connection.passes(field.name) && !(has_no_length && frames(field.name))
        });
        if self.answered.status == 101 {
            out.extend_from_slice(b"Connection: upgrade\r\n");
            for field in self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("upgrade")) {
                out.extend_from_slice(b"Upgrade: ");
                out.extend_from_slice(field.value);
                out.extend_from_slice(b"\r\n");
            }
        } else if self.answered.status >= 200 {
            out.extend_from_slice(match (added.close, asked.is_http10) {
                (true, _) => b"Connection: close\r\n".as_slice(),
                (false, true) => b"Connection: keep-alive\r\n",
                (false, false) => b"",
            });
        }
        if self.answered.status >= 200 {
            added.fields.iter().for_each(|fields| out.extend_from_slice(fields));
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// What the proxy adds to an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Added<'a> {
    /// The caller's connection ends with this answer.
    pub close: bool,
    /// Whole fields, each with its line end.
    pub fields: [&'a [u8]; 2],
}

fn frames(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
}

/// `timeout=5` of a `Keep-Alive` field.
fn idle_seconds(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?;
    let named = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    named.trim().parse().ok()
}
