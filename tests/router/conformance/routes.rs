//! Services that share a port by the hosts and paths of their calls.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use router::RouterError;
use traffic::desired::ServiceSpec;

use super::{Real, done, state::with_shares};
use crate::world::{
    backend::Backend,
    caller::Caller,
    wants::{service, wanted},
};

/// A service of two variations whose names begin with its own.
pub async fn of<R: Real>(
    name: &str,
    port: u16,
    (hosts, path): (&[&str], Option<&str>),
) -> (ServiceSpec, Vec<Backend>) {
    let backends = Backend::start_all([&*format!("{name}-A"), &*format!("{name}-B")]).await;
    let mut spec = service(name, port, &backends, &[10_000, 0]);
    spec.hash = R::HASH;
    spec.sticky = None;
    spec.listens[0].hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    spec.listens[0].path = path.map(str::to_owned);
    (spec, backends.into())
}

pub async fn answered(at: SocketAddr, host: &str, path: &str) -> String {
    let mut caller = Caller::of_host(at, host);
    let answer = caller.try_get(path, &[]).await.expect("it answers");
    if answer.status() == 200 { String::from_utf8(answer.body).unwrap() } else { answer.status().to_string() }
}

pub async fn a_call_is_the_services_that_names_its_host_and_the_longest_path<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let port = real.port();
    let both = ["shop.example", "www.shop.example"];
    let (shop, _a) = of::<R>("shop", port, (&both, None)).await;
    let (api, _b) = of::<R>("api", port, (&["shop.example"], Some("/api"))).await;
    let (rest, _c) = of::<R>("rest", port, (&[], None)).await;
    if !R::KIND.abilities().routes {
        let error = router.apply(&wanted(1, &[&shop])).await.unwrap_err();
        assert!(matches!(error, RouterError::Unable { .. }), "{error}");
        return;
    }
    done(&router, &wanted(1, &[&shop, &api, &rest])).await;
    let at = real.at(port);
    for (host, path, says) in [
        ("shop.example", "/api", "api-A"),
        ("shop.example", "/api/", "api-A"),
        ("SHOP.example:8443", "/api/x?y=/z", "api-A"),
        ("shop.example", "/apix", "shop-A"),
        ("shop.example", "/x/api", "shop-A"),
        ("shop.example", "/API", "shop-A"),
        ("shop.example", "/", "shop-A"),
        ("www.shop.example", "/api", "shop-A"),
        ("other.example", "/api", "rest-A"),
        ("x.shop.example", "/", "rest-A"),
        ("127.0.0.1", "/", "rest-A"),
    ] {
        assert_eq!(answered(at, host, path).await, says, "{host}{path}");
    }
    // The path reaches the target as it was.
    assert_eq!(answered(at, "shop.example", "/api/path?q=%2f").await, "/api/path?q=%2f");
    // And goes when its service does; nobody else has what is nobody's.
    done(&router, &wanted(2, &[&shop])).await;
    assert_eq!(answered(at, "shop.example", "/api").await, "shop-A");
    assert_eq!(answered(at, "other.example", "/api").await, "404");
    done(&router, &wanted(3, &[])).await;
}

pub async fn a_change_of_shares_of_one_leaves_the_other_at_its_port_as_it_was<R: Real>() {
    if !R::KIND.abilities().routes {
        return;
    }
    let real = R::start().await;
    let router = real.open();
    let port = real.port();
    let (shop, _a) = of::<R>("shop", port, (&["shop.example"], None)).await;
    let (api, _b) = of::<R>("api", port, (&["shop.example"], Some("/api"))).await;
    done(&router, &wanted(1, &[&shop, &api])).await;
    let at = real.at(port);
    let is_over = Arc::new(AtomicBool::new(false));
    let calls = |path: &'static str, name: &'static str| {
        let is_over = Arc::clone(&is_over);
        tokio::spawn(async move {
            let mut caller = Caller::of_host(at, "shop.example");
            let mut got = std::collections::BTreeMap::<String, u32>::new();
            while !is_over.load(Ordering::Relaxed) {
                let body = caller.get(path, &[]).await.body;
                let body = String::from_utf8(body).unwrap();
                assert!(body.starts_with(name), "{path}: {body}");
                *got.entry(body).or_default() += 1;
            }
            got
        })
    };
    let (of_shop, of_api) = (calls("/x", "shop"), calls("/api/x", "api"));
    for generation in 2..22 {
        let share = (generation % 3 * 5_000) as u16;
        let changed = with_shares(&api, &[10_000 - share, share]);
        let applied = done(&router, &wanted(generation, &[&shop, &changed])).await;
        assert!(!applied.was_reloaded, "a change of shares");
    }
    is_over.store(true, Ordering::Relaxed);
    let (of_shop, of_api) = (of_shop.await.unwrap(), of_api.await.unwrap());
    assert_eq!(of_shop.keys().collect::<Vec<_>>(), ["shop-A"], "{of_shop:?}");
    assert_eq!(of_api.len(), 2, "{of_api:?}");
}

/// Each has keys of its own: who has a cookie of one is no user of the other by it.
pub async fn users_of_two_services_at_a_host_stay_where_they_are<R: Real>() {
    if !R::KIND.abilities().routes {
        return;
    }
    let real = R::start().await;
    let router = real.open();
    let port = real.port();
    let (mut shop, _a) = of::<R>("shop", port, (&["shop.example"], None)).await;
    let (mut api, _b) = of::<R>("api", port, (&["shop.example"], Some("/api"))).await;
    for (spec, cookie) in [(&mut shop, "of_shop"), (&mut api, "of_api")] {
        spec.sticky = Some(traffic::desired::StickyTo::Cookie(cookie.parse().unwrap()));
        *spec = with_shares(spec, &[5_000, 5_000]);
    }
    done(&router, &wanted(1, &[&shop, &api])).await;
    for _ in 0..20 {
        let mut caller = Caller::of_host(real.at(port), "shop.example");
        let mut jar: Vec<String> = Vec::new();
        let mut stays: Option<[String; 2]> = None;
        for _ in 0..4 {
            let mut got = Vec::new();
            for path in ["/", "/api"] {
                let answer = caller.get(path, &[("Cookie", &jar.join("; "))]).await;
                jar.extend(answer.field("set-cookie").map(|it| it.split(';').next().unwrap().to_owned()));
                got.push(String::from_utf8(answer.body).unwrap());
            }
            let got: [String; 2] = got.try_into().unwrap();
            assert_eq!(stays.get_or_insert_with(|| got.clone()), &got, "{jar:?}");
        }
        assert_eq!(jar.len(), 2, "each is given once: {jar:?}");
    }
}
