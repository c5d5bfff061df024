use std::{sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming};
use tokio::{
    net::UnixListener,
    time::{Instant, sleep},
};

use super::{
    MAX_LIST, MAX_TABLE,
    control_handler::{ControlHandler, Finish, Refused},
    counts,
    form::{Drained, Refusal, TableNumber, Unreachable, Upgrading},
};
use crate::{
    form::{ListenForm, TableForm},
    handover::Word,
    listens::ListenFaultClass,
    live::TableFault,
    local_http::serve::{self, Answer, json},
};

/// The longest wait for a version to be drained.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// How often it is looked whether a version is drained.
const LOOK: Duration = Duration::from_millis(10);

/// Answers on the socket whenever the handler is open, until the task is dropped.
pub async fn serve(listener: UnixListener, handler: Arc<ControlHandler>) {
    let open = handler.is_open();
    serve::serve(listener, open, move |request| answer(request, Arc::clone(&handler))).await;
}

async fn answer(request: Request<Incoming>, handler: Arc<ControlHandler>) -> Answer {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    match (path.as_str(), &method) {
        ("/table", &Method::GET) => json(StatusCode::OK, &handler.proxy().table().form()),
        ("/table", &Method::PUT) => put_table(request, handler).await,
        ("/listen", &Method::GET) => json(StatusCode::OK, &handler.listen_status().await),
        ("/listen", &Method::PUT) => put_listen(request, handler).await,
        ("/others", &Method::POST) => others(request.uri().query().unwrap_or_default(), &handler).await,
        ("/status", &Method::GET) => json(StatusCode::OK, &handler.status().await),
        ("/drained", &Method::GET) => drained(request.uri().query().unwrap_or_default(), &handler).await,
        ("/unreachable", &Method::GET) => {
            unreachable(request.uri().query().unwrap_or_default(), &handler).await
        }
        ("/counts", &Method::GET) => counts(request.uri().query().unwrap_or_default(), &handler).await,
        ("/metrics", &Method::GET) => counts::metrics(&handler).await,
        ("/upgrade", &Method::POST) => upgrade(&handler).await,
        ("/drain", &Method::POST) => drain(&handler).await,
        (
            "/table" | "/listen" | "/others" | "/status" | "/drained" | "/unreachable" | "/counts"
            | "/metrics" | "/upgrade" | "/drain",
            method,
        ) => refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{path} has no {method}")),
        _ => refusal(StatusCode::NOT_FOUND, format!("there is no {path}")),
    }
}

