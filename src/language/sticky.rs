//! By what the calls of a function stay with one version.
//!
//! It says how whoever routes the calls goes about it: so many calls are worth as much as their users, and nobody is to take
//! them for independent ones. Nothing here routes by it.

pub use model::traffic::Sticky;

use super::{
    diagnostic::quoted,
    fields::{FieldEntry, Fields},
    findings::Findings,
    node::NodeKind,
    reading::{read_scalar, read_word},
    scalar::{ScalarFault, fault},
};

/// Longest name of a cookie or header, in bytes.
pub const MAX_STICKY_NAME_BYTES: usize = 128;

/// `{cookie: NAME}`, `{header: NAME}` or `address`.
pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Sticky> {
    if matches!(entry.node.kind, NodeKind::Scalar(_)) {
        let what = "way for calls to stay with a version";
        return read_word(entry, what, &[("address", ())], findings).map(|()| Sticky::Address);
    }
    let fields = Fields::open(entry.node, "sticky".to_owned(), &["cookie", "header"], findings)?;
    let mut named = |key: &str, example: &str| {
        let entry = fields.filled(key, example, findings)?;
        read_scalar(entry, "bad-name", name, findings)
    };
    let (cookie, header) = (named("cookie", "session"), named("header", "X-User"));
    match (fields.place("cookie"), fields.place("header")) {
        (Some(_), Some(at)) => {
            let message = "sticky names both a cookie and a header";
            findings.error(at, "contradiction", message).fix("keep the one by which calls are routed");
            None
        }
        (None, None) => {
            findings
                .error(entry.at, "missing-value", "sticky names neither a cookie nor a header")
                .fix("write sticky: {cookie: session}, {header: X-User} or address");
            None
        }
        _ => cookie.map(Sticky::Cookie).or(header.map(Sticky::Header)),
    }
}

/// A token of RFC 9110, as names of headers and of cookies are.
fn name(text: &str) -> Result<String, ScalarFault<String>> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        let message = format!("no cookie or header is called {}", quoted(text));
        return Err(fault(message, "use letters, digits and -, as in X-User"));
    }
    if text.len() > MAX_STICKY_NAME_BYTES {
        let message = format!("the name is longer than {MAX_STICKY_NAME_BYTES} bytes");
        return Err(fault(message, "write a shorter one").beyond(text.to_owned()));
    }
    Ok(text.to_owned())
}
