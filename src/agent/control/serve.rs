use std::{
    fs::File,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{Method, Request, StatusCode, body::Incoming};
use proxy::{
    live::is_service_name,
    local_http::{
        serve::{self, Answer, METRICS, json, typed},
        socket::{self, MAX_PATH},
    },
};
use serde::Serialize;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    MAX_LOG, MAX_QUESTION, MAX_WHY,
    form::{NewFunction, Refusal, Status, Undo, Which},
    metrics,
    order::{Answering, Order, Refused},
};

/// How long it may take to hear how the agent stands, or to read a log.
const LOOK: Duration = Duration::from_secs(10);
/// How long an order may take: versions are downloaded, started and stopped meanwhile.
pub const CARRY_OUT: Duration = Duration::from_mins(5);

/// The control, for as long as it is held.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    metrics: Option<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    _open: watch::Sender<bool>,
    _lock: File,
}

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("the path of the control socket has more than {MAX_PATH} bytes: {0}")]
    LongPath(PathBuf),
    #[error("an agent with the control socket {0} is there already")]
    Running(PathBuf),
    #[error("the control socket {path} can't be opened: {source}")]
    Socket { path: PathBuf, source: io::Error },
    #[error("metrics can't be served on {address}: {source}")]
    Metrics { address: SocketAddr, source: io::Error },
}

/// Answers on the socket from now on, and on an address for metrics where one is given. It has to be called within a runtime of tokio.
pub fn open(
    path: &Path,
    metrics: Option<SocketAddr>,
    orders: mpsc::Sender<Order>,
) -> Result<Control, ControlError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(ControlError::LongPath(path.to_owned()));
    }
    let at = |source| ControlError::Socket { path: path.to_owned(), source };
    socket::make_folder_of(path).map_err(at)?;
    let lock = socket::lock(path).map_err(at)?.ok_or_else(|| ControlError::Running(path.to_owned()))?;
    let listener = socket::bind(path).map_err(at)?;
    listener.set_nonblocking(true).map_err(at)?;
    let listener = UnixListener::from_std(listener).map_err(at)?;
    let open = watch::Sender::new(true);
    let mut tasks = Vec::new();
    let address = metrics.map(listen).transpose()?;
    let bound = address.as_ref().and_then(|listener| listener.local_addr().ok());
    if let Some(listener) = address {
        let orders = orders.clone();
        let answer = move |request| answer_about(request, orders.clone());
        tasks.push(tokio::spawn(serve::serve(listener, open.subscribe(), answer)));
    }
    let answer = move |request| answer(request, orders.clone());
    tasks.push(tokio::spawn(serve::serve(listener, open.subscribe(), answer)));
    Ok(Control { path: path.to_owned(), metrics: bound, tasks, _open: open, _lock: lock })
}

fn listen(address: SocketAddr) -> Result<TcpListener, ControlError> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|source| ControlError::Metrics { address, source })
}

impl Control {
    /// Where metrics are served, with the port that was taken.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

type Orders = mpsc::Sender<Order>;

/// What is answered to anybody who reaches an address.
async fn answer_about(request: Request<Incoming>, orders: Orders) -> Answer {
    match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET) => answer_metrics(&orders).await,
        ("/healthz", &Method::GET) => answer_health(&orders).await,
        (path @ ("/metrics" | "/healthz"), method) => no_method(path, method),
        (path, _) => {
            refusal(StatusCode::NOT_FOUND, format!("there is no {path}; there are /metrics and /healthz"))
        }
    }
}

