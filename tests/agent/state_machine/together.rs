//! Several services that are shared together.

use std::collections::BTreeSet;

use call_metrics::InFlight;
use model::StageStatus;
use protocol::FollowUp;
use proxy::form::TableForm;

use super::world::{World, shares_of, version};

/// What `shop` and `pay` are given of their calls: each has a stage, and the one of `pay` begins with that of `shop`, which lasts.
fn text() -> String {
    let service = |name: &str, port: u16, [stable, new]: [&str; 2]| {
        let variation = |name: &str| {
            let port = 9_000 + u32::from(name.as_bytes()[0]);
            format!("      - {{name: {name}, targets: [\"127.0.0.1:{port}\"]}}\n")
        };
        format!(
            "  - name: {name}\n    ports: [{{port: {port}}}]\n    at_rollback: retire\n    variations:\n{}{}",
            variation(stable),
            variation(new)
        )
    };
    format!(
        "id: r1\nname: r1\nservices:\n{}{}stages:\n  - name: paying\n    type: WaitForSignal\n    service: pay\n    shares: {{C: 70, D: 30}}\n    \
         with_next: true\n    end_conditions: [{{name: minCalls, threshold: \"1\"}}]\n    end_action: {{onSuccess: shopping, onFailure: \
         rollback}}\n  - name: shopping\n    type: WaitForSignal\n    service: shop\n    shares: {{A: 90, B: 10}}\n    end_conditions: \
         [{{name: minDuration, threshold: 20s}}, {{name: minCalls, threshold: \"1\"}}]\n    end_action: {{onSuccess: rollout, onFailure: \
         rollback}}\n",
        service("shop", 80, ["A", "B"]),
        service("pay", 81, ["C", "D"]),
    )
}

/// It is in hand, and the manager ends each stage that waits.
fn offered() -> World {
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), text()));
    world.signal(None);
    world
}

/// The same, and the stage that lasts has begun.
fn lasting() -> World {
    let mut world = offered();
    world.until("the last stage has begun", |world| !world.ended().is_empty() && world.owed().is_empty());
    assert_eq!(world.ended(), [("paying".to_owned(), StageStatus::Completed, "shopping".to_owned())]);
    world
}

/// What the new variations of both get by a table.
fn given(table: &TableForm) -> [u16; 2] {
    [("shop", "B"), ("pay", "D")].map(|(service, variation)| {
        let found = table.services.iter().find(|found| found.name == service);
        let share = found.and_then(|service| {
            let at = service.variations.iter().position(|one| one.name == variation)?;
            shares_of(service).get(at).copied()
        });
        share.unwrap_or_default()
    })
}

/// The same by all tables that were ever in force.
fn ever(world: &World) -> BTreeSet<[u16; 2]> {
    world.tables.iter().map(given).collect()
}

fn now(world: &World) -> [u16; 2] {
    world.table.as_ref().map(given).unwrap_or_default()
}

fn is_over(world: &World) -> bool {
    world.core.state().work.is_none() && world.owed().is_empty()
}

#[test]
fn all_are_in_force_by_one_table_whether_or_not_anybody_calls() {
    for (calls, errors) in [(20, 0), (0, 0), (20, 100)] {
        let mut world = offered();
        world.calls = calls;
        // What fails is of the service whose stage waits for nothing.
        world.errors.insert("D", errors);
        world.until("the last stage has begun", |world| !world.ended().is_empty() && world.owed().is_empty());
        assert_eq!(world.ended(), [("paying".to_owned(), StageStatus::Completed, "shopping".to_owned())]);
        world.steps(40);
        assert_eq!((now(&world), ever(&world)), ([1_000, 3_000], BTreeSet::from([[1_000, 3_000]])));
    }
}

#[test]
fn shares_that_are_chosen_at_once_are_in_force_at_once() {
    // While the first of them is passed, and later.
    for steps in 0..60 {
        let mut world = offered();
        world.steps(steps);
        world.chosen.insert("paying".to_owned(), 5_000);
        world.chosen.insert("shopping".to_owned(), 2_000);
        world.until("they are in force", |world| now(world) == [2_000, 5_000]);
        let before = BTreeSet::from([[1_000, 3_000], [2_000, 5_000]]);
        assert!(ever(&world).is_subset(&before), "{steps}: {:?}", ever(&world));
        // One alone leaves the other as it is, after a kill as well.
        world.kill();
        world.chosen.insert("paying".to_owned(), 0);
        world.until("it is in force", |world| now(world) == [2_000, 0]);
        world.steps(10);
        let after = &before | &BTreeSet::from([[2_000, 0]]);
        assert!(ever(&world).is_subset(&after), "{steps}: {:?}", ever(&world));
    }
}

