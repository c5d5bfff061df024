//! What deployed agents do, which the load has to see: the public function is itself a proxy, which is deployed anew for each
//! stage. So its listener is bound anew, the old one is stopped with the calls that it has, and each call waits until its
//! measurement was pushed.

use std::{net::SocketAddr, sync::Arc};

use proxy::Limits;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

use super::{
    callers::{Callers, PATIENCE, all_habits},
    ledger::Ledger,
    message::{Broken, Message, Wire},
    releases::{GRADUAL, Stand, Way},
    scale::SHORTEST_STAGE,
    version::{
        Behaviour::{Good, Slow},
        Place, Version,
    },
    wait::wait_until,
};
use crate::ports::free_address;

/// How a stage's function forwards.
struct Function {
    base: String,
    canary: String,
    share: u16,
    sink: SocketAddr,
}

/// The public function at its address.
struct Public {
    at: SocketAddr,
    deployed: Option<AbortHandle>,
}

impl Public {
    async fn deploy(&mut self, function: Function) {
        if let Some(old) = self.deployed.take() {
            old.abort();
        }
        let mut listener = None;
        wait_until("the address is free", async || {
            listener = TcpListener::bind(self.at).await.ok();
            listener.is_some()
        })
        .await;
        self.deployed = Some(tokio::spawn(serve(listener.unwrap(), Arc::new(function))).abort_handle());
    }
}

async fn serve(listener: TcpListener, function: Arc<Function>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let function = Arc::clone(&function);
        connections.spawn(async move {
            let mut caller = Wire::new(stream);
            while let Ok(call) = caller.read().await {
                let Ok(answer) = function.forward(&call).await else { return };
                if caller.write(&answer.written()).await.is_err() || call.closes() {
                    return;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Function {
    async fn forward(&self, call: &Message) -> Result<Message, Broken> {
        let to = if fastrand::u16(..10_000) < self.share { &self.canary } else { &self.base };
        let answer = exchange(to, &call.written()).await?;
        exchange(&self.sink.to_string(), b"GET /0 HTTP/1.1\r\n\r\n").await?;
        Ok(answer)
    }
}

async fn exchange(to: &str, request: &[u8]) -> Result<Message, Broken> {
    let mut wire = Wire::new(TcpStream::connect(to).await.map_err(|_| Broken::Nothing)?);
    wire.write(request).await?;
    wire.read().await
}

/// Takes measurements, or stands still.
async fn sink(stands_still: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let mut wire = Wire::new(listener.accept().await.unwrap().0);
            if stands_still {
                kept.push(wire);
            } else {
                tokio::spawn(async move {
                    let _ = wire.read().await;
                    let _ = wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                });
            }
        }
    });
    at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_load_shows_what_a_proxy_that_is_deployed_anew_for_each_stage_loses() {
    let folder = tempfile::tempdir().unwrap();
    let base = Version::start("base".to_owned(), Slow, Place::Here, folder.path()).await;
    let canary = Version::start("canary".to_owned(), Good, Place::Here, folder.path()).await;
    let sink = sink(false).await;
    let mut public = Public { at: free_address(), deployed: None };
    let function = |share| Function { base: base.target(), canary: canary.target(), share, sink };
    public.deploy(function(0)).await;
    let callers = Callers::start(public.at, &all_habits(), PATIENCE);
    for &share in GRADUAL {
        let enough = callers.begun() + 500;
        wait_until("the stage had its calls", async || callers.begun() > enough).await;
        public.deploy(function(share)).await;
    }
    let ledger = Ledger::new(callers.finish().await, folder.path());
    let sums = ledger.sums();
    eprintln!("deployed anew for each stage: {sums}");
    assert!(sums.nothing + sums.cut > 0, "{sums}");
    assert!(sums.answered > sums.calls / 2, "it isn't lost what nobody answers: {sums}");
}

/// Where measuring is on the way of a call, a call takes as long as that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_measurements_delay_calls_only_when_on_their_path() {
    let way = Way {
        retry: None,
        upgrades: false,
        shortest_stage: SHORTEST_STAGE,
        longest_stage: SHORTEST_STAGE,
        fault: None,
    };
    let mut stand = Stand::new(way, Limits::default(), Good, 1).await;
    let callers = Callers::start(stand.at, &all_habits(), PATIENCE);
    wait_until("there were calls", async || callers.begun() > 3_000).await;
    let ledger = Ledger::new(callers.finish().await, stand.folder());
    assert_eq!(ledger.faults(&stand.counted().await), [""; 0]);

    let base = stand.base().target();
    let mut public = Public { at: free_address(), deployed: None };
    public.deploy(Function { base: base.clone(), canary: base, share: 0, sink: sink(true).await }).await;
    let callers = Callers::start(public.at, &all_habits(), 5 * SHORTEST_STAGE);
    wait_until("calls were lost", async || callers.lost() > 0).await;
    let sums = Ledger::new(callers.finish().await, tempfile::tempdir().unwrap().path()).sums();
    assert_eq!(sums.answered, 0, "{sums}");
}
