//! Which variation a call gets.

use std::collections::HashMap;

use traffic::{
    BUCKETS, Bucket, HashFunction, Table,
    desired::{ServiceSpec, StickyTo},
};

use super::{Real, comes_true, done, state::with_shares};
use crate::world::{
    backend::Backend,
    caller::Caller,
    wants::{COOKIE, HEADER, RULE, SALT, rule, service, shares, wanted},
};

/// How many users there are, and how many of them call.
const USERS: u32 = 100_000;
const CALLERS: usize = 2_000;

/// Users spread over all that there are, among them the ones with the lowest and the highest buckets.
fn users(function: HashFunction) -> Vec<(String, Bucket)> {
    let bucket = |user: &str| Bucket::of_key(function, SALT.as_bytes(), user.as_bytes());
    let mut all: Vec<(String, Bucket)> = (0..USERS)
        .map(|user| format!("user-{user}"))
        .map(|user| {
            let bucket = bucket(&user);
            (user, bucket)
        })
        .collect();
    all.sort_by_key(|(_, bucket)| bucket.index());
    all
}

fn callers(users: &[(String, Bucket)]) -> Vec<(String, Bucket)> {
    let ends = users[..20].iter().chain(&users[users.len() - 20..]);
    users.iter().step_by(users.len() / CALLERS).chain(ends).cloned().collect()
}

/// Which variation each of them gets from the running router.
async fn asked(
    caller: &mut Caller,
    callers: &[(String, Bucket)],
    field: impl Fn(&str) -> (&'static str, String),
) -> Vec<String> {
    let mut got = Vec::new();
    for (user, _) in callers {
        let (name, value) = field(user);
        got.push(caller.variation(&[(name, &value)]).await);
    }
    got
}

fn names(spec: &ServiceSpec, table: &Table, callers: &[(String, Bucket)]) -> Vec<String> {
    let name = |bucket| spec.variations[table.variation(bucket).index()].name.to_string();
    callers.iter().map(|(_, bucket)| name(*bucket)).collect()
}

fn of_cookie(user: &str) -> (&'static str, String) {
    ("Cookie", format!("other=1; {COOKIE}={user}; more=2"))
}

/// Who moves is exactly who must, by the tables and by the calls.
fn check_moves(users: &[(String, Bucket)], before: &Table, after: &Table) {
    let differ = |a: u16, b: u16| usize::from(a.abs_diff(b));
    let shares = before.hundredths().into_iter().zip(after.hundredths());
    let must = shares.map(|(a, b)| differ(a, b)).sum::<usize>() / 2;
    assert_eq!(usize::from(before.moved_buckets(after)), must);
    let moved =
        users.iter().filter(|(_, bucket)| before.variation(*bucket) != after.variation(*bucket)).count();
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of as f64;
    let off = percent(moved, users.len()) - percent(must, BUCKETS.into());
    assert!(off.abs() < 0.3, "{moved} users moved for {must} buckets");
}

pub async fn a_change_of_shares_moves_exactly_the_users_that_must<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[9_500, 500]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let users = users(R::HASH);
    let callers = callers(&users);
    let mut caller = Caller::new(real.at(port));
    for (generation, share) in (2..).zip([1_000, 5_000, 1_000, 0]) {
        let before = spec.table.clone();
        assert_eq!(asked(&mut caller, &callers, of_cookie).await, names(&spec, &before, &callers));
        spec.table = before.with_shares(&shares(&[10_000 - share, share])).unwrap();
        check_moves(&users, &before, &spec.table);
        let applied = done(&router, &wanted(generation, &[&spec])).await;
        assert!(!applied.was_reloaded, "shares alone reload nothing");
    }
    assert_eq!(asked(&mut caller, &callers, of_cookie).await, vec!["A"; callers.len()]);
}

pub async fn users_are_known_by_a_header<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[6_000, 4_000]);
    spec.hash = R::HASH;
    spec.sticky = Some(StickyTo::Header(HEADER.parse().unwrap()));
    done(&router, &wanted(1, &[&spec])).await;
    let callers = callers(&users(R::HASH));
    let mut caller = Caller::new(real.at(port));
    let got = asked(&mut caller, &callers, |user| (HEADER, user.to_owned())).await;
    assert_eq!(got, names(&spec, &spec.table, &callers));
    // Who sends none is drawn anew with each call.
    check_drawn(&mut caller, 4_000).await;
}

