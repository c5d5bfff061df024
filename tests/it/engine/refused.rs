//! What happens when the store refuses a batch for good: only the guilty command fails.

use std::time::Duration;

use choirmaster::{
    engine::{self, By, EngineError, TaskSettings},
    model::ChildId,
    release::{
        command::{Command, Poll, Reply},
        settings::Settings,
        state::Profile,
    },
    store::{
        Loader, Pruning, StoreError, Writer,
        options::OpenOptions,
        rows::{Batch, LeaseRow},
        url,
    },
};
use futures_util::future::{BoxFuture, join_all, ready};

const PATIENCE: Duration = Duration::from_secs(30);

/// A store that refuses every batch with a child of this name.
const POISON: &str = "poison";

#[derive(Debug)]
struct Picky(Box<dyn Writer>);

impl Writer for Picky {
    fn lease(&self) -> &LeaseRow {
        self.0.lease()
    }

    fn load<'a>(&'a mut self, loader: &'a mut dyn Loader) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.load(loader)
    }

    fn commit<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        if batch.writes.children.iter().any(|child| child.name.as_deref() == Some(POISON)) {
            return Box::pin(ready(Err(StoreError::Refused("poison".to_owned()))));
        }
        self.0.commit(batch)
    }

    fn renew(&mut self, served_ms: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.renew(served_ms)
    }

    fn prune_history(&mut self, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.0.prune_history(limit)
    }

    fn prune_audit(&mut self, pruning: Pruning) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.0.prune_audit(pruning)
    }

    fn release(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.release()
    }
}

fn poll(id: &str, name: &str) -> Command {
    Command::Poll(Poll {
        child: None,
        fresh: ChildId::parse(id).unwrap(),
        area: None,
        address: None,
        agents: 0,
        profile: Some(Profile { name: Some(name.to_owned()), ..Profile::default() }),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_command_that_the_store_refuses_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}", folder.path().join("choir.db").display());
    let (writer, reader) = url::open(&store, &OpenOptions::new()).await.unwrap();
    let started =
        engine::start(Box::new(Picky(writer)), reader, Settings::default(), TaskSettings::default())
            .await
            .unwrap();
    let engine = started.engine;
    for round in 0..20 {
        let names = ["good", POISON, "better", "best", POISON, "fine"];
        let calls = names.iter().enumerate().map(|(place, name)| {
            engine.call(poll(&format!("child-{round}-{place}"), name), By::CHILD, PATIENCE)
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
        .query(PATIENCE, |state| {
            state.children.iter().map(|(_, child)| child.id.to_string()).collect::<Vec<_>>()
        })
        .await
        .unwrap();
    assert_eq!(known.len(), 80);
    assert_eq!(engine.view().child_count(), 80);
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}
