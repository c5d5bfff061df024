//! One call after the other is answered by an instance of its own.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http_body_util::BodyExt;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{HOST, HeaderValue},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};
use wasmtime::{Engine, Store, UpdateDeadline, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    WasiHttpCtx, WasiHttpCtxView, WasiHttpView,
    p2::{
        bindings::{
            ProxyPre,
            http::types::{ErrorCode, Scheme},
        },
        body::HyperOutgoingBody,
    },
};

use super::{
    super::form::{Bounds, Destination, Hosted},
    answer::{Answer, Failed},
    component,
    failure::{Computed, Failure},
    fault::{Fault, Text},
    memory::{Memory, Pool},
    outgoing::Outgoing,
    ticks::{TICK, Ticking, Ticks},
};

/// How long a call waits for a place.
const WAIT: Duration = Duration::from_secs(1);
/// Things of the host that one instance holds at once: fields, bodies, streams.
const RESOURCES: usize = 10_000;
/// Bytes that one question of an instance to the host may carry.
const QUESTION: usize = 16 * 1024 * 1024;

/// What an instance has.
pub(super) struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    outgoing: Outgoing,
    memory: Memory,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.outgoing, table: &mut self.table, ctx: &mut self.http }
    }
}

/// An answer, as an instance gives it.
type Given = Result<Response<HyperOutgoingBody>, ErrorCode>;

/// A component that can be called.
pub(super) struct Calls {
    pre: ProxyPre<State>,
    environment: Vec<(String, String)>,
    bounds: Bounds,
    outgoing: Arc<[Destination]>,
    pool: Arc<Pool>,
    places: Arc<Semaphore>,
    ticks: Ticks,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Calls {
    /// Compiles the component, and makes one instance of it, so that what can't be called is not waited for.
    pub(super) async fn prepare(hosted: Hosted) -> Result<Self, Fault> {
        let Hosted { component, socket: _, environment, bounds, memory } = hosted;
        let engine = component::engine()?;
        let pre = component::load(&engine, &component)?;
        let calls = Self {
            pre,
            environment: environment.into_iter().collect(),
            outgoing: bounds.outgoing.clone().into(),
            pool: Pool::new(memory),
            places: Arc::new(Semaphore::new(bounds.calls)),
            ticks: Ticks::start(&engine).map_err(Fault::io("starting a thread"))?,
            bounds,
        };
        calls.try_one().await?;
        Ok(calls)
    }

    async fn try_one(&self) -> Result<(), Fault> {
        let (mut store, _ticking) = self.store(self.pre.engine());
        let instance = async { self.pre.instantiate_async(&mut store).await.map(|_instance| ()) };
        let Bounds { time, compute, .. } = self.bounds;
        let done = timeout(time, instance).await;
        let was_refused = store.data().memory.was_refused();
        match done {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(Fault::Slow(time)),
            Ok(Err(error)) => Err(match Failure::of(&error, was_refused, &self.bounds) {
                Failure::Compute(_) => Fault::Slow(compute),
                Failure::Memory(limit) => Fault::Memory(limit),
                Failure::Exit(code) => Fault::Ended(u8::try_from(code).unwrap_or(1)),
                Failure::Time(_) | Failure::Trap(_) | Failure::NoAnswer => Fault::Instance(Text::of(&error)),
            }),
        }
    }

    /// Answers a call.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Answer> {
        let Ok(Ok(place)) = timeout(WAIT, Arc::clone(&self.places).acquire_owned()).await else {
            let text = format!("the function has {} calls at once, which is its limit", self.bounds.calls);
            return Answer::ours(StatusCode::SERVICE_UNAVAILABLE, &text);
        };
        let (give, given) = oneshot::channel();
        let failed = Failed::default();
        // Who calls may go away: what was begun is ended, within its bounds.
        let running = tokio::spawn(self.run(request, give, Arc::clone(&failed), place));
        match given.await {
            Ok(Ok(response)) => response.map(|body| Answer::OfInstance { body, failed }),
            Ok(Err(code)) => {
                say(&format!("a call was answered with an error: {code}"));
                Answer::ours(StatusCode::INTERNAL_SERVER_ERROR, "the function answered with an error")
            }
            Err(_) => {
                let failure = running.await.ok().flatten().unwrap_or(Failure::NoAnswer);
                Answer::ours(failure.status(), &failure.public())
            }
        }
    }

    /// Waits until all calls have ended, which some do after their answers.
    pub(super) async fn ended(&self) {
        let all = u32::try_from(self.bounds.calls).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    /// Makes an instance and has it answer. All it has is gone at the end.
    async fn run(
        self: Arc<Self>,
        request: Request<Incoming>,
        give: oneshot::Sender<Given>,
        failed: Failed,
        _place: OwnedSemaphorePermit,
    ) -> Option<Failure> {
        let (mut store, _ticking) = self.store(self.pre.engine());
        // Behind the store, so that it goes first, also where this task ends before its time.
        let mut cuts = Cuts(Some(failed));
        let handled = timeout(self.bounds.time, self.handle(&mut store, request, give)).await;
        let failure = match handled {
            Ok(Ok(())) => {
                cuts.0 = None;
                return None;
            }
            Err(_) => Failure::Time(self.bounds.time),
            Ok(Err(error)) => Failure::of(&error, store.data().memory.was_refused(), &self.bounds),
        };
        // It said so itself that all is well.
        if matches!(failure, Failure::Exit(0)) {
            cuts.0 = None;
        }
        say(&failure.to_string());
        Some(failure)
    }

    async fn handle(
        &self,
        store: &mut Store<State>,
        mut request: Request<Incoming>,
        give: oneshot::Sender<Given>,
    ) -> wasmtime::Result<()> {
        // HTTP/1.0 knows calls that name no host; WASI doesn't.
        if request.uri().authority().is_none() && !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        }
        let request = request.map(|body| body.map_err(wasmtime_wasi_http::Error::from));
        let request = store.data_mut().http().new_incoming_request(Scheme::Http, request)?;
        let answer = store.data_mut().http().new_response_outparam(give)?;
        let instance = self.pre.instantiate_async(&mut *store).await?;
        instance.wasi_http_incoming_handler().call_handle(store, request, answer).await
    }

    fn store(&self, engine: &Engine) -> (Store<State>, Ticking) {
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.environment)
            .inherit_stdout()
            .inherit_stderr()
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        let state = State {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            table,
            outgoing: Outgoing(Arc::clone(&self.outgoing)),
            memory: Memory::new(&self.pool, self.bounds.memory),
        };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(QUESTION);
        store.set_epoch_deadline(1);
        let mut left = self.bounds.compute.as_millis() / TICK.as_millis();
        store.epoch_deadline_callback(move |_| {
            left = left.checked_sub(1).ok_or(Computed)?;
            Ok(UpdateDeadline::Yield(1))
        });
        (store, self.ticks.call())
    }
}

/// Says of an answer that its instance failed. The body ends with the store, and who reads it looks then.
struct Cuts(Option<Failed>);

impl Drop for Cuts {
    fn drop(&mut self) {
        if let Some(failed) = &self.0 {
            failed.store(true, Ordering::Release);
        }
    }
}

/// A line of the version's log.
fn say(text: &str) {
    // Whoever keeps it may have gone.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("choirmaster: {text}\n").as_bytes());
}