pub async fn users_are_known_by_their_address<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[6_000, 4_000]);
    spec.hash = R::HASH;
    spec.sticky = Some(StickyTo::Address);
    done(&router, &wanted(1, &[&spec])).await;
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    for user in 0..2_000_u16 {
        let [high, low] = user.to_be_bytes();
        let from = std::net::IpAddr::from([127, 1 + high, low, 77]);
        let bucket = Bucket::of_key(R::HASH, SALT.as_bytes(), from.to_string().as_bytes());
        expected.push(spec.variations[spec.table.variation(bucket).index()].name.to_string());
        got.push(Caller::from_address(real.at(port), from).variation(&[]).await);
    }
    assert_eq!(got, expected);
}

pub async fn who_has_no_cookie_is_given_one_that_stays_with_a_variation<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    // A name that no variable of a configuration could have.
    for (generation, cookie) in [(1, COOKIE), (2, "cm-of-the-Shop")] {
        let port = real.port();
        let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
        spec.hash = R::HASH;
        spec.sticky = Some(StickyTo::Cookie(cookie.parse().unwrap()));
        done(&router, &wanted(generation, &[&spec])).await;
        let mut caller = Caller::new(real.at(port));
        let mut keys = HashMap::new();
        for _ in 0..100 {
            let answer = caller.get("/", &[]).await;
            let variation = String::from_utf8(answer.body.clone()).unwrap();
            let given = answer.field("set-cookie").expect("a cookie is given").to_owned();
            assert!(given.contains("; path=/") && given.contains("; httponly"), "{given}");
            let (name, rest) = given.split_once('=').unwrap();
            assert_eq!(name, cookie.to_lowercase());
            let key = rest.split(';').next().unwrap();
            assert!(key.len() >= 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{given}");
            let bucket = Bucket::of_key(R::HASH, SALT.as_bytes(), key.as_bytes());
            let says = spec.variations[spec.table.variation(bucket).index()].name.as_str();
            assert_eq!(variation, says, "it gets at once what its key says");
            let with_cookie = format!("{cookie}={key}");
            let again = caller.get("/", &[("Cookie", &with_cookie)]).await;
            assert_eq!(again.body, variation.as_bytes());
            assert_eq!(again.field("set-cookie"), None, "who has one keeps it");
            *keys.entry(variation).or_insert(0) += 1;
        }
        // Less than once in a million million.
        assert!(keys.len() == 2 && keys.values().all(|&count| count > 15), "{keys:?}");
    }
}

/// That so many hundredths of calls without a key get B: 400 of them, and 7 standard deviations.
async fn check_drawn(caller: &mut Caller, hundredths: u16) {
    let calls = 400;
    let mut of_b = 0;
    for _ in 0..calls {
        let answer = caller.get("/", &[]).await;
        assert_eq!(answer.field("set-cookie"), None);
        of_b += i32::from(answer.body == b"B");
    }
    let share = f64::from(hundredths) / 10_000.0;
    let off = f64::from(of_b) - share * f64::from(calls);
    assert!(off.abs() < 7.0 * (share * (1.0 - share) * f64::from(calls)).sqrt(), "{of_b} of {calls}");
}

pub async fn calls_without_a_key_are_drawn_each_by_itself<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[7_000, 3_000]);
    spec.hash = R::HASH;
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    check_drawn(&mut Caller::new(real.at(port)), 3_000).await;
}

pub async fn a_header_asks_for_a_variation<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B", "C"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[10_000, 0, 0]);
    spec.hash = R::HASH;
    let odd = [
        "\"",
        "a\"; return 500; #",
        "$host",
        "${x",
        "b;{}",
        "\\",
        "~.*",
        "~*b",
        "default",
        "it's",
        "a  b",
        "%5B",
        "-m reg",
    ];
    let values: Vec<(&str, u8)> =
        [("B", 1), ("C", 2), ("b", 2)].into_iter().chain(odd.map(|value| (value, 1))).collect();
    spec.rule = Some(rule(&values));
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    for (value, which) in values {
        let answer = caller.get("/", &[(RULE, value)]).await;
        assert_eq!(answer.body, spec.variations[usize::from(which)].name.as_str().as_bytes(), "{value:?}");
        assert_eq!(answer.field("set-cookie"), None, "the call isn't part of the split");
    }
    for value in ["", "c", "BB", "B ,", "a", "host", "x", "hidden", "DEFAULT", "$hos"] {
        assert_eq!(caller.variation(&[(RULE, value)]).await, "A", "{value:?}");
    }
}

