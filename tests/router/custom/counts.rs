//! Calls behind a webhook, counted from what it tells.

use std::sync::{Arc, Mutex};

use call_metrics::Cursor;
use router::{
    Router,
    custom::Custom,
    measure::{Counters, Measure, Reception},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    real::settings,
    server::{Server, answer},
};
use crate::{
    conformance::comes_true,
    loss::wait::wait_until,
    world::{
        backend::Backend,
        place::{at, free_port},
        wants::{number, service, wanted},
    },
};

/// One that does at once what it is told, and tells what a test says.
struct Teller {
    _server: Server,
    _folder: TempDir,
    /// Of A and B; added to what it says of them.
    tells: Arc<Mutex<[Value; 2]>>,
    measure: Arc<Measure>,
    router: Arc<dyn Router>,
}

impl Teller {
    async fn start() -> Self {
        let (tells, told) =
            (Arc::new(Mutex::new([json!({}), json!({})])), Arc::new(Mutex::new(json!({"services": []}))));
        let telling = Arc::clone(&tells);
        let respond = move |call: super::server::Call| {
            let asked = call.json();
            if asked["do"] == "apply" {
                *told.lock().unwrap() = asked.clone();
            }
            let mut state = told.lock().unwrap().clone();
            for (place, more) in telling.lock().unwrap().iter().enumerate() {
                if let Some(variation) = state["services"][0]["variations"].get_mut(place) {
                    variation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                }
            }
            async move { answer(200, &state) }
        };
        let at = at(free_port());
        let (server, folder) = (Server::start(at, respond).await, tempfile::tempdir().unwrap());
        let measure = Measure::asking(1);
        let custom = Custom::open(settings(at, &folder.path().join("ours"))).unwrap();
        let router: Arc<dyn Router> = Arc::new(custom.measured(Arc::clone(&measure)));
        Self { _server: server, _folder: folder, tells, measure, router }
    }

    fn tell(&self, a: Value, b: Value) {
        *self.tells.lock().unwrap() = [a, b];
    }

    async fn does(&self, generation: u64, split: &str, shares: &[u16]) {
        let backends = ["A", "B"].map(|name| Backend::elsewhere(name, at(9_101)));
        let wanted = wanted(generation, &[&service("checkout", 8_080, &backends, shares)]);
        self.measure.announce(number(generation), [("checkout".to_owned(), split.to_owned())].into());
        self.router.apply(&wanted).await.unwrap();
        comes_true(&self.router, &wanted).await;
    }

    async fn intervals(&self, count: u64) {
        let ended = || self.measure.since(Cursor::default()).next.interval;
        let end = ended() + count;
        wait_until("intervals end", async || ended() >= end).await;
    }

    async fn until(&self, what: &str, is_so: impl Fn(Reception) -> bool) {
        wait_until(what, async || is_so(self.measure.reception())).await;
    }

    /// Split, variation, calls, client errors and errors of each row.
    fn rows(&self) -> Vec<(String, String, [u64; 3])> {
        let intervals = self.measure.since(Cursor::default()).closed;
        let rows = intervals.iter().flat_map(|interval| &interval.rows).map(|row| {
            let counts = [row.tally.calls, row.tally.client_errors, row.tally.errors];
            (row.key.split.clone(), row.key.variation.clone(), counts)
        });
        rows.collect()
    }
}

fn row(split: &str, variation: &str, counts: [u64; 3]) -> (String, String, [u64; 3]) {
    (split.to_owned(), variation.to_owned(), counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_count_for_the_split_that_was_in_force_between_two_answers() {
    let webhook = Teller::start().await;
    let _counting = webhook.measure.count(&webhook.router);
    webhook.tell(json!({"calls": 1_000_000}), json!({"calls": 7}));
    webhook.does(1, "tenth", &[9_000, 1_000]).await;
    webhook.intervals(2).await;
    assert_eq!(webhook.rows(), [], "what was before is nobody's");

    webhook.tell(json!({"calls": 1_000_090, "client_errors": 5}), json!({"calls": 17, "errors": 3}));
    webhook.until("both are counted", |reception| reception.calls == 100).await;
    let tenth = [row("tenth", "A", [90, 5, 0]), row("tenth", "B", [10, 0, 3])];
    assert_eq!(webhook.rows(), tenth);

    // Shares change between two answers: what came meanwhile is in no split.
    webhook.measure.announce(number(2), [("checkout".to_owned(), "back".to_owned())].into());
    webhook.tell(json!({"calls": 1_000_190, "client_errors": 5}), json!({"calls": 18, "errors": 3}));
    webhook.does(2, "back", &[10_000, 0]).await;
    webhook.until("they are counted", |reception| reception.calls == 201).await;
    webhook.intervals(2).await;
    webhook.tell(json!({"calls": 1_000_191, "client_errors": 5}), json!({"calls": 18, "errors": 3}));
    webhook.until("it is counted", |reception| reception.calls == 202).await;
    let rows = webhook.rows();
    assert!(rows.ends_with(&[row("back", "A", [1, 0, 0])]), "{rows:?}");
    let of_change = rows.iter().filter(|(split, ..)| split.is_empty() || split == "tenth");
    let calls: u64 = of_change.map(|(_, _, counts)| counts[0]).sum();
    assert_eq!(calls, 201, "{rows:?}");

    // Its router begins anew, and what it has counted since can't be told from what it had.
    webhook.tell(json!({"calls": 4}), json!({"calls": 0}));
    webhook.until("that is seen", |reception| reception.not_measured == 1).await;
    assert_eq!(webhook.measure.since(Cursor::default()).gone, 4);
    webhook.tell(json!({"calls": 9}), json!({"calls": 0}));
    webhook.until("they are counted", |reception| reception.calls == 207).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_counted_where_it_tells_none_or_what_can_not_be() {
    let webhook = Teller::start().await;
    webhook.does(1, "tenth", &[9_000, 1_000]).await;
    webhook.tell(json!({"calls": 1}), json!({}));
    let counters = async || webhook.router.counters().await;
    let Counters::Not(why) = counters().await.unwrap() else { panic!() };
    assert_eq!(why, "it tells no `calls` of variation B of checkout");
    for bad in [json!({"calls": 1, "errors": 2}), json!({"calls": 9_007_199_254_740_993_u64})] {
        webhook.tell(json!({"calls": 1}), bad);
        let error = counters().await.unwrap_err().to_string();
        assert!(error.contains("variation B of checkout has "), "{error}");
    }
    // It begins to tell.
    webhook.tell(json!({"calls": 1}), json!({}));
    let _counting = webhook.measure.count(&webhook.router);
    wait_until("that is known", async || webhook.measure.uncounted().is_some()).await;
    webhook.tell(json!({"calls": 1}), json!({"calls": 1}));
    wait_until("that is known", async || webhook.measure.uncounted().is_none()).await;
    webhook.intervals(1).await;
    webhook.tell(json!({"calls": 1}), json!({"calls": 3}));
    webhook.until("they are counted", |reception| reception.calls == 2).await;
}