/// What is answered to the owner.
async fn answer(request: Request<Incoming>, orders: Orders) -> Answer {
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    if let Some(name) = path.strip_prefix("/functions/") {
        return match method {
            Method::PUT => add(name, request, &orders).await,
            Method::DELETE => remove(name, &orders).await,
            method => no_method("/functions/NAME", &method),
        };
    }
    match (path.as_str(), &method) {
        ("/status", &Method::GET) => match status(&orders).await {
            Ok(status) => json(StatusCode::OK, &status),
            Err(answer) => answer,
        },
        ("/functions", &Method::GET) => match status(&orders).await {
            Ok(status) => json(StatusCode::OK, &status.functions),
            Err(answer) => answer,
        },
        ("/undo", &Method::POST) => undo(request, &orders).await,
        ("/logs", &Method::GET) => log(request.uri().query().unwrap_or_default(), &orders).await,
        ("/metrics", &Method::GET) => answer_metrics(&orders).await,
        ("/healthz", &Method::GET) => answer_health(&orders).await,
        ("/status" | "/functions" | "/undo" | "/logs" | "/metrics" | "/healthz", method) => {
            no_method(&path, method)
        }
        _ => refusal(StatusCode::NOT_FOUND, format!("there is no {path}")),
    }
}

async fn add(name: &str, request: Request<Incoming>, orders: &Orders) -> Answer {
    if !is_service_name(name) {
        let why =
            "a function's name is 1 to 200 characters from A-Z a-z 0-9 . _ - and begins with none of . _ -";
        return refusal(StatusCode::UNPROCESSABLE_ENTITY, why);
    }
    let function: NewFunction = match serve::read(request, "function", MAX_QUESTION).await {
        Ok(function) => function,
        Err((status, why)) => return refusal(status, why),
    };
    if !function.folder.is_absolute() {
        let why = format!("{} isn't absolute, and this agent may run elsewhere", function.folder.display());
        return refusal(StatusCode::UNPROCESSABLE_ENTITY, why);
    }
    let what = format!("to serve {name} from {}", function.folder.display());
    let name = name.to_owned();
    carried_out(orders, &what, |answer| Order::Add { name, function, answer }).await
}

async fn remove(name: &str, orders: &Orders) -> Answer {
    let what = format!("to serve {name:?} no longer");
    let name = name.to_owned();
    carried_out(orders, &what, |answer| Order::Remove { name, waits: false, answer }).await
}

async fn undo(request: Request<Incoming>, orders: &Orders) -> Answer {
    let undo: Undo = match serve::read(request, "order to undo", MAX_QUESTION).await {
        Ok(undo) => undo,
        Err((status, why)) => return refusal(status, why),
    };
    if undo.why.as_ref().is_some_and(|why| why.len() > MAX_WHY) {
        return refusal(StatusCode::UNPROCESSABLE_ENTITY, format!("a reason has at most {MAX_WHY} bytes"));
    }
    let of = undo.function.as_ref().map_or_else(|| "everything".to_owned(), |name| format!("{name:?}"));
    let why = undo.why.as_ref().map(|why| format!(", because {why:?}")).unwrap_or_default();
    let what = format!("to take {of} back{why}");
    carried_out(orders, &what, |answer| Order::Undo { undo, answer }).await
}

async fn log(query: &str, orders: &Orders) -> Answer {
    let wanted = match read_log_query(query) {
        Ok(asked) => asked,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    let order = |answer| match wanted {
        WantedLog::Of { name, which } => Order::Log { name, which, at_most: MAX_LOG, answer },
        WantedLog::Failed { release } => Order::FailedLogs { release, answer },
    };
    match ask(orders, LOOK, order).await {
        Ok(Ok(text)) => typed(StatusCode::OK, "text/plain; charset=utf-8", text),
        Ok(Err(refused)) => refused_answer(&refused),
        Err(answer) => answer,
    }
}

/// Which log is wanted.
enum WantedLog {
    /// Of a version that is there.
    Of { name: String, which: Option<Which> },
    /// Of those that failed in a release.
    Failed { release: String },
}

fn read_log_query(query: &str) -> Result<WantedLog, String> {
    let (mut function, mut which, mut release) = (None, None, None);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*key, &*value) {
            ("function", _) => function = Some(value.into_owned()),
            ("release", _) => release = Some(value.into_owned()),
            ("version", "new") => which = Some(Which::New),
            ("version", "base") => which = Some(Which::Base),
            ("version", _) => return Err(format!("version={value} is neither new nor base")),
            (key, _) => {
                return Err(format!("there is no {key:?} here; there are function, version and release"));
            }
        }
    }
    match (function, which, release) {
        (Some(name), which, None) => Ok(WantedLog::Of { name, which }),
        (None, None, Some(release)) => Ok(WantedLog::Failed { release }),
        (None, _, None) => Err("name a function, or a release".to_owned()),
        (_, _, Some(_)) => {
            Err("of a release, what failed in it is shown: leave function and version out".to_owned())
        }
    }
}