pub async fn a_rollback_reaches_who_asks_by_header_in_the_same_step<R: Real>() {
    let real = R::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    spec.rule = Some(rule(&[("B", 1), ("A", 0)]));
    let mut back = with_shares(&spec, &[10_000, 0]);
    back.rule = Some(rule(&[("B", 0), ("A", 0)]));
    let mut generation = 0;
    let mut steps = 0;
    loop {
        generation += 2;
        let router = real.open();
        done(&router, &wanted(generation, &[&spec])).await;
        drop(router);
        let mut caller = Caller::new(real.at(port));
        let mut user = 0;
        let cookie = loop {
            let cookie = format!("{COOKIE}=user{user}");
            if caller.variation(&[("Cookie", &cookie)]).await == "B" {
                break cookie;
            }
            user += 1;
        };
        assert_eq!(caller.variation(&[(RULE, "B")]).await, "B");
        let Some(dying) = real.open_dying(steps) else { return };
        let applied = dying.apply(&wanted(generation + 1, &[&back])).await;
        drop(dying);
        // Wherever it was interrupted, who asks and who has a share are led alike.
        let by_share = caller.variation(&[("Cookie", &cookie)]).await;
        assert_eq!(caller.variation(&[(RULE, "B")]).await, by_share, "killed after {steps} steps");
        if let Ok(applied) = applied {
            assert!(!applied.was_reloaded);
            assert_eq!(by_share, "A");
            break;
        }
        steps += 1 + steps / 8;
    }
    // And who asks is let through again with the next release.
    let router = real.open();
    comes_true(&router, &wanted(generation + 1, &[&back])).await;
    done(&router, &wanted(generation + 2, &[&with_shares(&spec, &[10_000, 0])])).await;
    let mut caller = Caller::new(real.at(port));
    assert_eq!(
        (caller.variation(&[(RULE, "B")]).await, caller.variation(&[]).await),
        ("B".into(), "A".into())
    );
}

pub async fn three_variations_move_as_the_table_says<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B", "C"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[8_500, 500, 1_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let users = users(R::HASH);
    let callers = callers(&users);
    let mut caller = Caller::new(real.at(port));
    let steps = [[8_000, 1_000, 1_000], [2_000, 1_000, 7_000], [2_000, 7_000, 1_000], [9_000, 0, 1_000]];
    for (generation, step) in (2..).zip(steps) {
        let before = spec.table.clone();
        spec.table = before.with_shares(&shares(&step)).unwrap();
        check_moves(&users, &before, &spec.table);
        let applied = done(&router, &wanted(generation, &[&spec])).await;
        assert!(!applied.was_reloaded, "shares alone reload nothing");
        assert_eq!(asked(&mut caller, &callers, of_cookie).await, names(&spec, &spec.table, &callers));
    }
}

pub async fn services_whose_names_are_alike_are_told_apart<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let all = ["shop", "Shop", "SHOP", "shop.a", "shop-a", "shop_a", "0", "default", "server", "unix"];
    let backends = Backend::start_all(["A", "a", "a.b", "a-b", "a_b"]).await;
    let specs = all.map(|name| {
        let mut spec = service(name, real.port(), &backends, &[0, 10_000, 0, 0, 0]);
        spec.hash = R::HASH;
        spec
    });
    let mut specs = specs.to_vec();
    for (at, spec) in specs.iter_mut().enumerate() {
        let mut of_five = [0; 5];
        of_five[at % 5] = 10_000;
        spec.table = Table::new(&shares(&of_five));
    }
    done(&router, &wanted(1, &specs.iter().collect::<Vec<_>>())).await;
    for (at, spec) in specs.iter().enumerate() {
        let got = Caller::new(real.at(spec.listens[0].port)).variation(&[]).await;
        assert_eq!(got, backends[at % 5].name, "{}", spec.name);
    }
}

pub async fn where_a_call_comes_from_is_passed_on<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let from = std::net::IpAddr::from([127, 9, 8, 7]);
    let mut caller = Caller::from_address(real.at(port), from);
    let mut passed = async |field: &str, sent: &[(&str, &str)]| {
        let answer = caller.get(&format!("/field/{field}"), sent).await;
        String::from_utf8(answer.body).unwrap()
    };
    assert_eq!(passed("x-forwarded-for", &[]).await, "127.9.8.7");
    let before = passed("x-forwarded-for", &[("X-Forwarded-For", "10.1.2.3")]).await;
    assert_eq!(before.replace(' ', ""), "10.1.2.3,127.9.8.7");
    assert_eq!(passed("x-forwarded-proto", &[]).await, "http");
    assert_eq!(passed("host", &[]).await, "here");
    assert_eq!(passed("x-anything", &[("X-Anything", "of mine")]).await, "of mine");
}