#[test]
fn all_take_over_by_one_table_and_serve_alone() {
    for steps in 0..60 {
        let mut world = lasting();
        world.until("it may end", |world| world.told.iter().any(|told| told.stage == "shopping"));
        world.steps(steps);
        world.kill();
        world.until("it is over", is_over);
        assert_eq!(world.ended().len(), 2, "{steps}");
        assert_eq!(world.ended()[1], ("shopping".to_owned(), StageStatus::Completed, "rollout".to_owned()));
        world.until("each serves alone", |world| {
            let table = world.table.as_ref().expect("a table");
            table.services.iter().all(|service| service.variations.len() == 1)
        });
        assert_eq!(now(&world), [10_000, 10_000]);
        let all = BTreeSet::from([[1_000, 3_000], [10_000, 10_000]]);
        assert_eq!(ever(&world), all, "{steps}");
    }
}

#[test]
fn one_that_answers_no_more_takes_all_back() {
    for variation in ["B", "D"] {
        let mut world = lasting();
        world.silent.insert(variation.to_owned());
        world.until("it is over", is_over);
        let ended = world.ended();
        assert_eq!(ended.last().unwrap().2, "rollback", "{variation}: {ended:?}");
        assert_eq!(now(&world), [0, 0]);
        let all = BTreeSet::from([[1_000, 3_000], [10_000, 10_000], [0, 0]]);
        assert_eq!(ever(&world), all, "{variation}");
    }
}

#[test]
fn all_go_back_by_one_table_and_what_came_with_them_goes() {
    for steps in 0..60 {
        let mut world = offered();
        world.steps(steps);
        world.signal(Some(FollowUp::Rollback));
        world.steps(3);
        world.kill();
        world.until("it is over", is_over);
        let nothing = |world: &World| world.table.as_ref().is_none_or(|table| table.services.is_empty());
        world.until("nothing of it is left", nothing);
        assert!(world.core.state().services.is_empty(), "{steps}");
        let all = BTreeSet::from([[1_000, 3_000], [0, 0]]);
        assert!(ever(&world).is_subset(&all), "{steps}: {:?}", ever(&world));
    }
}

#[test]
fn the_last_calls_of_each_are_waited_for() {
    for (service, variation) in [("shop", "B"), ("pay", "D")] {
        let mut world = lasting();
        world.in_flight =
            vec![InFlight { service: service.to_owned(), variation: variation.to_owned(), calls: 1 }];
        world.signal(Some(FollowUp::Rollback));
        world.until("nobody gets more calls", |world| now(world) == [0, 0]);
        let since_ms = world.now_ms;
        world.until("a while has passed", |world| world.now_ms >= since_ms + 3_000);
        assert_eq!(world.ended().len(), 1, "a call of {service} goes on");
        world.in_flight.clear();
        world.until("it is over", is_over);
        assert!(world.now_ms < since_ms + 4_500, "{service}: it waits for no deadline");
    }
}

#[test]
fn one_that_the_proxy_refuses_leaves_none() {
    let mut world = offered();
    world.closed_ports.insert(81);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Error);
    assert!(world.core.state().services.is_empty());
    assert!(world.tables.iter().all(|table| table.services.is_empty()));
}

/// The same, of which what `pay` tries is started here, and what `shop` tries runs elsewhere.
fn started() -> World {
    let text = text();
    let elsewhere = "targets: [\"127.0.0.1:9068\"]";
    assert!(text.contains(elsewhere), "{text}");
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), text.replace(elsewhere, "run: {path: v2}")));
    world.signal(None);
    world
}

#[test]
fn what_is_started_begins_and_goes_together_with_what_runs_elsewhere() {
    let v2 = version("service/pay", "v2");
    for steps in 0..40 {
        let mut world = started();
        world.steps(steps);
        world.kill();
        world.until("both are tried", |world| now(world) == [1_000, 3_000]);
        let before = BTreeSet::from([[0, 0], [1_000, 3_000]]);
        assert!(ever(&world).is_subset(&before), "{steps}: {:?}", ever(&world));
        assert!(world.running.keys().eq([&v2]), "{steps}: it runs, and nothing else does");
        world.signal(Some(FollowUp::Rollback));
        world.until("it is over", is_over);
        world.until("nothing of it is left", |world| {
            world.running.is_empty() && world.table.as_ref().is_none_or(|table| table.services.is_empty())
        });
        assert!(world.core.state().services.is_empty(), "{steps}");
        assert!(ever(&world).is_subset(&before), "{steps}: {:?}", ever(&world));
        assert!(world.stopped.contains(&v2), "{steps}");
    }
}

#[test]
fn what_cant_be_started_leaves_none() {
    let mut world = started();
    world.broken.insert(version("service/pay", "v2"));
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Error);
    assert!(world.core.state().services.is_empty());
    assert!(world.tables.iter().all(|table| table.services.is_empty()));
}
