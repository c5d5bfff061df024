//! What the table in `docs/routers.md` says of external routers is what they do, and what the code says of them.

use std::{net::SocketAddr, sync::Arc};

use router::{Router, RouterError};
use traffic::{
    HashFunction, MeasuredBy, RouterKind,
    desired::{DesiredConfig, Protocol},
};

#[path = "../shared/abilities.rs"]
mod tried;

use crate::{
    aws_alb::RealAlb,
    conformance::{Real, comes_true},
    custom::RealCustom,
    haproxy::RealHaproxy,
    nginx::RealNginx,
    traefik::RealTraefik,
    world::place::at,
};

/// A real router, with what leads it.
struct Led<R> {
    real: R,
    router: Arc<dyn Router>,
    /// Of each protocol.
    at: [SocketAddr; 4],
}

impl<R: Real> Led<R> {
    async fn start() -> Self {
        let real = R::start().await;
        let router = real.open();
        let at = Protocol::ALL.map(|protocol| at(real.port_of(protocol)));
        Self { real, router, at }
    }
}

/// The head of its column.
trait Named {
    const NAME: &'static str;
    /// What the cookie is called that it gives, where a service asks for one of this name.
    const COOKIE: &'static str = tried::COOKIE;
}

impl Named for RealNginx {
    const NAME: &'static str = "nginx";
}

impl Named for RealHaproxy {
    const NAME: &'static str = "HAProxy";
}

impl Named for RealTraefik {
    const NAME: &'static str = "Traefik";
}

impl Named for RealAlb {
    const NAME: &'static str = "AWS ALB";
    const COOKIE: &'static str = "AWSALBTG";
}

impl Named for RealCustom {
    const NAME: &'static str = "a webhook";
}

impl<R: Real + Named> tried::Router for Led<R> {
    const HASH: HashFunction = R::HASH;
    const GIVES_COOKIE: bool = R::KIND.abilities().hashes.is_empty();
    const COOKIE: &'static str = R::COOKIE;

    fn at(&self, protocol: Protocol) -> SocketAddr {
        self.at[protocol as usize]
    }

    async fn does(&self, wanted: &DesiredConfig) -> Result<bool, String> {
        match self.router.apply(wanted).await {
            Ok(applied) => {
                comes_true(&self.router, wanted).await;
                Ok(applied.was_reloaded)
            }
            Err(RouterError::Unable { what, .. }) => Err(what),
            Err(RouterError::Refused { said, .. }) if R::KIND == RouterKind::Custom => Err(said),
            Err(error) => panic!("{error}"),
        }
    }

    async fn going_on(&self, service: &str, variation: &str) -> Option<u64> {
        self.router.connections(service, variation).await.unwrap()
    }

    async fn over_tls(&self, at: SocketAddr, call: &str) -> String {
        self.real.over_tls(at, call).await
    }
}

async fn does_what_is_said<R: Real + Named>() {
    let found = tried::try_all(&Led::<R>::start().await).await;
    let can = R::KIND.abilities();
    assert_eq!((&*found.protocols, found.rule, found.routes), (can.protocols, can.rule, can.routes));
    assert_eq!(found.counts_connections, can.counts_connections);
    assert_eq!(found.reloads_for, can.reloads_for);
    let sticky =
        [("cookie", can.sticky.cookie), ("header", can.sticky.header), ("address", can.sticky.address)];
    assert!(sticky.iter().all(|(by, can)| found.sticky.contains(by) == *can), "{found:?} {can:?}");
    // That it is counted so is tried in the conformance suite.
    let counted = match can.measured {
        MeasuredBy::Counters => "its counters, times in µs",
        MeasuredBy::Log => "lines that it logs, times in ms",
        MeasuredBy::Totals => "its counters, no times",
        MeasuredBy::Nothing => "nothing",
    };
    tried::check(R::NAME, &found.cells(counted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_can_do_what_the_page_and_the_code_say() {
    does_what_is_said::<RealNginx>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_can_do_what_the_page_and_the_code_say() {
    does_what_is_said::<RealHaproxy>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traefik_can_do_what_the_page_and_the_code_say() {
    does_what_is_said::<RealTraefik>().await;
}

/// Its API is moto's, and the tests send its calls on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alb_can_do_what_the_page_and_the_code_say() {
    does_what_is_said::<RealAlb>().await;
}

/// What stands behind it here is an `HAProxy`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_takes_nothing_from_what_its_router_can_do() {
    const COUNTED: &str = "what it reports, no times";
    let found = tried::try_all(&Led::<RealCustom>::start().await).await;
    let mut of_haproxy = tried::column(RealHaproxy::NAME);
    let mut own: Vec<_> =
        of_haproxy.iter().map(|(row, _)| (row.clone(), "as its router".to_owned())).collect();
    for column in [&mut of_haproxy, &mut own] {
        column.last_mut().unwrap().1 = COUNTED.to_owned();
    }
    let found = found.cells(COUNTED).into_iter().map(|(row, cell)| (row.to_owned(), cell));
    assert_eq!(of_haproxy, found.collect::<Vec<_>>());
    assert_eq!(tried::column("a webhook"), own, "docs/routers.md on webhooks");
}
