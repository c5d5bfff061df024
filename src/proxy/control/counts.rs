//! What is answered about counts.

use hyper::StatusCode;

use super::control_handler::ControlHandler;
use crate::local_http::serve::{self, Answer, METRICS};
use call_metrics::Cursor;

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

pub(super) async fn metrics(handler: &ControlHandler) -> Answer {
    serve::typed(StatusCode::OK, METRICS, handler.proxy().metrics().await)
}
