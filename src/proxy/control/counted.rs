//! What is answered about counts.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, header};

use super::desk::Desk;
use crate::ledger::Cursor;

/// The text format of Prometheus.
const METRICS: header::HeaderValue =
    header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// `life` and `interval`: the cursor of the last reading; without them all that is kept is read.
pub(super) fn cursor(query: &str) -> Result<Cursor, String> {
    let mut cursor = Cursor::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let number = value.parse().map_err(|_| format!("{key}={value} is no whole number"));
        match &*key {
            "life" => cursor.life = number?,
            "interval" => cursor.interval = number?,
            key => return Err(format!("there is no {key:?} here; there are life and interval")),
        }
    }
    Ok(cursor)
}

pub(super) async fn metrics(desk: &Desk) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(desk.proxy().metrics().await)));
    answer.headers_mut().insert(header::CONTENT_TYPE, METRICS);
    answer
}
