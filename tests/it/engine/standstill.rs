//! A manager that stood still for longer than its lease lives, with a commit in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use domain::children;
use domain::release::command::{Command, Reply};
use engine::By;
use store::{LEASE_TTL, StoreError, rows::Batch};

use super::faulty::{PATIENCE, first_poll, start, wait_until};

/// Renewals that fail before the store answers again.
const ATTEMPTS: usize = 3;

/// The commit succeeded, but by now another manager may have the store: its lease is as old as the question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_commit_has_brought_is_not_said_before_the_lease_is_fresh_again() {
    let folder = tempfile::tempdir().unwrap();
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
    let started = start(folder.path(), fault).await;
    let engine = started.engine;
    stands_still.store(true, Ordering::Relaxed);
    let call = tokio::spawn({
        let engine = engine.clone();
        async move {
            engine
                .call(Command::Children(children::Command::Poll(first_poll("child"))), By::CHILD, PATIENCE)
                .await
        }
    });
    // It asks for the lease again and again.
    wait_until(|| refused.load(Ordering::Relaxed) >= ATTEMPTS).await;
    assert!(!call.is_finished(), "it says what another manager may have changed since");
    assert!(!engine.clock().is_serving());
    is_cut_off.store(false, Ordering::Relaxed);
    assert!(matches!(call.await.unwrap(), Ok(Reply::Polled { .. })));
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}
