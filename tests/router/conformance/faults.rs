//! Deaths, lies and rivals.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use router::{Router, RouterError};
use traffic::desired::{DesiredConfig, ServiceSpec};

use super::{Real, comes_true, done, state::with_shares};
use crate::world::{
    backend::Backend,
    caller::Caller,
    liar::{Liar, Lie},
    wants::{service, wanted},
};

/// Nothing that is asked of a router takes longer, whatever it answers.
const BOUND: Duration = Duration::from_mins(1);

pub async fn a_router_that_was_killed_comes_back_with_what_it_was_told<R: Real>() {
    let mut real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let last = wanted(2, &[&with_shares(&spec, &[0, 10_000])]);
    assert!(!done(&router, &last).await.was_reloaded);
    real.kill().await;
    assert!(matches!(router.read().await.unwrap_err(), RouterError::Away { .. }));
    real.start_again().await;
    comes_true(&router, &last).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    assert!(!done(&router, &last).await.was_reloaded);
}

/// A wanted state, and another one after it that changes shares, targets, and which services there are.
fn two_states(generation: u64, backends: &[Backend], specs: [&ServiceSpec; 3]) -> [DesiredConfig; 2] {
    let [stays, goes, comes] = specs;
    let mut changed = with_shares(stays, &[6_000, 4_000]);
    changed.variations[0].targets.push(backends[1].target.clone());
    [wanted(generation, &[stays, goes]), wanted(generation + 1, &[&changed, comes])]
}

pub async fn whoever_is_killed_in_the_middle_is_followed_by_one_that_ends_it<R: Real>() {
    let real = R::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = |name| {
        let mut spec = service(name, real.port(), &backends, &[9_900, 100]);
        spec.hash = R::HASH;
        spec
    };
    let (stays, goes, comes) = (spec("stays"), spec("goes"), spec("comes"));
    let mut generation = 1;
    let mut deaths = 0;
    // Every step of a change of shares alone, then the most telling ones of all else: steps grow by a fifth.
    let mut after = 0;
    loop {
        let [first, second] = two_states(generation, &backends, [&stays, &goes, &comes]);
        generation += 2;
        {
            let router = real.open();
            done(&router, &first).await;
        }
        let Some(dying) = real.open_dying(after) else { return };
        let outcome = dying.apply(&second).await;
        drop(dying);
        let router = real.open();
        done(&router, &second).await;
        assert_eq!(router.check(None).await.unwrap().left_over, [""; 0], "killed after {after} steps");
        for spec in [&stays, &comes] {
            Caller::new(real.at(spec.listens[0].port)).get("/", &[]).await;
        }
        if outcome.is_ok() {
            break;
        }
        deaths += 1;
        after += 1 + after / 5;
    }
    assert!(deaths > 8, "{deaths}");
}

/// Asks so often whether an answer is there, and no further.
async fn dropped_after(polls: u32, router: &Arc<dyn Router>, wanted: &DesiredConfig) -> bool {
    let mut answer = router.apply(wanted);
    let mut asked = 0;
    poll_fn(|context| {
        asked += 1;
        match answer.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer.is_ok()),
            Poll::Pending if asked >= polls => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

pub async fn an_answer_that_nobody_waits_for_any_more_does_no_harm<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let (mut generation, mut polls) = (2, 1);
    loop {
        let mut other = with_shares(&spec, &[3_000, 7_000]);
        if polls % 2 == 0 {
            other.variations.swap(0, 1);
        }
        let next = wanted(generation, &[&other]);
        let is_done = dropped_after(polls, &router, &next).await;
        done(&router, &next).await;
        done(&router, &wanted(generation + 1, &[&spec])).await;
        generation += 2;
        if is_done {
            break;
        }
        polls += 1 + polls / 4;
    }
}

pub async fn a_second_process_is_refused<R: Real>() {
    let real = R::start().await;
    let (first, second) = (real.open(), real.open());
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    let before = wanted(1, &[&spec]);
    done(&first, &before).await;
    let next = wanted(2, &[&with_shares(&spec, &[5_000, 5_000])]);
    let error = second.apply(&next).await.unwrap_err();
    assert!(matches!(error, RouterError::Locked { .. }), "{error}");
    assert!(matches!(second.reload().await.unwrap_err(), RouterError::Locked { .. }));
    comes_true(&second, &before).await;
    drop(first);
    done(&second, &next).await;
}

pub async fn nonsense_is_told_from_answers_and_has_an_end<R: Real>() {
    let mut real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    let before = wanted(1, &[&spec]);
    done(&router, &before).await;
    real.kill().await;
    let changed = wanted(2, &[&with_shares(&spec, &[5_000, 5_000])]);
    for lie in Lie::ALL {
        let liar = Liar::start(&real.door(), lie).await;
        let read = tokio::time::timeout(BOUND, router.read()).await.expect("it has an end");
        let is_fit = match (lie, &read) {
            // Where answers of that kind begin otherwise, it isn't waited for their end.
            (Lie::Silence | Lie::Trickle, Err(RouterError::Silent { .. }))
            | (Lie::Trickle, Err(RouterError::Nonsense { .. }))
            | (Lie::Hangs, Err(RouterError::Away { .. } | RouterError::Nonsense { .. })) => true,
            (Lie::Flood | Lie::Stranger, Err(RouterError::Nonsense { said, .. })) => said.len() < 1_000,
            // Not even HTTP.
            (Lie::Flood, Err(RouterError::Away { .. })) => {
                use traffic::RouterKind::{AwsAlb, Custom, Traefik};
                matches!(R::KIND, Custom | Traefik | AwsAlb)
            }
            _ => false,
        };
        assert!(is_fit, "{lie:?}: {read:?}");
        let applied = tokio::time::timeout(BOUND, router.apply(&changed)).await.expect("it has an end");
        assert!(applied.is_err(), "{lie:?}: {applied:?}");
        liar.end().await;
    }
    if let crate::world::liar::Door::Unix(path) = real.door() {
        let _ = std::fs::remove_file(path);
    }
    real.start_again().await;
    done(&router, &changed).await;
}

pub async fn a_router_that_is_away_is_told_so<R: Real>() {
    let mut real = R::start().await;
    let router = real.open();
    real.kill().await;
    assert!(matches!(router.read().await.unwrap_err(), RouterError::Away { .. }));
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[0, 10_000]);
    spec.hash = R::HASH;
    let wanted = wanted(1, &[&spec]);
    let error = router.apply(&wanted).await.unwrap_err();
    assert!(matches!(error, RouterError::Away { .. }), "{error}");
    real.start_again().await;
    done(&router, &wanted).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
}
