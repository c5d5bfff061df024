//! Who gets which variation at a real Traefik, and what it makes of the rest.

use std::{collections::BTreeMap, fs};

use router::{Router as _, RouterError, traefik::Traefik};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use traffic::desired::{Listen, Protocol};

use super::RealTraefik;
use crate::{
    conformance::{Real as _, comes_true, done, state::with_shares},
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        place::at,
        wants::{COOKIE, service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_exact_and_who_has_a_cookie_stays_until_its_variation_has_none() {
    let real = RealTraefik::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let spec = service("checkout", port, &backends, &[9_500, 500]);
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    let mut holders = BTreeMap::<String, Vec<String>>::new();
    for _ in 0..200 {
        let answer = caller.get("/", &[]).await;
        let cookie = answer.field("set-cookie").expect("who has none is given one");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        assert!(cookie.starts_with(&format!("{COOKIE}=")), "{cookie}");
        holders.entry(String::from_utf8(answer.body.clone()).unwrap()).or_default().push(cookie);
    }
    assert_eq!(holders["B"].len(), 10, "5 of 100");
    let cookie = holders["B"][0].clone();
    for _ in 0..20 {
        assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "B");
    }
    // A roll-back reaches them, too.
    done(&router, &wanted(2, &[&with_shares(&spec, &[10_000, 0])])).await;
    for _ in 0..20 {
        assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "A");
    }
    done(&router, &wanted(3, &[&with_shares(&spec, &[0, 10_000])])).await;
    let cookie = &holders["A"][0];
    assert_eq!(caller.variation(&[("Cookie", cookie)]).await, "B");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_tcp_are_shared_out() {
    let real = RealTraefik::start().await;
    let router = real.open();
    let (a, b) = (TcpListener::bind(at(0)).await.unwrap(), TcpListener::bind(at(0)).await.unwrap());
    let backends =
        [("A", &a), ("B", &b)].map(|(name, of)| Backend::elsewhere(name, of.local_addr().unwrap()));
    for (listener, name) in [(a, b"A"), (b, b"B")] {
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(name).await;
            }
        });
    }
    let port = real.port();
    let mut spec = service("db", port, &backends, &[7_500, 2_500]);
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = None;
    let counted = async || {
        let mut of_b = 0;
        for _ in 0..40 {
            let mut stream = TcpStream::connect(real.at(port)).await.unwrap();
            let mut name = String::new();
            stream.read_to_string(&mut name).await.unwrap();
            of_b += u32::from(name == "B");
        }
        of_b
    };
    done(&router, &wanted(1, &[&spec])).await;
    assert_eq!(counted().await, 10);
    done(&router, &wanted(2, &[&with_shares(&spec, &[10_000, 0])])).await;
    assert_eq!(counted().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_of_somebody_elses_is_told_and_leaves_what_was_in_force() {
    let real = RealTraefik::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let spec = service("checkout", port, &backends, &[0, 10_000]);
    let good = wanted(1, &[&spec]);
    done(&router, &good).await;
    drop(router);
    real.spoil(true);
    let next = wanted(2, &[&with_shares(&spec, &[10_000, 0])]);
    let mut settings = real.settings();
    settings.load_within = std::time::Duration::from_millis(700);
    let error = Traefik::open(settings).unwrap().apply(&next).await.unwrap_err();
    assert!(matches!(error, RouterError::Silent { .. }), "{error}");
    assert!(error.to_string().contains("is no other file there broken?"), "{error}");
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    real.spoil(false);
    done(&real.open(), &next).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_goes_leaves_its_entry_point_to_others() {
    let real = RealTraefik::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    real.serve_besides("shop", port, &backends[1].target.to_string());
    real.until_it_has("shop@file").await;
    let spec = service("checkout", port, &backends, &[10_000, 0]);
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    assert_eq!(caller.variation(&[]).await, "A");
    // The rule of an operator for a host goes before ours, which takes the rest.
    let mut shop = TcpStream::connect(real.at(port)).await.unwrap();
    shop.write_all(b"GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    shop.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with('B'), "{answer}");
    let gone = wanted(2, &[]);
    done(&router, &gone).await;
    wait_until("nobody takes its calls", async || {
        caller.try_get("/", &[]).await.is_ok_and(|answer| answer.status() == 404)
    })
    .await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_somebody_took_away_is_put_back() {
    let real = RealTraefik::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = service("checkout", real.port(), &backends, &[5_000, 5_000]);
    let all = wanted(1, &[&spec]);
    done(&router, &all).await;
    fs::remove_file(real.file()).unwrap();
    wait_until("it is seen", async || router.read().await.is_ok_and(|seen| seen.number.is_none())).await;
    router.apply(&all).await.unwrap();
    comes_true(&router, &all).await;
}

#[tokio::test]
async fn a_folder_that_can_not_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |own: &str| router::traefik::Settings {
        folder: Some(folder.path().to_owned()),
        own: own.into(),
        api: "http://127.0.0.1:9/".parse().unwrap(),
        metrics: None,
        time_limit: std::time::Duration::from_secs(1),
        load_within: std::time::Duration::from_secs(1),
    };
    let within = folder.path().join("ours");
    let error = Traefik::open(settings(within.to_str().unwrap())).unwrap_err();
    assert!(error.to_string().contains("of which Traefik reads each file"), "{error}");
    let error = Traefik::open(settings("/proc/self")).unwrap_err();
    assert!(error.to_string().contains("another file system"), "{error}");
}
