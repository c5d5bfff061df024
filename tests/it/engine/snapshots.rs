//! What readers see: what was acknowledged, nothing that is not committed, and always one moment.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use domain::children;
use domain::release::{command::Command, state::Snapshot};
use engine::{By, Engine};
use futures_util::future::join_all;
use store::StoreError;

use super::faulty::{first_poll, start, wait_until};
use crate::deadline::DEADLINE;

async fn register(engine: &Engine, id: &str) {
    engine
        .call(Command::Children(children::Command::Poll(first_poll(id))), By::CHILD, DEADLINE)
        .await
        .unwrap();
}

fn label(id: &str, value: &str) -> Command {
    Command::Children(children::Command::Label {
        child: id.to_owned(),
        key: "tier".to_owned(),
        value: Some(value.to_owned()),
    })
}

fn tier(snapshot: &Snapshot, id: &str) -> Option<String> {
    let (_, child) = snapshot.children.by_id(id)?;
    child.labels.as_ref()?.get("tier").cloned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_stays_as_it_was_while_the_state_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let started = start(folder.path(), |_| None).await;
    let engine = started.engine;
    register(&engine, "one").await;
    let before = engine.snapshot(DEADLINE).await.unwrap();
    engine.call(label("one", "edge"), By::CHILD, DEADLINE).await.unwrap();
    let ids: Vec<String> = (0..100).map(|number| format!("more-{number}")).collect();
    join_all(ids.iter().map(|id| register(&engine, id))).await;
    let forget =
        Command::Children(children::Command::Forget { child: "more-50".to_owned(), even_if_it_owes: false });
    engine.call(forget, By::CHILD, DEADLINE).await.unwrap();
    let after = engine.snapshot(DEADLINE).await.unwrap();
    assert_eq!((before.children.len(), after.children.len()), (1, 100));
    assert_eq!((tier(&before, "one"), tier(&after, "one").as_deref()), (None, Some("edge")));
    assert!(before.children.by_id("more-7").is_none());
    assert!(after.children.by_id("more-7").is_some() && after.children.by_id("more-50").is_none());
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_answered_finds_it_in_the_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let started = start(folder.path(), |_| None).await;
    let engine = started.engine;
    let one = |number: usize| {
        let engine = engine.clone();
        async move {
            let id = format!("child-{number}");
            register(&engine, &id).await;
            for value in 0..20 {
                engine.call(label(&id, &value.to_string()), By::CHILD, DEADLINE).await.unwrap();
                let found = engine.read(DEADLINE, |state| tier(state, &id)).await.unwrap();
                assert_eq!(found, Some(value.to_string()));
            }
        }
    };
    join_all((0..8).map(one)).await;
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_seen_that_the_store_has_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&refuses);
    let fault = move |_: Option<&_>| {
        switch.load(Ordering::Relaxed).then(|| StoreError::Unavailable("gone for a while".to_owned()))
    };
    let started = start(folder.path(), fault).await;
    let engine = started.engine;
    register(&engine, "one").await;
    refuses.store(true, Ordering::Relaxed);
    let (asked, seen) = (label("one", "edge"), engine.clone());
    let call = engine.call(asked, By::CHILD, DEADLINE);
    let look = async {
        let found = seen.read(DEADLINE, |state| tier(state, "one")).await.unwrap();
        assert_eq!(found.as_deref(), Some("edge"), "it was decided before the look, so it is stored by then");
        assert!(!refuses.load(Ordering::Relaxed), "the look was answered while nothing could be stored");
    };
    let mend = async {
        while engine.view().stats.commit_retries.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        refuses.store(false, Ordering::Relaxed);
    };
    let (answer, (), ()) = tokio::join!(call, look, mend);
    answer.unwrap();
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}

/// The mirror looks like this, too: so nothing is there that isn't committed.
#[tokio::test]
async fn a_look_with_a_change_before_it_waits_until_that_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&refuses);
    let fault = move |_: Option<&_>| {
        switch.load(Ordering::Relaxed).then(|| StoreError::Unavailable("gone for a while".to_owned()))
    };
    let started = start(folder.path(), fault).await;
    let engine = started.engine;
    register(&engine, "one").await;
    refuses.store(true, Ordering::Relaxed);
    // There is one thread: the engine takes both together, once this waits for something.
    let mut call = Box::pin(engine.call(label("one", "edge"), By::CHILD, DEADLINE));
    let mut look = Box::pin(engine.snapshot(DEADLINE));
    assert!(futures_util::poll!(&mut call).is_pending());
    assert!(futures_util::poll!(&mut look).is_pending());
    wait_until(|| engine.view().stats.commit_retries.load(Ordering::Relaxed) >= 2).await;
    assert!(futures_util::poll!(&mut call).is_pending());
    assert!(
        futures_util::poll!(&mut look).is_pending(),
        "the look was answered while nothing could be stored"
    );
    refuses.store(false, Ordering::Relaxed);
    call.await.unwrap();
    assert_eq!(tier(&look.await.unwrap(), "one").as_deref(), Some("edge"));
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}
