//! Calls of a Traefik, counted from its metrics.

use std::sync::Arc;

use call_metrics::{Cursor, Tally};
use router::{
    Router,
    measure::{Counters, Measure},
    traefik::{
        Traefik,
        config::{Provider, counters},
    },
};

use super::RealTraefik;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        wants::{RULE, number, rule, service, wanted},
    },
};

/// What was counted of a variation in a split.
fn counted(measure: &Measure, split: &str, variation: &str, by_header: bool) -> Tally {
    let mut sum = Tally::default();
    for row in measure.since(Cursor::default()).closed.iter().flat_map(|interval| interval.rows.clone()) {
        if (&*row.key.split, &*row.key.variation, row.key.by_header) == (split, variation, by_header) {
            sum.merge(&row.tally);
        }
    }
    sum
}

async fn until_intervals_end(measure: &Measure, intervals: u64) {
    let end = measure.since(Cursor::default()).next.interval + intervals;
    wait_until("intervals end", async || measure.since(Cursor::default()).next.interval >= end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_by_variation_and_how_they_ended_over_its_restart() {
    let mut real = RealTraefik::start().await;
    let measure = Measure::asking(1);
    let router: Arc<dyn Router> =
        Arc::new(Traefik::open(real.settings()).unwrap().measured(Arc::clone(&measure)));
    let _counting = measure.count(&router);
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.sticky = None;
    spec.rule = Some(rule(&[("B", 1)]));
    measure.announce(number(1), [("checkout".to_owned(), "half".to_owned())].into());
    done(&router, &wanted(1, &[&spec])).await;
    until_intervals_end(&measure, 2).await;

    let mut caller = Caller::new(real.at(port));
    for _ in 0..20 {
        caller.get("/", &[]).await;
    }
    for path in ["/status/404", "/status/404", "/status/503", "/status/503", "/status/500", "/status/500"] {
        let _ = caller.try_get(path, &[]).await;
    }
    for _ in 0..3 {
        assert_eq!(caller.variation(&[(RULE, "B")]).await, "B");
    }
    wait_until("all are counted", async || measure.reception().calls == 29).await;
    for variation in ["A", "B"] {
        let tally = counted(&measure, "half", variation, false);
        let ended = (tally.calls, tally.succeeded, tally.client_errors, tally.errors);
        assert_eq!(ended, (13, 10, 1, 2), "{variation}");
        assert!(tally.times.is_empty(), "nobody has measured any");
    }
    assert_eq!(counted(&measure, "half", "B", true).calls, 3);

    // What it counted until it was killed nobody can tell; what it counts from then on is counted.
    real.start_again().await;
    wait_until("that is seen", async || measure.reception().not_measured == 1).await;
    for _ in 0..10 {
        caller = Caller::new(real.at(port));
        caller.get("/", &[]).await;
    }
    wait_until("they are counted", async || measure.reception().calls == 39).await;
    assert_eq!(counted(&measure, "half", "A", false).calls, 18);

    // A change begins another split.
    measure.announce(number(2), [("checkout".to_owned(), "back".to_owned())].into());
    done(&router, &wanted(2, &[&with_shares(&spec, &[10_000, 0])])).await;
    until_intervals_end(&measure, 2).await;
    for _ in 0..4 {
        caller.get("/", &[]).await;
    }
    wait_until("they are counted", async || measure.reception().calls == 43).await;
    assert_eq!(
        (counted(&measure, "back", "A", false).calls, counted(&measure, "back", "B", false).calls),
        (4, 0)
    );
    assert_eq!(measure.uncounted(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_without_metrics_is_told_so() {
    let real = RealTraefik::start().await;
    let mut settings = real.settings();
    settings.metrics = Some(settings.api.join("nowhere").unwrap());
    let Counters::Not(why) = Traefik::open(settings).unwrap().counters().await.unwrap() else { panic!() };
    let why = why.split_once("/nowhere ").unwrap().1;
    assert_eq!(
        why,
        "answers with 404 Not Found: its metrics.prometheus is to be set, or traefik.metrics to name its address"
    );
}

#[test]
fn rows_of_others_and_of_other_things_are_passed_over() {
    let text = "# TYPE traefik_service_requests_total counter\n\
        process_start_time_seconds 1.79584e+09\n\
        traefik_service_requests_total{code=\"200\",method=\"GET\",protocol=\"http\",service=\"choirmaster:a.b:B@file\"} 1.2e+06\n\
        traefik_service_requests_total{code=\"200\",method=\"PUT\",protocol=\"http\",service=\"choirmaster:a.b:B@file\"} 7\n\
        traefik_service_requests_total{code=\"499\",method=\"GET\",protocol=\"http\",service=\"choirmaster:a.b:B:asked@file\"} 2\n\
        traefik_service_requests_total{code=\"200\",method=\"GET\",protocol=\"http\",service=\"shop@docker\"} 5\n\
        traefik_service_requests_total{code=\"200\",method=\"GET\",protocol=\"http\",service=\"choirmaster:a@docker\"} 5\n\
        traefik_service_requests_total{code=\"200\",method=\"GET\",protocol=\"http\",service=\"choirmaster:a:A@file\"} -5\n\
        traefik_service_requests_total{code=\"\"} nothing\n\
        traefik_router_requests_total{code=\"200\",service=\"choirmaster:a.b:B@file\"} 9\n";
    insta::assert_debug_snapshot!(counters(text, Provider::File), @r#"
    Counted {
        of: {
            CounterKey {
                service: "a.b",
                variation: "B",
                by_header: false,
            }: Counts {
                succeeded: 1200007,
                client_errors: 0,
                errors: 0,
                callers_gone: 0,
                upgraded: 0,
            },
            CounterKey {
                service: "a.b",
                variation: "B",
                by_header: true,
            }: Counts {
                succeeded: 0,
                client_errors: 0,
                errors: 0,
                callers_gone: 2,
                upgraded: 0,
            },
        },
        is_whole: true,
        life: 4745319106889121792,
    }
    "#);
    assert_ne!(
        counters(text, Provider::File),
        counters(&text.replace("1.79584e", "1.79585e"), Provider::File),
        "it began anew"
    );
}
