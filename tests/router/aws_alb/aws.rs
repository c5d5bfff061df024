//! What answers as AWS's API, with what may go wrong there: it passes calls on to moto, and knows which came.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::moto::MOTO;
use crate::custom::server::{Answered, Call, Server};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is more than AWS takes.
    Throttled,
    /// An error of AWS's own.
    Broken,
    /// No answer comes.
    Silent,
    /// Refused with this code.
    Refused(&'static str),
    /// It is carried out, and the answer gets lost.
    Unanswered,
    /// A change is answered, and takes effect with the next one.
    Late,
    /// None.
    Passes,
}

/// Calls that change something begin with another word.
const ASKS: &str = "Describe";

#[derive(Default)]
struct State {
    /// Of the next calls, each one's.
    next: VecDeque<Fault>,
    /// Of all calls after those.
    always: Option<Fault>,
    /// Of those that change something.
    on_change: Option<Fault>,
    /// Those that change something are refused after so many.
    changes_left: Option<u64>,
    /// After so many calls it is as if whoever calls were dead.
    dies_after: Option<u64>,
    held_back: Option<Call>,
    came: Vec<Call>,
}

/// The API of one load balancer's operator.
pub struct Aws {
    pub at: SocketAddr,
    state: Arc<Mutex<State>>,
    /// Grows with each change, whoever made it.
    pub version: Arc<AtomicU64>,
    server: Option<Server>,
}

impl Aws {
    pub async fn start(at: SocketAddr, version: &Arc<AtomicU64>) -> Self {
        let mut aws = Self { at, state: Arc::default(), version: Arc::clone(version), server: None };
        aws.serve().await;
        aws
    }

    /// Whoever calls it is cut off after so many calls.
    pub async fn start_dying(after: u64, version: &Arc<AtomicU64>) -> Self {
        let aws = Self::start(crate::world::place::at(0), version).await;
        aws.state().dies_after = Some(after);
        aws
    }

    pub async fn serve(&mut self) {
        let (state, version) = (Arc::clone(&self.state), Arc::clone(&self.version));
        let server = Server::start(self.at, move |call| {
            let (state, version) = (Arc::clone(&state), Arc::clone(&version));
            async move { respond(&state, &version, call).await }
        });
        let server = server.await;
        self.at = server.at;
        self.server = Some(server);
    }

    pub fn stop(&mut self) {
        self.server = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This becomes of the next calls, in their order.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().next.extend(faults);
    }

    /// This becomes of all calls from now on.
    pub fn always(&self, fault: Option<Fault>) {
        self.state().always = fault;
    }

    /// This becomes of all calls from now on that change something.
    pub fn on_change(&self, fault: Option<Fault>) {
        self.state().on_change = fault;
    }

    /// So many calls that change something are carried out from now on; none: all.
    pub fn changes_end_after(&self, changes: Option<u64>) {
        self.state().changes_left = changes;
    }

    /// Nothing that was to become of the next calls does.
    pub fn forget(&self) {
        self.state().next.clear();
    }

    /// What was asked since this was last asked: what each call does, and its body.
    pub fn came(&self) -> Vec<(String, String)> {
        let came = std::mem::take(&mut self.state().came);
        came.iter().map(|call| (action(call), String::from_utf8_lossy(&call.body).into_owned())).collect()
    }

    /// Those of them that change something.
    pub fn changes(&self) -> Vec<(String, String)> {
        self.came().into_iter().filter(|(action, _)| !action.starts_with(ASKS)).collect()
    }
}

fn action(call: &Call) -> String {
    let body = String::from_utf8_lossy(&call.body);
    let action = body.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
    action.to_owned()
}

async fn respond(state: &Mutex<State>, version: &AtomicU64, call: Call) -> Answered {
    let action = action(&call);
    let is_change = !action.starts_with(ASKS);
    let (fault, before) = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.came.push(call.clone());
        let is_dead = is_over(&mut state.dies_after) || is_change && is_over(&mut state.changes_left);
        let on_change = state.on_change.filter(|_| is_change);
        let fault = state.next.pop_front().or(state.always).or(on_change);
        let fault = if is_dead { Some(Fault::Refused("Dead")) } else { fault };
        (fault, if is_change { state.held_back.take() } else { None })
    };
    if let Some(before) = before {
        pass_on(&before).await;
    }
    let answered = match fault {
        Some(Fault::Throttled) => refused(400, "Throttling", "Rate exceeded"),
        Some(Fault::Broken) => refused(500, "InternalFailure", "We had a problem"),
        Some(Fault::Silent) => std::future::pending().await,
        Some(Fault::Refused(code)) => refused(400, code, "of the tests\nand of its signature"),
        Some(Fault::Unanswered) => {
            pass_on(&call).await;
            std::future::pending().await
        }
        Some(Fault::Late) if is_change => {
            state.lock().unwrap_or_else(PoisonError::into_inner).held_back = Some(call);
            (
                200,
                String::new(),
                format!("<{action}Response><{action}Result/></{action}Response>").into_bytes(),
            )
        }
        Some(Fault::Late | Fault::Passes) | None => pass_on(&call).await,
    };
    if is_change {
        version.fetch_add(1, Ordering::SeqCst);
    }
    answered
}

/// Counts one of so many that are left.
fn is_over(left: &mut Option<u64>) -> bool {
    let is_over = *left == Some(0);
    *left = left.map(|left| left.saturating_sub(1));
    is_over
}

fn refused(status: u16, code: &str, message: &str) -> Answered {
    let body = format!(
        "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    (status, String::new(), body.into_bytes())
}

async fn pass_on(call: &Call) -> Answered {
    let http = router::remote::client().unwrap();
    let mut passed = http.post(format!("http://{}/", MOTO.at)).body(call.body.clone());
    for name in ["authorization", "content-type", "x-amz-date"] {
        passed = passed.header(name, call.headers.get(name).map_or("", String::as_str));
    }
    let answer = passed.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, "Content-Type: text/xml\r\n".to_owned(), router::remote::body(answer, 1 << 26).await.unwrap())
}
