//! A Traefik that is told by its REST provider.

use std::sync::Arc;

use router::{
    Router, RouterError,
    traefik::{Settings, Traefik},
};
use serde_json::json;
use traffic::desired::ServiceSpec;

use super::RealTraefik;
use crate::{
    conformance::{Real as _, comes_true, done, state::with_shares},
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        wants::{service, wanted},
    },
};

struct World {
    real: RealTraefik,
    router: Arc<dyn Router>,
    spec: ServiceSpec,
    port: u16,
    _backends: [Backend; 2],
}

async fn world() -> World {
    let real = RealTraefik::start().await;
    let router = open(&real);
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let spec = service("checkout", port, &backends, &[10_000, 0]);
    done(&router, &wanted(1, &[&spec])).await;
    World { real, router, spec, port, _backends: backends }
}

fn open(real: &RealTraefik) -> Arc<dyn Router> {
    Arc::new(Traefik::open(Settings { folder: None, ..real.settings() }).unwrap())
}

/// Tells it something behind the back of who leads it.
async fn tell(real: &RealTraefik, config: serde_json::Value) {
    let url = real.settings().api.join("api/providers/rest").unwrap();
    let answer = router::remote::client().unwrap().put(url).body(config.to_string()).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_change_and_come_back_by_rest_and_what_is_in_force_is_not_told_again() {
    let World { real, router, spec, port, _backends } = world().await;
    let mut caller = Caller::new(real.at(port));
    assert_eq!(caller.variation(&[]).await, "A");
    let all = wanted(2, &[&with_shares(&spec, &[0, 10_000])]);
    done(&router, &all).await;
    assert_eq!(caller.variation(&[]).await, "B");
    let written =
        || std::fs::metadata(real.settings().own.join("choirmaster.yml")).unwrap().modified().unwrap();
    let before = written();
    done(&router, &all).await;
    assert_eq!(written(), before);
    let error = router.apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(matches!(error, RouterError::Older { .. }), "{error}");
    assert!(!real.file().exists());
    done(&router, &wanted(3, &[])).await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_emptied_or_a_restart_lost_is_told_again() {
    let World { mut real, router, spec, port, _backends } = world().await;
    let all = wanted(1, &[&spec]);
    let is_lost = async |router: &Arc<dyn Router>| {
        wait_until("it is seen", async || router.read().await.is_ok_and(|seen| seen.number.is_none())).await;
    };
    tell(&real, json!({"http": {"routers": {}}})).await;
    is_lost(&router).await;
    done(&router, &all).await;
    real.start_again().await;
    is_lost(&router).await;
    drop(router);
    let router = open(&real);
    done(&router, &all).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "A");
    // By its number it says that it does as it was told, and does something else.
    let text = std::fs::read_to_string(real.settings().own.join("choirmaster.yml")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    config["http"]["services"]["choirmaster:checkout"]["weighted"]["services"][1]["weight"] = 10_000.into();
    tell(&real, config).await;
    wait_until("it is seen", async || {
        router.read().await.is_ok_and(|seen| seen.services["checkout"].variations[1].hundredths == 5_000)
    })
    .await;
    router.apply(&all).await.unwrap();
    comes_true(&router, &all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_tells_it_by_rest_is_not_replaced() {
    let World { real, router, spec, .. } = world().await;
    let server = json!({"loadBalancer": {"servers": [{"url": "http://127.0.0.1:9"}]}});
    tell(&real, json!({"http": {"services": {"theirs": server}}})).await;
    real.until_it_has("theirs@rest").await;
    let error = router.apply(&wanted(2, &[&spec])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Traefik can't do that: somebody else has told it of theirs by REST, which would go by what is told now"
    );
}
