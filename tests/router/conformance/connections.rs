//! Services of connections without headers.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use traffic::{
    Bucket,
    desired::{Listen, Protocol, ServiceSpec, StickyTo},
};

use super::{Real, done, state::with_shares};
use crate::{
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        place::{at, free_port},
        wants::{SALT, service, wanted},
    },
};

/// A service of TCP with variations of these names and shares, which knows nobody.
fn over_tcp<R: Real>(backends: &[Backend], shares: &[u16]) -> ServiceSpec {
    let port = free_port();
    let mut spec = service("checkout", port, backends, shares);
    spec.hash = R::HASH;
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = None;
    spec
}

pub async fn connections_are_split_by_the_address_that_they_come_from<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = over_tcp::<R>(&backends, &[6_000, 4_000]);
    let port = spec.listens[0].port;
    spec.sticky = Some(StickyTo::Address);
    done(&router, &wanted(1, &[&spec])).await;
    for (generation, shares) in (2..).zip([[6_000, 4_000], [1_000, 9_000], [10_000, 0]]) {
        let before = spec.table.clone();
        spec = with_shares(&spec, &shares);
        let was_reloaded = done(&router, &wanted(generation, &[&spec])).await.was_reloaded;
        assert_eq!(was_reloaded, R::reloads_for_shares(Protocol::Tcp) && spec.table != before);
        for user in 0..300_u16 {
            let [high, low] = user.to_be_bytes();
            let from = IpAddr::from([127, 1 + high, low, 99]);
            let bucket = Bucket::of_key(R::HASH, SALT.as_bytes(), from.to_string().as_bytes());
            let expected = spec.variations[spec.table.variation(bucket).index()].name.to_string();
            let answer = Caller::from_address(real.at(port), from).get("/", &[]).await;
            assert_eq!(String::from_utf8(answer.body.clone()).unwrap(), expected);
            assert_eq!(answer.field("x-choirmaster-version"), None, "nothing is put into connections");
        }
    }
}

pub async fn connections_without_a_key_are_drawn_each_by_itself<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = over_tcp::<R>(&backends, &[5_000, 5_000]);
    let port = spec.listens[0].port;
    done(&router, &wanted(1, &[&spec])).await;
    let mut of_b = 0;
    for _ in 0..200 {
        of_b += i32::from(Caller::new(real.at(port)).variation(&[]).await == "B");
    }
    // Seven standard deviations.
    assert!((50..150).contains(&of_b), "{of_b}");
}

pub async fn connections_that_come_while_shares_change_are_all_answered<R: Real>() {
    const CHANGES: u64 = 6;
    const CALLERS: u32 = 4;
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = over_tcp::<R>(&backends, &[10_000, 0]);
    let port = spec.listens[0].port;
    done(&router, &wanted(1, &[&spec])).await;
    // One that stays where it is.
    let mut stays = Caller::new(real.at(port));
    assert_eq!(stays.variation(&[]).await, "A");
    let (is_over, begun) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (is_over, begun, to) = (Arc::clone(&is_over), Arc::clone(&begun), real.at(port));
        callers.spawn(async move {
            let mut answers = BTreeMap::<String, u32>::new();
            while !is_over.load(Ordering::Relaxed) {
                begun.fetch_add(1, Ordering::Relaxed);
                let answer = Caller::new(to).try_get("/", &[]).await;
                let said = answer.map_or_else(
                    |broken| format!("{broken:?}"),
                    |answer| String::from_utf8_lossy(&answer.body).into_owned(),
                );
                *answers.entry(said).or_default() += 1;
            }
            answers
        });
    }
    for change in 1..=CHANGES {
        spec = with_shares(&spec, if change % 2 == 1 { &[0, 10_000] } else { &[10_000, 0] });
        done(&router, &wanted(1 + change, &[&spec])).await;
        if change == 1 {
            assert_eq!(stays.variation(&[]).await, "A", "it was cut by nothing");
        }
        let before = begun.load(Ordering::Relaxed);
        wait_until("some more call", async || begun.load(Ordering::Relaxed) > before + 2 * CALLERS).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut all = BTreeMap::<String, u32>::new();
    while let Some(answers) = callers.join_next().await {
        answers.unwrap().into_iter().for_each(|(said, times)| *all.entry(said).or_default() += times);
    }
    assert_eq!(all.keys().collect::<Vec<_>>(), ["A", "B"], "{all:?}");
    assert_eq!(all.values().sum::<u32>(), begun.load(Ordering::Relaxed));
}

pub async fn whoever_says_that_nothing_more_will_come_is_answered_all_the_same<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [Backend::elsewhere("A", listener.local_addr().unwrap())];
    let spec = over_tcp::<R>(&backends, &[10_000]);
    done(&router, &wanted(1, &[&spec])).await;
    let answers = tokio::spawn(async move {
        loop {
            // A router may have tried whether somebody is there.
            let (mut there, _) = listener.accept().await.unwrap();
            let mut came = Vec::new();
            if there.read_to_end(&mut came).await.is_ok() && !came.is_empty() {
                there.write_all(&came).await.unwrap();
                return came;
            }
        }
    });
    let mut here = TcpStream::connect(real.at(spec.listens[0].port)).await.unwrap();
    here.write_all(b"all of it").await.unwrap();
    here.shutdown().await.unwrap();
    let mut answer = Vec::new();
    here.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"all of it");
    assert_eq!(answers.await.unwrap(), b"all of it");
}
