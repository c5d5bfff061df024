//! Canaries of a service under calls: one that fails more often than what it is to replace is taken back by itself, an equal one is
//! promoted; and one that goes bad while nobody can be asked is taken back by the agents themselves.

use std::sync::atomic::Ordering;

use super::{routers::Routers, users::Users};

const ROUTERS: u8 = 2;

/// One call of so many fails: 0.1 % and 2 %.
const RARELY: u64 = 1_000;
const OFTEN: u64 = 50;

/// In units of 0.01 %.
const TENTH: u16 = 1_000;

/// Ten percent, compared with what serves beside it, and then everything.
const COMPARED: &str = "rollout: {order: global_incremental, on_failure: rollback}
stages:
  - name: tenth
    type: WaitForSignal
    shares: {A: 90, B: 10}
    end_conditions: [{name: minDuration, threshold: 1s}, {name: minCalls, threshold: \"1000\"}]
    end_action: {onSuccess: rollout, onFailure: rollback}
    analysis:
      duration: 60s
      interval: 2s
      earlyPass: true
      inconclusive: {extend: 2m, calls: 60000, then: fail}
      metrics:
        - {name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 50%, floor: 0.5%}
";

/// Ten percent under a limit, for longer than any test.
const LIMITED: &str = "rollout: {order: global_incremental, on_failure: rollback}
stages:
  - name: tenth
    type: WaitForSignal
    shares: {A: 90, B: 10}
    metrics_conditions: [{name: errorRate, threshold: \"<0.005\"}]
    end_conditions: [{name: minDuration, threshold: 30m}, {name: minCalls, threshold: \"1000\"}]
    end_action: {onSuccess: rollout, onFailure: rollback}
";

/// Routers at which each call is given to either variation, whoever calls.
async fn routers() -> Routers {
    let world = Routers::start(ROUTERS, &[]).await;
    world.a.fails_one_in.store(RARELY, Ordering::Relaxed);
    world.b.fails_one_in.store(RARELY, Ordering::Relaxed);
    world
}

impl Routers {
    async fn begin(&self, id: &str, stages: &str) -> Users {
        let text = self.strategy(id, stages).replace("    sticky: {header: X-User}\n", "");
        self.site.manager.submit(&text).await;
        self.all_give(TENTH).await;
        Users::call(&self.at)
    }

    /// The calls that each variation has had, once users were answered again.
    async fn had(&self, users: &Users) -> [u64; 2] {
        let before = [self.a.calls(), self.b.calls()];
        users.round().await;
        [self.a.calls() - before[0], self.b.calls() - before[1]]
    }
}

/// Errors are those of the stable variation alone: what the other one failed was repeated.
async fn felt(users: Users) {
    let felt = users.lost().await;
    assert!(felt.iter().all(|why| why.contains("HTTP/1.1 500")), "{felt:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_with_two_percent_errors_beside_a_tenth_is_taken_back_by_itself_at_ten_percent() {
    let world = routers().await;
    world.b.fails_one_in.store(OFTEN, Ordering::Relaxed);
    let users = world.begin("bad", COMPARED).await;
    let ended = world.site.manager.ended("bad").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.all_give(0).await;
    users.round().await;
    assert_eq!(world.had(&users).await[1], 0, "what was taken back gets no call");
    assert!(ended.to_string().contains("errors"), "it is said by what: {ended:#}");
    felt(users).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_fails_as_rarely_as_what_it_replaces_is_promoted() {
    let world = routers().await;
    let users = world.begin("good", COMPARED).await;
    let ended = world.site.manager.ended("good").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.all_give(10_000).await;
    users.round().await;
    assert_eq!(world.had(&users).await[0], 0, "what was replaced gets no call");
    felt(users).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_goes_bad_while_the_manager_is_away_is_taken_back_and_the_manager_agrees() {
    let mut world = routers().await;
    let users = world.begin("alone", LIMITED).await;
    users.round().await;
    world.site.manager.kill();
    assert!(world.had(&users).await[1] > 0, "it is tried on");
    world.b.fails_one_in.store(OFTEN, Ordering::Relaxed);
    world.all_give(0).await;
    users.round().await;
    assert_eq!(world.had(&users).await[1], 0, "what was taken back gets no call");
    world.site.manager.come_back().await;
    let ended = world.site.manager.ended("alone").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.all_give(0).await;
    assert_eq!(world.had(&users).await[1], 0);
    felt(users).await;
}
