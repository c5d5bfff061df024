//! Routers that the manager leads by itself: an agent for each, in this process, which calls the manager as any other does but for the
//! network. So a router that is led from here does nothing that one with an agent beside it doesn't.
//!
//! Those whose settings name the same proxy lead it together ([`agent::data_plane::SharedProxy`]), each for the releases that its labels fit: so
//! these go on next to each other.
//!
//! Each is a child with a token of its own, made up at each start, so nobody else speaks for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use agent::{
    Within,
    data_plane::{BuiltInProxy, SharedProxy},
    link,
    settings::{FrontSettings, ProxySettings},
};
use http_api::{
    InProcess,
    auth::{ChildTokens, Token},
};

/// After how long an agent that could not begin is started again.
const AGAIN: Duration = Duration::from_secs(10);

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;

/// A router that this manager leads.
#[derive(Debug, Clone)]
pub struct LedRouter {
    /// What it is called as a child.
    pub name: String,
    pub settings: agent::Settings,
}

/// Those that are to be led, and by what each proves who it is.
#[derive(Debug)]
pub(super) struct RouterCredentials(Vec<(LedRouter, String)>);

impl RouterCredentials {
    /// Gives each a token that the manager knows.
    pub fn new(routers: Vec<LedRouter>, children: &mut ChildTokens) -> anyhow::Result<Self> {
        check_proxies(&routers)?;
        let mut led = Vec::new();
        for router in routers {
            anyhow::ensure!(
                !children.has(&router.name),
                "the router {} is called like a child that has a token: call it otherwise",
                router.name
            );
            let token = token()?;
            children.add(router.name.clone(), Token::new(&token));
            led.push((router, token));
        }
        Ok(Self(led))
    }

    /// Leads them until `stop`. `manager`: the calls of children.
    pub async fn run(self, manager: InProcess, stop: CancellationToken) {
        let manager: Arc<dyn link::InProcess> = Arc::new(Here(manager));
        let shared = shared_proxies(self.0.iter().map(|(led, _)| led));
        let mut all = JoinSet::new();
        for (LedRouter { name, settings }, token) in self.0 {
            let proxy = shared.get(&name).cloned();
            let within = Within { manager: Arc::clone(&manager), id: name, token, proxy };
            all.spawn(lead(settings, within, stop.clone()));
        }
        while all.join_next().await.is_some() {}
    }
}

/// Refuses what no two agents may do, each for itself.
fn check_proxies(routers: &[LedRouter]) -> anyhow::Result<()> {
    let proxies = by_proxy(routers);
    let taking = proxies.values().flatten().filter(|(_, proxy)| takes_over(proxy)).map(|(name, _)| *name);
    let taking: Vec<&str> = taking.collect();
    if let [first, second, ..] = taking[..] {
        anyhow::bail!(
            "the routers {first} and {second} would each take calls over by the same table of nftables: set takeover.nftables in one alone"
        );
    }
    for (control, led) in &proxies {
        let mut starting = led.iter().filter(|(_, proxy)| proxy.start.is_some()).map(|(name, _)| *name);
        let starts = starting.next();
        if let (Some(first), Some(second)) = (starts, starting.next()) {
            anyhow::bail!(
                "the routers {first} and {second} lead one proxy, {}, and each would start it: set proxy.start to false in all but one",
                control.display()
            );
        }
        for (way, takes) in WAYS {
            if let (Some(starts), Some((name, _))) = (starts, led.iter().find(|(_, proxy)| takes(proxy)))
                && starts != *name
            {
                anyhow::bail!(
                    "the router {name} would take calls over, and {starts} starts its proxy, {}, which has to be told of that: set \
                     takeover.{way} in {starts}",
                    control.display()
                );
            }
        }
    }
    if let [name, ..] = taking[..] {
        ::proxy::nftables::check_mark().with_context(|| {
            format!(
                "the router {name} would take calls over (takeover.nftables), and this manager may not mark connections: give it the right \
                 to (CAP_NET_ADMIN), or leave takeover.nftables out"
            )
        })?;
    }
    Ok(())
}

