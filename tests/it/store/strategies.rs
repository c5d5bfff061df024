//! A strategy that was accepted once is not judged by rules that came later; what can't be read stays unreadable.

use std::time::Duration;

use language::{MAX_STRATEGY_BYTES, Strategy, check, check_stored};

use crate::world::{World, strategy};
use crate::{reference::REFERENCE, texts::with};

/// Refused today, and read from a store.
fn stored(text: &str) -> Strategy {
    assert!(check(text).strategy.is_none(), "today's rules accept it: {text}");
    let checked = check_stored(text);
    let said = checked.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    checked.strategy.unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn what_is_beyond_a_limit_of_today_is_kept_as_it_stands() {
    let long = "x".repeat(300);
    let of_stored = stored(&with("name: canary5percent", &format!("name: {long}")));
    assert_eq!(of_stored.name, long);
    let of_stored = stored(&with("path: fns/sample_f1", &format!("path: fns/{long}")));
    assert_eq!(of_stored.functions[0].base.path, format!("fns/{long}"));
    let text = format!("{REFERENCE}\n#{}\n", "-".repeat(MAX_STRATEGY_BYTES));
    assert_eq!(Some(stored(&text)), check(REFERENCE).strategy);
    let of_stored = stored(&format!("{REFERENCE}\nstage_deadline: 900d\n"));
    assert_eq!(of_stored.deadlines.stage, Some(Duration::from_hours(900 * 24)));
}

#[test]
fn more_of_something_than_is_allowed_today_is_all_there() {
    let labels = (0..40).map(|at| format!("k{at}: v")).collect::<Vec<_>>().join(", ");
    let of_stored = stored(&format!("{REFERENCE}\ntarget: {{labels: {{{labels}}}}}\n"));
    assert_eq!(of_stored.target.unwrap().labels.len(), 40);
    let waves = (1..=70).map(|wave| wave.to_string()).collect::<Vec<_>>().join(", ");
    let of_stored = stored(&format!("{REFERENCE}\nrollout: {{order: waves, waves: [{waves}, 100%]}}\n"));
    let language::Order::Waves(waves) = of_stored.rollout.unwrap().order else { panic!("waves") };
    assert_eq!(waves.len(), 71);
    let many: String = (0..40).map(|_| "\n      - name: errorRate\n        threshold: \"<0.02\"").collect();
    let conditions = format!("    metrics_conditions: # all of them{many}");
    let of_stored = stored(&with("    metrics_conditions: # all of them", &conditions));
    assert!(of_stored.stages[0].conditions.len() >= 40);
}

#[test]
fn stored_strategy_is_not_checked_against_cross_field_rules() {
    let of_stored = stored(&format!("{REFERENCE}\nrollout: {{order: parallel, silent_after: 2s}}\n"));
    assert_eq!(of_stored.rollout.unwrap().silent_after, Some(Duration::from_secs(2)));
    let looks = "    analysis: {duration: 200h, interval: 1s, metrics: [{name: a, provider: children, \
        metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH}]}\n    end_action:";
    let of_stored = stored(&with("    end_action:", looks));
    assert_eq!(of_stored.stages[0].analysis.as_ref().unwrap().duration, Some(Duration::from_hours(200)));
}

#[test]
fn what_can_not_be_read_is_refused_also_where_it_is_stored() {
    let broken = [
        with("id: 11", "id: [11"),
        with("threshold: \"<0.02\"", "threshold: \"0.02\""),
        with("trafficPercentage: 95", "trafficPercentage: 90"),
        with("func_name: sieve", "func_name: another"),
        format!("{REFERENCE}\nunheard_of: 1\n"),
    ];
    for text in broken {
        assert!(check_stored(&text).strategy.is_none(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_today_would_be_too_long_goes_on_to_its_end() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("long")).await.ok();
    assert_eq!(world.poll(&child).await.1, "long");
    world.fetch(&child, "long").await.ok();
    world.sql("UPDATE releases SET strategy = strategy || char(10) || '# ' || hex(zeroblob(200000))").await;
    let world = world.restart().await;
    let shown = world.get("/api/v1/releases/long").await.ok().json();
    assert!(shown["strategy"].as_str().unwrap().len() > MAX_STRATEGY_BYTES);
    assert_eq!(shown["state"], "Running", "{shown:#}");
    world.run(&child, "long").await;
    let world = world.restart().await;
    let shown = world.get("/api/v1/releases/long").await.ok().json();
    assert_eq!(
        (&shown["state"], shown["stages"].as_array().unwrap().len()),
        (&"Done".into(), 1),
        "{shown:#}"
    );
    assert_eq!(world.unreadable("releases").await, 0);
    world.stop().await;
}
