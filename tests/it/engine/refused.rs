//! What happens when the store refuses a batch for good: only the guilty command fails.

use domain::{
    children::{self, Poll, Profile},
    release::command::{Command, Reply},
};
use engine::{By, EngineError};
use futures_util::future::join_all;
use store::{StoreError, rows::Batch};

use super::faulty::{first_poll, start};
use crate::deadline::DEADLINE;

/// A child of this name is in no batch that the store takes.
const POISON: &str = "poison";

fn is_poisoned(batch: &Batch) -> bool {
    batch.writes.children.iter().any(|child| child.name.as_deref() == Some(POISON))
}

fn poll(id: &str, name: &str) -> Command {
    let profile = Profile { name: Some(name.to_owned()), ..Profile::default() };
    Command::Children(children::Command::Poll(Poll { profile: Some(profile), ..first_poll(id) }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_command_that_the_store_refuses_fails() {
    let folder = tempfile::tempdir().unwrap();
    let fault = |batch: Option<&Batch>| {
        batch.is_some_and(is_poisoned).then(|| StoreError::Refused("poison".to_owned()))
    };
    let started = start(folder.path(), fault).await;
    let engine = started.engine;
    for round in 0..20 {
        let names = ["good", POISON, "better", "best", POISON, "fine"];
        let calls = names.iter().enumerate().map(|(place, name)| {
            engine.call(poll(&format!("child-{round}-{place}"), name), By::CHILD, DEADLINE)
        });
        for (name, answer) in names.iter().zip(join_all(calls).await) {
            match answer {
                Ok(Reply::Polled { .. }) => assert_ne!(*name, POISON),
                Err(EngineError::Failed) => assert_eq!(*name, POISON),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    let known = engine
        .read(DEADLINE, |state| {
            state.children.iter().map(|(_, child)| child.id.to_string()).collect::<Vec<_>>()
        })
        .await
        .unwrap();
    assert_eq!(known.len(), 80);
    assert_eq!(engine.view().children.count(), 80);
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}