/// Whether a proxy's agent takes calls over in a way.
type TakesOver = fn(&ProxySettings) -> bool;

/// How calls are taken over, and who does so.
const WAYS: [(&str, TakesOver); 2] = [("nftables", takes_over), ("sockets", shares)];

fn takes_over(proxy: &ProxySettings) -> bool {
    proxy.takeover.as_ref().is_some_and(|takeover| takeover.nftables)
}

fn shares(proxy: &ProxySettings) -> bool {
    proxy.takeover.as_ref().is_some_and(|takeover| takeover.sockets)
}

/// The proxies that they lead, by the control socket of each, and who leads it.
fn by_proxy<'r>(
    led: impl IntoIterator<Item = &'r LedRouter>,
) -> BTreeMap<PathBuf, Vec<(&'r str, &'r ProxySettings)>> {
    let mut by_proxy: BTreeMap<PathBuf, Vec<(&str, &ProxySettings)>> = BTreeMap::new();
    for LedRouter { name, settings } in led {
        if let FrontSettings::Proxy(proxy) = &settings.front {
            // However it is written.
            let control = std::path::absolute(&proxy.control).unwrap_or_else(|_| proxy.control.clone());
            by_proxy.entry(control).or_default().push((name.as_str(), proxy));
        }
    }
    by_proxy
}

/// The proxies that are led by several of them, by the names of these. Must be called in a runtime of tokio.
fn shared_proxies<'r>(led: impl IntoIterator<Item = &'r LedRouter>) -> BTreeMap<String, Arc<SharedProxy>> {
    let mut shared = BTreeMap::new();
    for led in by_proxy(led).into_values().filter(|led| led.len() > 1) {
        let starts = led.iter().find(|(_, proxy)| proxy.start.is_some()).or(led.first());
        let Some((_, settings)) = starts else { continue };
        // Where none takes over any more, what is taken over still is in the folder of the one that did.
        let has_taken = |proxy: &ProxySettings| proxy.takeover.as_ref().is_some_and(|of| of.file.exists());
        let takes = led.iter().find(|(_, proxy)| takes_over(proxy) || shares(proxy));
        let takes = takes.or_else(|| led.iter().find(|(_, proxy)| has_taken(proxy)));
        let takeover = takes.map_or(&settings.takeover, |(_, proxy)| &proxy.takeover).clone();
        let names: BTreeSet<String> = led.iter().map(|(name, _)| (*name).to_owned()).collect();
        let front = Arc::new(BuiltInProxy::new(ProxySettings { takeover, ..ProxySettings::clone(settings) }));
        let proxy = SharedProxy::new(front, names.clone());
        shared.extend(names.into_iter().map(|name| (name, Arc::clone(&proxy))));
    }
    shared
}

async fn lead(settings: agent::Settings, within: Within, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let run = agent::run_within(settings.clone(), within.clone(), stop.clone().cancelled_owned());
        let Err(error) = run.await else { continue };
        tracing::error!(
            router = within.id,
            "it can't be led, which is tried again in {} s: {error}",
            AGAIN.as_secs()
        );
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stop.cancelled() => {}
        }
    }
}

fn token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("there is no randomness"))?;
    Ok(model::hex::encode(&bytes))
}

/// This manager, as its own agents call it.
#[derive(Debug)]
struct Here(InProcess);

impl link::InProcess for Here {
    fn call(&self, request: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, String>> {
        let manager = self.0.clone();
        Box::pin(async move {
            let request = request.try_into().map_err(|error: reqwest::Error| error.to_string())?;
            let answer = manager.call::<reqwest::Body>(request).await;
            Ok(answer.map(reqwest::Body::wrap_stream).into())
        })
    }
}
