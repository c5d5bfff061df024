//! The stream of events: cut off, resumed, compared with the audit trail.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::world::{STAGE, World, strategy};

/// One event: its id, its name, its data.
type Event = (String, String, Value);

/// A stream that is read event by event.
struct Listener {
    stream: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
    last_id: String,
}

impl Listener {
    async fn open(world: &World, query: &str, last: Option<&str>) -> Self {
        let mut request = world.request("GET", &format!("/events{query}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let answer: Response = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut listener =
            Self { stream: answer.bytes_stream().boxed(), text: String::new(), last_id: String::new() };
        // The first block has an id and no data.
        assert_eq!(listener.block().await.unwrap().2, Value::Null);
        listener
    }

    /// The next block; `None` at the end.
    async fn block(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                    line.unwrap_or_default().to_owned()
                };
                if block.starts_with(':') {
                    continue;
                }
                self.last_id = field("id");
                let data = serde_json::from_str(&field("data")).unwrap_or_default();
                return Some((self.last_id.clone(), field("event"), data));
            }
            let more = timeout(Duration::from_secs(20), self.stream.next()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&more?.unwrap()).unwrap());
        }
    }

    async fn take(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.block().await.expect("an event"));
        }
        events
    }
}

async fn trail(world: &World, query: &str) -> Vec<Value> {
    world.get(&format!("/api/v1/audit?limit=1000{query}")).await.ok().json()["items"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_stream_that_is_cut_off_goes_on_where_it_was() {
    let world = World::start().await;
    let mut live = Listener::open(&world, "", None).await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    let before = trail(&world, "").await.len();
    let mut seen = live.take(before - 1).await;
    let last = live.last_id.clone();
    drop(live);
    // Nobody listens to this.
    world.run(&child, "a").await;
    let mut resumed = Listener::open(&world, "", Some(&last)).await;
    let missed = trail(&world, "").await.len() - seen.len();
    seen.extend(resumed.take(missed).await);
    // And these come live, behind what was stored.
    world.submit(&strategy("b")).await.ok();
    world.call("POST", "/api/v1/releases/b/abort").await.ok();
    let all = trail(&world, "").await;
    seen.extend(resumed.take(all.len() - seen.len()).await);
    assert_eq!(seen.iter().map(|(_, _, data)| data.clone()).collect::<Vec<_>>(), all);
    for (id, name, data) in &seen {
        assert_eq!((json!(id), json!(name)), (data["id"].clone(), data["events"][0]["event"].clone()));
    }
    // The same over a restart, by `after`.
    let world = world.restart().await;
    let mut replayed = Listener::open(&world, "?after=0-0", None).await;
    let again: Vec<Value> = replayed.take(all.len()).await.into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(again, all);
    world.stop().await;
}

#[tokio::test]
async fn one_release_can_be_followed() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    let mut of_a = Listener::open(&world, "?release=a&after=0-0", None).await;
    world.submit(&strategy("b")).await.ok();
    world.run(&child, "a").await;
    world.run(&child, "b").await;
    world.submit(&strategy("c")).await.ok();
    let all = trail(&world, "&release=a").await;
    assert!(all.iter().all(|entry| entry["release"] == "a"));
    let seen: Vec<Value> = of_a.take(all.len()).await.into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(seen, all);
    assert_eq!(
        world.get("/events?release=x").await.problem(),
        "404 /problems/unknown-release: release x is not known"
    );
    assert_eq!(
        world.get("/events?after=x").await.problem(),
        "400 about:blank: an event's id looks like 12-0"
    );
    world.stop().await;
}

/// The place of the last entry.
async fn end(world: &World) -> String {
    trail(world, "").await.last().unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn news_only_stream_is_throttled_but_reaches_last_event() {
    let world = World::start().await;
    let mut children = Vec::new();
    for _ in 0..20 {
        children.push(world.child().await);
    }
    let mut live = Listener::open(&world, "?news=true&beat=true", None).await;
    let began = Instant::now();
    world.submit(&strategy("a")).await.ok();
    for child in &children {
        world.run(child, "a").await;
    }
    let (entries, last) = (trail(&world, "").await.len(), end(&world).await);
    let mut heard = Vec::new();
    while live.last_id != last {
        heard.push(live.block().await.unwrap());
    }
    assert!(heard.iter().all(|(_, name, data)| name.is_empty() && *data == Value::Null), "{heard:?}");
    let most = 2 + began.elapsed().as_millis() / 250;
    assert!(heard.len() <= usize::try_from(most).unwrap() && heard.len() < entries, "{heard:?}");
    // Whoever comes again is told at once that there was something meanwhile, and then of what comes.
    let mut resumed = Listener::open(&world, "?news=true&after=0-0", None).await;
    assert_eq!(resumed.block().await.unwrap().0, last);
    world.submit(&strategy("b")).await.ok();
    world.call("POST", "/api/v1/releases/b/abort").await.ok();
    let last = end(&world).await;
    while resumed.last_id != last {
        resumed.block().await.unwrap();
    }
    world.stop().await;
}

#[tokio::test]
async fn there_is_no_news_of_other_releases() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let now = end(&world).await;
    let mut of_a = Listener::open(&world, &format!("?news=true&release=a&after={now}"), None).await;
    world.submit(&strategy("b")).await.ok();
    world.call("POST", "/api/v1/releases/b/abort").await.ok();
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    of_a.block().await.unwrap();
    assert_eq!(of_a.last_id, end(&world).await);
    assert_eq!(trail(&world, "").await.last().unwrap()["release"], "a");
    world.stop().await;
}

#[tokio::test]
async fn a_listener_that_falls_behind_misses_nothing() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    let mut slow = Listener::open(&world, "?after=0-0", None).await;
    // More commits than the live channel holds. Nobody reads meanwhile, so it is overrun sooner or later.
    let label = format!("/api/v1/children/{child}/labels/n");
    for n in 0..1_500 {
        let long = format!("{n:0>120}");
        world.send_json("PUT", &label, &json!({"value": long})).await.ok();
    }
    world.report(&child, "a", STAGE, 2).await.ok();
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = world.get(&format!("/api/v1/audit?limit=1000&after={after}")).await.ok().json();
        all.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    let seen: Vec<Value> = slow.take(all.len()).await.into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(seen, all);
    world.stop().await;
}

#[tokio::test]
async fn listeners_do_not_hold_up_a_shutdown() {
    let world = World::start().await;
    let mut live = Listener::open(&world, "", None).await;
    timeout(Duration::from_secs(5), world.stop()).await.expect("it stops although somebody listens");
    assert!(live.block().await.is_none());
}