async fn answer_metrics(orders: &Orders) -> Answer {
    match status(orders).await {
        Ok(status) => typed(StatusCode::OK, METRICS, metrics::text(&status)),
        Err(answer) => answer,
    }
}

/// An agent whose manager is away is well: it is made for that.
async fn answer_health(orders: &Orders) -> Answer {
    match status(orders).await {
        Ok(status) if status.is_led() => typed(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
        Ok(status) => {
            let why = match (&status.proxy, &status.router) {
                (Some(proxy), _) => {
                    let trouble = proxy.trouble.as_deref().unwrap_or("nobody is there");
                    format!("the proxy on {} does not answer: {trouble}", proxy.control.display())
                }
                (None, Some(router)) => {
                    let trouble = router.trouble.as_deref().unwrap_or("it was not read yet");
                    format!("{} does not answer: {trouble}", router.kind)
                }
                (None, None) => "nothing splits calls".to_owned(),
            };
            refusal(StatusCode::SERVICE_UNAVAILABLE, why)
        }
        Err(answer) => answer,
    }
}

async fn status(orders: &Orders) -> Result<Status, Answer> {
    ask(orders, LOOK, Order::Status).await
}

/// Gives an order, and answers with what came of it. The log has a line of what was asked, and one of how it ended.
async fn carried_out<A: Serialize>(
    orders: &Orders,
    what: &str,
    order: impl FnOnce(Answering<A>) -> Order,
) -> Answer {
    tracing::info!("an operator asks {what}");
    match ask(orders, CARRY_OUT, order).await {
        Ok(Ok(done)) => {
            tracing::info!("done what an operator asked: {what}");
            json(StatusCode::OK, &done)
        }
        Ok(Err(refused)) => {
            tracing::warn!("refused what an operator asked ({what}): {}", refused.told());
            refused_answer(&refused)
        }
        Err(answer) => answer,
    }
}

/// Waits for what an order is answered with. Who leaves meanwhile doesn't end it.
async fn ask<A>(
    orders: &Orders,
    time_limit: Duration,
    order: impl FnOnce(oneshot::Sender<A>) -> Order,
) -> Result<A, Answer> {
    let (answer, answered) = oneshot::channel();
    let asked = async {
        orders.send(order(answer)).await.ok()?;
        answered.await.ok()
    };
    let ends = || refusal(StatusCode::SERVICE_UNAVAILABLE, "the agent is about to end");
    let late = || {
        let seconds = time_limit.as_secs();
        let why = format!(
            "the agent is busy: it has not answered within {seconds} s; what was asked may be done yet"
        );
        refusal(StatusCode::GATEWAY_TIMEOUT, why)
    };
    timeout(time_limit, asked).await.map_err(|_| late())?.ok_or_else(ends)
}

fn refused_answer(refused: &Refused) -> Answer {
    let status = match refused {
        Refused::Unknown { .. } => StatusCode::NOT_FOUND,
        Refused::Busy(_) => StatusCode::CONFLICT,
        Refused::Wrong(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refusal(status, refused.told())
}

fn no_method(path: &str, method: &Method) -> Answer {
    refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{path} has no {method}"))
}

fn refusal(status: StatusCode, why: impl Into<String>) -> Answer {
    json(status, &Refusal { error: why.into() })
}
