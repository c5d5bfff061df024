use proxy::{Limits, Proxy, form::TableForm};
use tokio::net::TcpStream;

use super::{
    message::Wire,
    scale::Scale,
    version::{Behaviour::Good, Place, Version},
};
use crate::world::start;

/// Callers of the whole test.
const CALLERS: u64 = 2_000;

/// In hundredths of a percent; also down, and twice the same under another name.
const SHARES: [u16; 10] = [10, 100, 500, 2_500, 5_000, 5_000, 10_000, 2_500, 7_500, 0];

/// Somebody who is known by a cookie or a header.
struct Known {
    wire: Wire<TcpStream>,
    field: String,
    is_on_new: bool,
}

impl Known {
    /// Makes a call and says whether the new version answered it.
    async fn call(&mut self) -> bool {
        let request = format!("GET /a/call/1 HTTP/1.1\r\nHost: here\r\n{}\r\n", self.field);
        self.wire.write(request.as_bytes()).await.unwrap();
        let answer = self.wire.read().await.unwrap();
        if let Some(cookie) = answer.field("set-cookie") {
            assert!(self.field.is_empty(), "whoever has a cookie is given none");
            self.field = format!("Cookie: other=1; {}\r\n", cookie.split(';').next().unwrap());
        }
        answer.field("x-choirmaster-version") == Some("new")
    }
}

async fn put(proxy: &Proxy, sticky: &serde_json::Value, versions: [&Version; 2], stage: usize) {
    let share = SHARES[stage];
    let variations = versions.map(|it| serde_json::json!({"name": it.name, "targets": [it.target()]}));
    let table = serde_json::json!({"generation": stage + 1, "services": [{
        "name": "a", "variations": variations, "shares": [10_000 - share, share], "split": stage.to_string(),
        "salt": "21", "sticky": sticky,
    }]});
    let table: TableForm = serde_json::from_value(table).unwrap();
    proxy.apply(&table).await.unwrap();
}

/// Callers join the new side only when it grows, and leave it only when it shrinks.
async fn stay_where_they_are(sticky: serde_json::Value, field_of: impl Fn(u64) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let base = Version::start("base".to_owned(), Good, Place::Here, folder.path()).await;
    let new = Version::start("new".to_owned(), Good, Place::Here, folder.path()).await;
    let running = start(Limits::default());
    let mut callers = Vec::new();
    for who in 0..Scale::part_of(CALLERS) {
        let wire = Wire::new(TcpStream::connect(running.at).await.unwrap());
        callers.push(Known { wire, field: field_of(who), is_on_new: false });
    }
    let mut before = 0;
    for (stage, share) in SHARES.into_iter().enumerate() {
        put(&running.proxy, &sticky, [&base, &new], stage).await;
        for caller in &mut callers {
            // Whoever has no cookie yet may be anywhere once.
            let is_known = !caller.field.is_empty();
            let is_on_new = caller.call().await;
            assert_eq!(caller.call().await, is_on_new);
            let joined = is_known && is_on_new && !caller.is_on_new;
            let left = is_known && !is_on_new && caller.is_on_new;
            assert!(!joined || share > before, "joined at {share} after {before}");
            assert!(!left || share < before, "left at {share} after {before}");
            caller.is_on_new = is_on_new;
        }
        let on_new = callers.iter().filter(|caller| caller.is_on_new).count();
        match share {
            0 => assert_eq!(on_new, 0),
            10_000 => assert_eq!(on_new, callers.len()),
            _ => {}
        }
        before = share;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_with_a_cookie_join_the_new_side_only_when_it_grows() {
    stay_where_they_are(serde_json::json!({"cookie": "cm_a"}), |_| String::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_with_a_header_join_the_new_side_only_when_it_grows() {
    let field = |who| format!("X-User: user-{who}\r\n");
    stay_where_they_are(serde_json::json!({"header": "X-User"}), field).await;
}
