//! What the proxy answers by itself.

use crate::head::{Refusal, RequestSummary};

/// The header that marks an answer as the proxy's own, and says why it came to that.
pub(crate) const ERROR_FIELD: &str = "X-Choirmaster-Error";

/// An answer of the proxy's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    pub status: u16,
    /// One word for programs.
    pub error: &'static str,
    /// A sentence for people.
    pub text: String,
    pub retry_after: Option<u32>,
}

impl Own {
    pub(crate) fn refusal(refusal: Refusal) -> Self {
        Self { status: refusal.status, error: "refused", text: refusal.why.to_owned(), retry_after: None }
    }

    pub(crate) const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

    pub(crate) fn body(&self) -> String {
        format!("{}\n", self.text)
    }

    pub(crate) fn no_service() -> Self {
        let text = "no service has this host or path".to_owned();
        Self { status: 404, error: "no_service", text, retry_after: None }
    }

    /// Writes it whole, head and body.
    pub(crate) fn write(&self, asked: Option<&RequestSummary>, close: bool) -> Vec<u8> {
        let reason = reason(self.status);
        let version = if asked.is_some_and(|asked| asked.is_http10) { "1.0" } else { "1.1" };
        let body = self.body();
        let (length, content_type) = (body.len(), Self::CONTENT_TYPE);
        let mut head = format!(
            "HTTP/{version} {} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             {ERROR_FIELD}: {}\r\n",
            self.status, self.error
        );
        if let Some(seconds) = self.retry_after {
            head.extend(["Retry-After: ", &seconds.to_string(), "\r\n"]);
        }
        match (close, version) {
            (true, _) => head.push_str("Connection: close\r\n"),
            (false, "1.0") => head.push_str("Connection: keep-alive\r\n"),
            (false, _) => {}
        }
        head.push_str("\r\n");
        if !asked.is_some_and(|asked| asked.is_head) {
            head.push_str(&body);
        }
        head.into_bytes()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}