async fn counts(query: &str, handler: &ControlHandler) -> Answer {
    let cursor = match counts::cursor(query) {
        Ok(cursor) => cursor,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    match handler.counts_since(cursor).await {
        Ok(reading) => json(StatusCode::OK, &reading),
        Err(refused) => refusal(StatusCode::SERVICE_UNAVAILABLE, refused.to_string()),
    }
}

async fn put_table(request: Request<Incoming>, handler: Arc<ControlHandler>) -> Answer {
    let form: TableForm = match serve::read(request, "table", MAX_TABLE).await {
        Ok(form) => form,
        Err((status, why)) => return refusal(status, why),
    };
    // A task of its own: a caller that leaves ends nothing half way.
    let changing = Arc::clone(&handler);
    let changed = tokio::spawn(async move { changing.change(&form).await }).await;
    let refused = match changed {
        Ok(Ok(applied)) => return json(StatusCode::OK, &applied),
        Ok(Err(refused)) => refused,
        Err(error) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    if let Refused::NotKept(error) = &refused {
        tracing::error!(%error, "a table can't be kept on disk");
    }
    let in_force = Some(TableNumber::of(&handler.proxy().table()));
    json(status_of(&refused), &Refusal { error: refused.to_string(), in_force })
}

async fn put_listen(request: Request<Incoming>, handler: Arc<ControlHandler>) -> Answer {
    let list: ListenForm = match serve::read(request, "list of addresses", MAX_LIST).await {
        Ok(list) => list,
        Err((status, why)) => return refusal(status, why),
    };
    // A task of its own: a caller that leaves ends nothing half way.
    let changing = Arc::clone(&handler);
    let changed = tokio::spawn(async move { changing.change_addresses(list).await }).await;
    let refused = match changed {
        Ok(Ok(in_force)) => return json(StatusCode::OK, &in_force),
        Ok(Err(refused)) => refused,
        Err(error) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let in_force = Some(handler.list_number());
    json(status_of(&refused), &Refusal { error: refused.to_string(), in_force })
}

async fn others(query: &str, handler: &ControlHandler) -> Answer {
    let mut port = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*key, value.parse::<u16>()) {
            ("port", Ok(asked)) => port = Some(asked),
            ("port", Err(_)) => return refusal(StatusCode::BAD_REQUEST, format!("port={value} is no port")),
            (key, _) => {
                return refusal(StatusCode::BAD_REQUEST, format!("there is no {key:?} here; there is port"));
            }
        }
    }
    match port {
        Some(port) => json(StatusCode::OK, &handler.others(port).await),
        None => refusal(StatusCode::BAD_REQUEST, "name a port"),
    }
}

fn status_of(refused: &Refused) -> StatusCode {
    match refused {
        Refused::Table(TableFault::Old { .. } | TableFault::Changed(_)) => StatusCode::CONFLICT,
        Refused::Table(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::NotKept(_) => StatusCode::INSUFFICIENT_STORAGE,
        Refused::HandsOver => StatusCode::SERVICE_UNAVAILABLE,
        Refused::Listen(fault) => match fault.class {
            ListenFaultClass::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ListenFaultClass::Forbidden => StatusCode::FORBIDDEN,
            ListenFaultClass::Conflict => StatusCode::CONFLICT,
            ListenFaultClass::NoRoom => StatusCode::INSUFFICIENT_STORAGE,
            ListenFaultClass::Busy => StatusCode::SERVICE_UNAVAILABLE,
        },
    }
}

async fn drained(query: &str, handler: &ControlHandler) -> Answer {
    let asked = match Asked::read(query) {
        Ok(asked) => asked,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    let until = Instant::now() + asked.wait;
    let open = handler.is_open();
    loop {
        let Some(drained) = handler.drained((&asked.service, &asked.variation, &asked.version)).await else {
            return refusal(StatusCode::CONFLICT, "the table in force names this version");
        };
        let Drained { drained: is_drained, .. } = drained;
        // Who takes over answers the next question.
        if is_drained || Instant::now() >= until || !*open.borrow() {
            return json(StatusCode::OK, &drained);
        }
        sleep(LOOK).await;
    }
}

async fn unreachable(query: &str, handler: &ControlHandler) -> Answer {
    let mut wait = Duration::ZERO;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*key, seconds(&value)) {
            ("wait", Ok(asked)) => wait = asked,
            ("wait", Err(why)) => return refusal(StatusCode::BAD_REQUEST, why),
            (key, _) => {
                return refusal(StatusCode::BAD_REQUEST, format!("there is no {key:?} here; there is wait"));
            }
        }
    }
    let mut open = handler.is_open();
    let unreachable = tokio::select! {
        biased;
        () = handler.proxy().unreachable() => true,
        // Who takes over answers the next question.
        _ = open.wait_for(|open| !open) => false,
        () = sleep(wait) => false,
    };
    json(StatusCode::OK, &Unreachable { unreachable })
}

/// A wait, as it is asked for.
fn seconds(value: &str) -> Result<Duration, String> {
    let seconds = value.parse().map_err(|_| format!("wait={value} is no number of seconds"))?;
    Ok(Duration::from_secs(seconds).min(MAX_WAIT))
}

/// What is asked about a version.
#[derive(Debug, Default)]
struct Asked {
    service: String,
    variation: String,
    version: String,
    wait: Duration,
}

impl Asked {
    fn read(query: &str) -> Result<Self, String> {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "service" => asked.service = value.into_owned(),
                "variation" => asked.variation = value.into_owned(),
                "version" => asked.version = value.into_owned(),
                "wait" => asked.wait = seconds(&value)?,
                key => {
                    return Err(format!(
                        "there is no {key:?} here; there are service, variation, version, wait"
                    ));
                }
            }
        }
        if asked.service.is_empty() || asked.variation.is_empty() {
            return Err("name a service and a variation".to_owned());
        }
        Ok(asked)
    }
}

async fn upgrade(handler: &ControlHandler) -> Answer {
    handler.note_upgrade(None);
    match handler.tell_holder(&Word::UpgradeWanted).await {
        Ok(()) => json(StatusCode::ACCEPTED, &Upgrading { pid: std::process::id() }),
        Err(_) => refusal(
            StatusCode::CONFLICT,
            "no process holds the listening sockets, so nobody can start another: run `choirmaster proxy` again, which \
             takes them over",
        ),
    }
}

async fn drain(handler: &ControlHandler) -> Answer {
    // Without a supervisor this process ends by itself.
    if handler.tell_holder(&Word::StopWanted).await.is_err() {
        handler.finish(Finish::Stop).await;
    }
    json(StatusCode::ACCEPTED, &handler.status().await)
}

fn refusal(status: StatusCode, why: impl Into<String>) -> Answer {
    json(status, &Refusal { error: why.into(), in_force: None })
}
