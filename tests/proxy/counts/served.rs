use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use call_metrics::Tally;
use call_metrics::{Cursor, Moment, Row};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use proxy::{Limits, Measuring, Proxy, form::TableForm};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::Instant,
};
use traffic::Failure;

use super::acting::{Act, Caller, Saw, acting, sum};
use crate::{
    deadline::DEADLINE,
    world::{read_head, start, wait_until},
};

/// A table of service `a`, with more of it in `more`.
fn table(
    generation: u64,
    split: &str,
    variations: &[(&str, SocketAddr, u16)],
    more: &serde_json::Value,
) -> TableForm {
    let of = |(name, at, _): &(&str, SocketAddr, u16)| json!({"name": name, "version": format!("{name}-1"), "targets": [at.to_string()]});
    let mut service = json!({
        "name": "a",
        "split": split,
        "variations": variations.iter().map(of).collect::<Vec<_>>(),
        "shares": variations.iter().map(|(_, _, share)| share).collect::<Vec<_>>(),
    });
    service.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    serde_json::from_value(json!({"generation": generation, "services": [service]})).unwrap()
}

fn tally<'r>(rows: &'r [Row], select: impl Fn(&&'r Row) -> bool) -> Tally {
    let mut all = Tally::default();
    rows.iter().filter(|row| select(row)).for_each(|row| all.merge(&row.tally));
    all
}

fn of(rows: &[Row], variation: &str) -> Tally {
    tally(rows, |row| row.key.variation == variation)
}

fn assert_adds_up(rows: &[Row]) {
    for Row { key, tally } in rows {
        let outcomes: u64 = tally.outcomes().iter().map(|(_, count)| count).sum();
        assert_eq!(outcomes, tally.calls, "{key:?} {tally:?}");
        assert_eq!(tally.times.count(), tally.succeeded, "{key:?}");
        assert_eq!(tally.client_error_times.count(), tally.client_errors, "{key:?}");
        assert_eq!(tally.seconds.buckets.iter().sum::<u64>(), tally.succeeded + tally.client_errors);
        assert_eq!(tally.seconds.sum_us, tally.times.sum_us() + tally.client_error_times.sum_us());
    }
}

/// What callers saw, and what versions carried out, is what was counted.
fn assert_counted(rows: &[Row], saw: &BTreeMap<Saw, u64>, executed: [u64; 2]) {
    assert_adds_up(rows);
    let (base, new) = (of(rows, "base"), of(rows, "new"));
    let seen = |status: u16, by: &str| saw.get(&Saw::Answer { status, by: by.into() }).copied().unwrap_or(0);
    let half = |by: &str| saw.get(&Saw::Half { by: by.into() }).copied().unwrap_or(0);
    assert_eq!(base.calls + new.calls, saw.values().sum::<u64>());
    assert_eq!(
        [new.succeeded, new.client_errors, new.errors],
        [200, 404, 500].map(|status| seen(status, "new"))
    );
    assert_eq!(new.broken_off, half("new"));
    // What the stable version answered is its own, or a call that the new one failed or that passed it over.
    let by_base: u64 = [200, 404, 500].map(|status| seen(status, "base")).iter().sum();
    let its_own = base.succeeded + base.client_errors + base.errors;
    let own: u64 = saw.iter().filter(|(saw, _)| matches!(saw, Saw::Own { .. })).map(|(_, count)| count).sum();
    let unanswered = base.failed.iter().sum::<u64>() + new.failed.iter().sum::<u64>() - new.repeated;
    assert_eq!(
        by_base + half("base") + own,
        its_own + base.broken_off + unanswered + new.repeated + new.passed_over
    );
    assert_eq!((base.repeated, base.passed_over), (0, 0));
    // Each execution is a call, or a repeat that was counted.
    let sent_again = base.sent_again + new.sent_again;
    assert_eq!(
        executed.iter().sum::<u64>(),
        base.calls + new.calls + new.repeated + sent_again,
        "{base:?} {new:?}"
    );
}

#[derive(Debug, Clone)]
enum Step {
    /// The new version gets this share, under this split; none: it isn't in the table.
    Table {
        split: u8,
        share: Option<u16>,
    },
    Calls {
        act: Act,
        post: bool,
        times: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let share = prop_oneof![Just(Some(0)), Just(Some(5_000)), Just(Some(10_000)), Just(None)];
    prop_oneof![
        1 => (0..3_u8, share).prop_map(|(split, share)| Step::Table { split, share }),
        3 => (prop::sample::select(Act::ALL.to_vec()), any::<bool>(), 1..6_u8)
            .prop_map(|(act, post, times)| Step::Calls { act, post, times }),
    ]
}

#[test]
fn whatever_tables_come_and_go_the_counts_are_what_callers_and_versions_saw() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { failure_persistence: None, ..crate::cases::cases(40) };
    let result = TestRunner::new(config).run(&prop::collection::vec(step(), 1..25), |steps| {
        runtime.block_on(one_case(&steps));
        Ok(())
    });
    result.unwrap();
}

