//! What is answered to functions of this machine, and to other nodes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{HeaderMap, Method, Request, StatusCode, body::Incoming};
use proxy::local_http::serve::{Answer, json};
use serde_json::json;
use tokio::time::timeout;

use super::{
    basics::now_ms,
    deliver,
    event::{Event, Outcome},
    headers::{AGE, FROM, LOGICAL, NODE, NUMBER, OUTPUT, SIGNATURE},
    inner::Inner,
    store::{StoreError, Write},
};

/// Most bytes of an event.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// What a function calls an event: the same again is the same event.
const KEY: &str = "idempotency-key";
const MAX_KEY_BYTES: usize = 256;

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

type Refused = (StatusCode, String);

/// `is_own`: to this machine, where functions put something out.
pub(super) async fn answer(inner: Arc<Inner>, request: Request<Incoming>, is_own: bool) -> Answer {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let is_post = request.method() == Method::POST;
    let answered = match parts.as_slice() {
        ["out", ..] | ["events", _] if !is_post => {
            Err((StatusCode::METHOD_NOT_ALLOWED, "events are posted".to_owned()))
        }
        ["out", instance, output] if is_own => put_out(&inner, instance, output, request).await,
        ["events", part] => take(&inner, part, request).await,
        _ => Err((StatusCode::NOT_FOUND, "there is nothing here".to_owned())),
    };
    answered.unwrap_or_else(|(status, error)| json(status, &json!({"error": error})))
}

/// A function puts something out. What is answered with 202 is on disk.
async fn put_out(
    inner: &Arc<Inner>,
    instance: &str,
    output: &str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let key = request.headers().get(KEY).map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
        return Err((StatusCode::BAD_REQUEST, format!("{KEY} is text of 1 to {MAX_KEY_BYTES} bytes")));
    }
    let body = read(request).await?;
    let routes = Arc::clone(&inner.routes.borrow());
    let to = match routes.target(instance, output) {
        Some(Ok(target)) => target.part.clone(),
        Some(Err(outputs)) => {
            let there = if outputs.is_empty() { "none".to_owned() } else { outputs.join(", ") };
            let why = format!("nobody gets the output {output:?} in this workflow; there is {there}");
            return Err((StatusCode::NOT_FOUND, why));
        }
        None => {
            let why = "no instance of this id is to run here, as far as is known".to_owned();
            return Err((StatusCode::SERVICE_UNAVAILABLE, why));
        }
    };
    let (from, output) = (instance.to_owned(), output.to_owned());
    let (logical, is_source) = (routes.logical(instance).to_owned(), routes.is_source(instance));
    let put = Write::Put {
        from: from.clone(),
        logical,
        to: to.clone(),
        output,
        at_ms: now_ms(),
        body: body.to_vec(),
        key,
        is_source,
    };
    let number = inner.store.write(put).await.map_err(|error| match error {
        StoreError::Full => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        StoreError::Failed(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("it can't be kept: {why}")),
    })?;
    deliver::begin(inner, from, to);
    Ok(json(StatusCode::ACCEPTED, &json!({"number": number})))
}

/// Another node hands an event over.
async fn take(inner: &Arc<Inner>, part: &str, request: Request<Incoming>) -> Result<Answer, Refused> {
    let (head, body) = request.into_parts();
    let field = |name: &str| field(&head.headers, name).map(str::to_owned);
    let number = |name: &str| {
        let number = field(name)?.parse::<u64>();
        number.map_err(|_| (StatusCode::BAD_REQUEST, format!("{name} is no number")))
    };
    let (node, from, logical, output) = (field(NODE)?, field(FROM)?, field(LOGICAL)?, field(OUTPUT)?);
    let (number, age_ms, signature) = (number(NUMBER)?, number(AGE)?, field(SIGNATURE)?);
    let routes = Arc::clone(&inner.routes.borrow());
    let here = routes.part(part).ok_or((StatusCode::NOT_FOUND, "that part isn't here".to_owned()))?;
    let body = read(Request::from_parts(head, body)).await?;
    let (inner, part, key) = (Arc::clone(inner), part.to_owned(), here.key.clone());
    // It is taken as a whole, whether or not the caller waits for that.
    let taken = tokio::spawn(async move {
        let event = Event {
            part: &part,
            node: &node,
            from: &from,
            logical: &logical,
            number,
            output: &output,
            age_ms,
            body: &body,
        };
        if !event.is_signed(&key, &signature) {
            tracing::warn!(part, "an event is refused whose signature is wrong");
            return Err((StatusCode::UNAUTHORIZED, "the signature is wrong".to_owned()));
        }
        Ok(inner.take(&event).await)
    });
    match taken.await.unwrap_or_else(|error| Ok(Outcome::Later(error.to_string())))? {
        Outcome::Taken => Ok(json(StatusCode::OK, &json!({}))),
        Outcome::Refused(why) => Err((StatusCode::UNPROCESSABLE_ENTITY, why)),
        Outcome::Later(why) => Err((StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}

fn field<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Refused> {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.ok_or_else(|| (StatusCode::BAD_REQUEST, format!("{name} is missing")))
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Refused> {
    match timeout(PATIENCE, Limited::new(request.into_body(), MAX_EVENT_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("an event has at most {MAX_EVENT_BYTES} bytes")))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, format!("the event broke off: {error}"))),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the event took too long".to_owned())),
    }
}
