use memchr::memchr_iter;

/// A field's value without the spaces around it.
pub(super) fn trimmed(value: &[u8]) -> &[u8] {
    value.trim_ascii()
}

/// The members of a list of tokens that are parted by commas.
pub(super) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trimmed).filter(|token| !token.is_empty())
}

/// Whether each line ends in CR LF. A parser that takes a bare LF for the end of a line sees other fields than one that doesn't.
pub(super) fn lines_end_in_crlf(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r')
}

/// What a `Connection` field and its kin say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection<'h> {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// Values of `Connection` that name further fields which don't pass. More than a few are refused.
    named: [Option<&'h [u8]>; 4],
}

impl<'h> Connection<'h> {
    pub(super) fn note(&mut self, value: &'h [u8]) -> Result<(), &'static str> {
        for token in tokens(value) {
            if token.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if token.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                let free = self.named.iter_mut().find(|named| named.is_none());
                *free.ok_or("a connection field that names too many others")? = Some(token);
            }
        }
        Ok(())
    }

    /// Whether a field passes, since neither its kind nor `Connection` says that it is of this connection alone.
    pub(super) fn passes(&self, name: &str) -> bool {
        let is_of_connection = match name.len() {
            2 => name.eq_ignore_ascii_case("te"),
            7 => name.eq_ignore_ascii_case("upgrade"),
            10 => name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("keep-alive"),
            16 => name.eq_ignore_ascii_case("proxy-connection"),
            _ => false,
        };
        !is_of_connection
            && !self.named.iter().flatten().any(|named| named.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Whether `Connection` names a field without which the message would mean something else.
    pub(super) fn names_what_must_pass(&self) -> bool {
        const MUST_PASS: [&str; 15] = [
            "authorization",
            "cache-control",
            "content-encoding",
            "content-length",
            "content-range",
            "content-type",
            "cookie",
            "expect",
            "forwarded",
            "host",
            "location",
            "range",
            "set-cookie",
            "traceparent",
            "transfer-encoding",
        ];
        let must_pass =
            |named: &&[u8]| MUST_PASS.iter().any(|name| named.eq_ignore_ascii_case(name.as_bytes()));
        self.named.iter().flatten().any(must_pass)
    }
}

/// Appends the fields that pass. Neighbours are copied in one piece, since they stand behind each other in the head.
pub(super) fn append_passing<'h>(
    out: &mut Vec<u8>,
    head: &'h [u8],
    fields: &[httparse::Header<'h>],
    passes: impl Fn(&httparse::Header<'h>) -> bool,
) {
    let start_of = |field: &httparse::Header<'_>| field.name.as_ptr() as usize - head.as_ptr() as usize;
    let mut from = None;
    for field in fields {
        let at = start_of(field);
        match (passes(field), from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                out.extend_from_slice(&head[start..at]);
                from = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    if let Some(start) = from {
        // Without the empty line that ends the head.
        out.extend_from_slice(&head[start..head.len() - 2]);
    }
}