async fn one_case(steps: &[Step]) {
    let running = start(Limits::default());
    let ((base, by_base), (new, by_new)) = (acting(None).await, acting(None).await);
    let (mut generation, mut split) = (1, 0);
    let apply = async |generation: u64, split: u8, share: Option<u16>| {
        let base_share = 10_000 - share.unwrap_or(0);
        let all = [("base", base, base_share), ("new", new, share.unwrap_or(0))];
        let named = if share.is_some() { &all[..] } else { &all[..1] };
        running.proxy.apply(&table(generation, &split.to_string(), named, &json!({}))).await.unwrap();
    };
    apply(generation, split, None).await;
    let mut caller = Caller::new(running.at);
    let (mut saw, mut by_split) = (BTreeMap::new(), BTreeMap::<String, u64>::new());
    for step in steps {
        match *step {
            Step::Table { split: next, share } => {
                (generation, split) = (generation + 1, next);
                apply(generation, split, share).await;
            }
            Step::Calls { act, post, times } => {
                for _ in 0..times {
                    let what = caller.call(if post { "POST" } else { "GET" }, act, "").await;
                    *saw.entry(what).or_default() += 1;
                    *by_split.entry(split.to_string()).or_default() += 1;
                }
            }
        }
    }
    let rows = running.proxy.gather().await;
    assert_counted(&rows, &saw, [sum(&by_base), sum(&by_new)]);
    let mut counted = BTreeMap::<String, u64>::new();
    for row in &rows {
        *counted.entry(row.key.split.clone()).or_default() += row.tally.calls;
    }
    assert_eq!(counted, by_split);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_call_on_while_tables_change_are_all_counted() {
    let running = start(Limits::default());
    let ((base, by_base), (new, by_new)) = (acting(None).await, acting(None).await);
    let apply = async |generation: u64| {
        let share = [0, 10_000, 5_000][generation as usize % 3];
        let all = [("base", base, 10_000 - share), ("new", new, share)];
        let named = if share == 0 { &all[..1] } else { &all[..] };
        let split = (generation % 2).to_string();
        running.proxy.apply(&table(generation, &split, named, &json!({}))).await.unwrap();
    };
    apply(1).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = (0..4)
        .map(|at| {
            let (is_over, made) = (Arc::clone(&is_over), Arc::clone(&made));
            let mut caller = Caller::new(running.at);
            tokio::spawn(async move {
                let mut saw = BTreeMap::<Saw, u64>::new();
                for act in Act::ALL.into_iter().cycle().skip(at) {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    *saw.entry(caller.call("GET", act, "").await).or_default() += 1;
                    made.fetch_add(1, Ordering::Relaxed);
                }
                saw
            })
        })
        .collect();
    for generation in 2..60 {
        apply(generation).await;
        let so_far = made.load(Ordering::Relaxed);
        wait_until("calls go on", async || made.load(Ordering::Relaxed) >= so_far + 8).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut saw = BTreeMap::new();
    for caller in callers {
        caller.await.unwrap().into_iter().for_each(|(what, count)| *saw.entry(what).or_default() += count);
    }
    let rows = running.proxy.gather().await;
    assert_counted(&rows, &saw, [sum(&by_base), sum(&by_new)]);
}

#[tokio::test]
async fn in_flight_call_of_old_table_counts_and_releases_version() {
    let running = start(Limits::default());
    let (open, gate) = watch::channel(false);
    let ((base, _), (new, by_new)) = (acting(None).await, acting(Some(gate)).await);
    running
        .proxy
        .apply(&table(1, "one", &[("base", base, 0), ("new", new, 10_000)], &json!({})))
        .await
        .unwrap();
    let at = running.at;
    let call = tokio::spawn(async move { Caller::new(at).call("GET", Act::Ok, "").await });
    wait_until("it is in flight", async || sum(&by_new) == 1).await;
    running.proxy.apply(&table(2, "two", &[("base", base, 10_000)], &json!({}))).await.unwrap();
    assert!(running.proxy.gather().await.is_empty());
    assert_eq!(running.proxy.leaving().len(), 1);
    open.send(true).unwrap();
    assert_eq!(call.await.unwrap(), Saw::Answer { status: 200, by: "new".into() });
    wait_until("it has left", async || running.proxy.leaving().is_empty()).await;
    let rows = running.proxy.gather().await;
    let [Row { key, tally }] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((&*key.split, &*key.version, tally.calls, tally.succeeded), ("one", "new-1", 1, 1));
    assert_eq!(*key.shares, [0, 10_000]);
}

#[tokio::test]
async fn counts_under_other_shares_are_apart_even_where_the_split_has_the_same_name() {
    let running = start(Limits::default());
    let (base, _) = acting(None).await;
    let (new, _) = acting(None).await;
    let mut caller = Caller::new(running.at);
    for (generation, share) in [(1, 10_000), (2, 0), (3, 10_000)] {
        let named = [("base", base, 10_000 - share), ("new", new, share)];
        running.proxy.apply(&table(generation, "", &named, &json!({}))).await.unwrap();
        caller.call("GET", Act::Ok, "").await;
    }
    let rows = running.proxy.gather().await;
    let counted: Vec<_> =
        rows.iter().map(|row| (&*row.key.variation, row.key.shares[1], row.tally.calls)).collect();
    assert_eq!(counted, [("new", 10_000, 2), ("base", 0, 1)]);
}

#[tokio::test]
async fn calls_by_header_are_apart() {
    let running = start(Limits::default());
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    let rule = json!({"header": {"name": "X-Choice", "values": {"f2": "new"}}});
    running.proxy.apply(&table(1, "s", &[("base", base, 10_000), ("new", new, 0)], &rule)).await.unwrap();
    let mut caller = Caller::new(running.at);
    for _ in 0..3 {
        caller.call("GET", Act::Ok, "").await;
    }
    for act in [Act::Ok, Act::Broken] {
        caller.call("GET", act, "X-Choice: f2\r\n").await;
    }
    let rows = running.proxy.gather().await;
    assert_adds_up(&rows);
    assert_eq!(tally(&rows, |row| !row.key.by_header).calls, 3);
    let by_header = tally(&rows, |row| row.key.by_header);
    assert_eq!((of(&rows, "new").calls, by_header.calls), (2, 2));
    assert_eq!((by_header.succeeded, by_header.repeated, by_header.repeats_failed), (1, 1, 1));
    assert_eq!(by_header.failed[Failure::Status as usize], 1);
}

#[tokio::test]
async fn keyed_calls_are_counted_by_key_group_independent_of_share() {
    let running = start(Limits::default());
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    let mut caller = Caller::new(running.at);
    let mut expected = [0; 64];
    for (generation, share) in [(1, 0), (2, 5_000), (3, 10_000)] {
        let sticky = json!({"sticky": {"header": "X-User"}});
        let named = [("base", base, 10_000 - share), ("new", new, share)];
        running.proxy.apply(&table(generation, "s", &named, &sticky)).await.unwrap();
        for user in 0..40 {
            caller.call("GET", Act::NotFound, &format!("X-User: u{user}\r\n")).await;
            expected[usize::from(traffic::group_of_key(format!("u{user}").as_bytes()))] += 1;
        }
        caller.call("GET", Act::Ok, "").await;
    }
    caller.call("GET", Act::Die, "X-User: u0\r\n").await;
    let group = usize::from(traffic::group_of_key(b"u0"));
    expected[group] += 1;
    let rows = running.proxy.gather().await;
    let all = tally(&rows, |_| true);
    let groups = all.groups.unwrap();
    // Who sends no key is a user of one call, of any group.
    assert_eq!((all.calls, groups.calls.iter().sum::<u64>()), (124, 124));
    assert!(groups.calls.iter().zip(expected).all(|(calls, keyed)| *calls >= keyed));
    let times: Vec<u64> = groups.times.iter().map(call_metrics::Times::count).collect();
    assert!(
        times.iter().zip(groups.calls).zip(groups.failures).all(|((n, calls), failed)| *n == calls - failed)
    );
    assert_eq!((groups.failures[group], groups.failures.iter().sum::<u64>()), (1, 1));
}

#[tokio::test]
async fn what_was_fetched_for_somebody_who_left_is_there_for_the_next_one() {
    let running = start(Limits::default());
    let (base, _) = acting(None).await;
    running.proxy.apply(&table(1, "s", &[("base", base, 10_000)], &json!({}))).await.unwrap();
    let mut caller = Caller::new(running.at);
    for _ in 0..50 {
        caller.call("GET", Act::Ok, "").await;
        let mut gathering = Box::pin(running.proxy.gather());
        let asked = futures_util::poll!(&mut gathering);
        drop((gathering, asked));
    }
    assert_eq!(of(&running.proxy.gather().await, "base").calls, 50);
}

#[tokio::test]
async fn interval_counts_are_read_once_including_drained_calls() {
    let measuring = Measuring { interval_seconds: 1, ..Measuring::default() };
    let proxy = Proxy::start_measuring(2, Limits::default(), &measuring).unwrap();
    let at = proxy.listen(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let (base, _) = acting(None).await;
    proxy.apply(&table(1, "s", &[("base", base, 10_000)], &json!({}))).await.unwrap();
    let mut caller = Caller::new(at);
    let (mut cursor, mut made, mut read, mut intervals) = (Cursor::default(), 0, 0, Vec::new());
    while intervals.len() < 3 {
        caller.call("GET", Act::Ok, "").await;
        made += 1;
        let reading = proxy.counts_since(cursor).await;
        let open: u64 = reading.open.iter().flat_map(|one| &one.rows).map(|row| row.tally.calls).sum();
        for interval in &reading.closed {
            read += interval.rows.iter().map(|row| row.tally.calls).sum::<u64>();
            intervals.push((interval.from, interval.to));
        }
        assert_eq!(read + open, made);
        cursor = reading.next;
    }
    assert!(intervals.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{intervals:?}");
    drop(caller);
    assert_eq!(proxy.drain(DEADLINE).await, 0);
    let reading = proxy.counts_since(cursor).await;
    let rest =
        reading.closed.iter().map(|interval| &interval.rows).chain(reading.open.iter().map(|one| &one.rows));
    let rest: u64 = rest.flatten().map(|row| row.tally.calls).sum();
    assert_eq!(read + rest, made);
}

#[tokio::test]
async fn a_caller_who_takes_an_answer_slowly_does_not_make_its_version_slow() {
    const LENGTH: usize = 32 * 1024 * 1024;
    let running = start(Limits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = listener.local_addr().unwrap();
    let version = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; LENGTH]).await.unwrap();
        read_head(&mut stream).await;
    });
    running.proxy.apply(&table(1, "s", &[("base", base, 10_000)], &json!({}))).await.unwrap();
    let began = Instant::now();
    let mut caller = TcpStream::connect(running.at).await.unwrap();
    caller.write_all(b"GET /a HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    read_head(&mut caller).await.unwrap();
    let reading = running.proxy.counts_since(Cursor::default()).await;
    let going_on: Vec<_> = reading.in_flight.iter().map(|of| (&*of.variation, of.calls)).collect();
    assert_eq!((going_on, reading.open.len()), (vec![("base", 1)], 0));
    let pause = Duration::from_secs(3);
    tokio::time::sleep(pause).await;
    let mut body = vec![0; LENGTH];
    caller.read_exact(&mut body).await.unwrap();
    let lasted = began.elapsed();
    let counted = of(&running.proxy.gather().await, "base");
    assert_eq!(counted.succeeded, 1);
    let took = Duration::from_micros(counted.times.sum_us());
    // Some of the pause is over before the answer fills all the room that there is for it.
    assert!(took + pause / 6 < lasted, "{took:?} of {lasted:?}");
    version.abort();
}

#[tokio::test]
async fn a_call_is_counted_in_the_interval_in_which_it_ended() {
    /// Readings of the wall's clock are whole milliseconds.
    const SLACK_MS: i64 = 20;
    let measuring = Measuring { interval_seconds: 1, ..Measuring::default() };
    let proxy = Proxy::start_measuring(2, Limits::default(), &measuring).unwrap();
    let at = proxy.listen(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let (base, _) = acting(None).await;
    proxy.apply(&table(1, "s", &[("base", base, 10_000)], &json!({}))).await.unwrap();
    let mut caller = Caller::new(at);
    let mut moments = Vec::new();
    let closed = async || proxy.counts_since(Cursor::default()).await.closed;
    // Nobody asks meanwhile, so that it isn't the asking that puts calls into intervals.
    let mut until = None;
    while moments.len() < 100 || until.is_none_or(|until| Instant::now() < until) {
        moments.push(Moment::now().wall_ms);
        caller.call("GET", Act::Ok, "").await;
        // So the last call ends in another interval than the first one.
        until.get_or_insert_with(|| Instant::now() + Duration::from_millis(2_500));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    wait_until("all intervals are closed", async || {
        let counted =
            closed().await.iter().flat_map(|one| one.rows.clone()).map(|row| row.tally.calls).sum::<u64>();
        counted == moments.len() as u64
    })
    .await;
    moments.extend([Moment::now().wall_ms; 2]);
    // A call has surely been counted once the next one of its connection is answered.
    let calls: Vec<_> = moments.windows(3).map(|of| (of[0], of[2])).collect();
    let intervals = closed().await;
    assert!(intervals.len() >= 2, "{}", intervals.len());
    let mut sure = 0;
    for interval in intervals {
        let (began, ended) = (interval.began_ms, interval.began_ms + 1_000);
        let surely =
            calls.iter().filter(|(before, after)| *before >= began + SLACK_MS && *after <= ended - SLACK_MS);
        let perhaps =
            calls.iter().filter(|(before, after)| *after >= began - SLACK_MS && *before <= ended + SLACK_MS);
        let counted = interval.rows[0].tally.calls as usize;
        let (least, most) = (surely.count(), perhaps.count());
        assert!((least..=most).contains(&counted), "{counted} of {least} to {most}");
        sure += least;
    }
    assert!(sure > 0);
}
