//! A manager that stood still for longer than its lease lives, with a commit in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use choirmaster::{
    engine::{self, By, TaskSettings},
    model::ChildId,
    release::{
        command::{Command, Poll, Reply},
        settings::Settings,
    },
    store::{LEASE_TTL, StoreError, options::OpenOptions, rows::Batch, url},
};
use tokio::time::{sleep, timeout};

use super::faulty::Faulty;

const PATIENCE: Duration = Duration::from_mins(1);

/// Renewals that fail before the store answers again.
const ATTEMPTS: usize = 3;

/// The commit succeeded, but by now another manager may have the store: its lease is as old as the question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_commit_has_brought_is_not_said_before_the_lease_is_fresh_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}", folder.path().join("choir.db").display());
    let (writer, reader) = url::open(&store, &OpenOptions::new()).await.unwrap();
    let (stands_still, is_cut_off) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let refused = Arc::new(AtomicUsize::new(0));
    let fault = {
        let (stands_still, is_cut_off) = (Arc::clone(&stands_still), Arc::clone(&is_cut_off));
        let refused = Arc::clone(&refused);
        move |batch: Option<&Batch>| {
            if batch.is_some() && stands_still.swap(false, Ordering::Relaxed) {
                // Nothing of it runs meanwhile: the lease is not renewed either.
                thread::sleep(LEASE_TTL);
                is_cut_off.store(true, Ordering::Relaxed);
                return None;
            }
            let is_refused = batch.is_none() && is_cut_off.load(Ordering::Relaxed);
            refused.fetch_add(usize::from(is_refused), Ordering::Relaxed);
            is_refused.then(|| StoreError::Unavailable("no connection".to_owned()))
        }
    };
    let writer = Faulty { store: writer, fault };
    let started =
        engine::start(Box::new(writer), reader, Settings::default(), TaskSettings::default()).await.unwrap();
    let engine = started.engine;
    stands_still.store(true, Ordering::Relaxed);
    let call = tokio::spawn({
        let engine = engine.clone();
        async move { engine.call(poll(), By::CHILD, PATIENCE).await }
    });
    let renewing = async {
        while refused.load(Ordering::Relaxed) < ATTEMPTS {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, renewing).await.expect("it never asks for the lease again");
    assert!(!call.is_finished(), "it says what another manager may have changed since");
    assert!(!engine.clock().is_serving());
    is_cut_off.store(false, Ordering::Relaxed);
    assert!(matches!(call.await.unwrap(), Ok(Reply::Polled { .. })));
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}

fn poll() -> Command {
    Command::Poll(Poll {
        child: None,
        fresh: ChildId::parse("child").unwrap(),
        area: None,
        address: None,
        agents: 0,
        profile: None,
    })
}
