//! Users and their buckets, by `HAProxy`'s own functions.

use std::fmt::Write as _;

use traffic::{Bucket, HashFunction};

use super::RealHaproxy;
use crate::{
    conformance::Real as _,
    world::{caller::Caller, place::free_port, wants::service},
};

/// So many keys are asked for in one call.
const KEYS: usize = 50;
const CALLS: usize = 2_000;
const SALTS: [&str; 2] = ["release-7", "a-.A"];

/// What our section does with a key, as it is written there, of a service with this salt.
fn expression(real: &RealHaproxy, salt: &str) -> String {
    let mut spec = service("checkout", 8080, &[], &[10_000]);
    spec.hash = HashFunction::Xxh32;
    spec.salt = salt.parse().unwrap();
    let nowhere = "127.0.0.1:9".parse().unwrap();
    spec.variations = vec![traffic::desired::Variation {
        name: "A".parse().unwrap(),
        targets: vec![nowhere],
        health: None,
    }];
    let wanted = crate::world::wants::wanted(1, &[&spec]);
    let text = router::haproxy::config::section(&wanted, &real.settings().frame).unwrap().text;
    let (_, rest) = text.split_once("set-var(txn.cm_to) var(txn.cm_key),").unwrap();
    rest.split_once(",map_str(").unwrap().0.to_owned()
}

/// Keys of all lengths, of what cookies may hold and of what they may not.
fn key(number: usize) -> String {
    let kind = ["", "user-", "0123456789abcdef", "ä-", "k=\"v\";%[src],#", "a very long one "][number % 6];
    kind.repeat(1 + number % 7) + &number.to_string()
}

/// 100,000 keys with each of two salts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_gives_each_key_the_bucket_that_we_give_it() {
    let mut real = RealHaproxy::start().await;
    let ports = [free_port(), free_port()];
    let mut more = String::new();
    for (salt, port) in SALTS.iter().zip(ports) {
        let hashed = expression(&real, salt);
        assert!(hashed.starts_with("xxh32(") && hashed.ends_with("),mod(10000)"), "{hashed}");
        let all: Vec<String> = (0..KEYS).map(|at| format!("%[req.fhdr(k{at},1),{hashed}]")).collect();
        write!(
            more,
            "frontend buckets-{port}\n    mode http\n    bind 127.0.0.1:{port}\n    http-request return status 200 \
             content-type text/plain lf-string \"{}\"\n",
            all.join(" ")
        )
        .unwrap();
    }
    real.write_operators(&more);
    real.start_again().await;
    for (salt, port) in SALTS.iter().zip(ports) {
        let mut caller = Caller::new(real.at(port));
        for call in 0..CALLS {
            let keys: Vec<String> = (0..KEYS).map(|at| key(call * KEYS + at)).collect();
            let names: Vec<String> = (0..KEYS).map(|at| format!("k{at}")).collect();
            let fields: Vec<(&str, &str)> =
                names.iter().map(String::as_str).zip(keys.iter().map(String::as_str)).collect();
            let answer = caller.get("/", &fields).await;
            let said = String::from_utf8(answer.body).unwrap();
            let bucket =
                |key: &String| Bucket::of_key(HashFunction::Xxh32, salt.as_bytes(), key.trim().as_bytes());
            let ours: Vec<String> = keys.iter().map(|key| bucket(key).index().to_string()).collect();
            assert_eq!(said.split(' ').collect::<Vec<_>>(), ours, "{keys:?}");
        }
    }
}
