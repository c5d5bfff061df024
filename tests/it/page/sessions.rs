//! Sessions begin with a token, and end: by themselves, when somebody signs out, and with the token.

use std::time::Duration;

use http_api::auth::{OperatorToken, Settings};

use super::Browser;
use crate::{http::tenants::Shared, world::World};

const TO_SIGN_IN: &str = "/ui/sign-in?next=%2Fui%2Freleases";

async fn is_in(browser: &Browser) -> bool {
    let answer = browser.get("/ui/releases").await;
    assert!(answer.status == 200 || answer.header("location") == TO_SIGN_IN, "{}", answer.text());
    answer.status == 200
}

fn operators(names: &[&str]) -> Settings {
    let token = |name: &&str| OperatorToken::new(*name, &format!("secret-of-{name}-0123456789"));
    Settings { operators: names.iter().map(token).collect(), operator_required: true, ..Settings::default() }
}

#[tokio::test]
async fn one_ends_by_itself() {
    let shared = Shared::with(|options| options.page.session = Duration::ZERO).await;
    assert!(!is_in(&Browser::signed_in(&shared.world, Shared::secret("root")).await).await);
    shared.world.stop().await;
}

#[tokio::test]
async fn signing_out_ends_it_for_good() {
    let shared = Shared::start().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    let other = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    let page = root.get("/ui/releases").await.ok().text();
    let (_, rest) = page.split_once("name=\"proof\" value=\"").unwrap();
    let proof = rest.split('"').next().unwrap();
    assert_eq!(root.send(root.form("/ui/sign-out", &[("proof", "x")])).await.status, 403);
    assert!(is_in(&root).await);
    let answer = root.send(root.form("/ui/sign-out", &[("proof", proof)])).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/ui/sign-in?out=1"));
    assert!(answer.header("set-cookie").contains("=; Path=/ui; Max-Age=0"));
    // Also for who kept the cookie.
    assert!(!is_in(&root).await);
    assert!(is_in(&other).await);
    shared.world.stop().await;
}

#[tokio::test]
async fn one_outlives_a_restart_and_ends_with_its_token() {
    let world = World::with(|options| options.auth = operators(&["ann", "bob"])).await;
    let ann = Browser::signed_in(&world, "secret-of-ann-0123456789").await;
    let bob = Browser::signed_in(&world, "secret-of-bob-0123456789").await;
    assert!(is_in(&ann).await && is_in(&bob).await);
    let kept = |browser: &Browser| browser.cookie.clone().unwrap().split_once('=').unwrap().1.to_owned();
    let (of_ann, of_bob) = (kept(&ann), kept(&bob));
    let world = world.restart_with(|options| options.auth = operators(&["bob"])).await;
    let port = world.manager.address.port();
    let again =
        |kept: &str| Browser { cookie: Some(format!("choirmaster{port}={kept}")), ..Browser::new(&world) };
    assert!(is_in(&again(&of_bob)).await);
    assert!(!is_in(&again(&of_ann)).await);
    world.stop().await;
}

#[tokio::test]
async fn a_cookie_counts_as_it_was_given_and_where() {
    let shared = Shared::start().await;
    let mut root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    let cookie = root.cookie.clone().unwrap();
    let (name, value) = cookie.split_once('=').unwrap();
    let mut forged: Vec<String> = (0..value.len())
        .map(|at| {
            let other = if &value[at..=at] == "A" { "Q" } else { "A" };
            format!("{name}={}{other}{}", &value[..at], &value[at + 1..])
        })
        .collect();
    forged
        .extend(["", "A", "=", &value[1..], &format!("{value}AAAA")].map(|value| format!("{name}={value}")));
    // That of a manager at another port of the same name.
    forged.extend([format!("choirmaster={value}"), format!("{name}0={value}")]);
    for cookie in forged {
        root.cookie = Some(cookie.clone());
        assert!(!is_in(&root).await, "{cookie}");
    }
    root.cookie = Some(format!("a=b; choirmaster1=x; {cookie}"));
    assert!(is_in(&root).await);
    shared.world.stop().await;
}

#[tokio::test]
async fn where_nobody_signs_in_a_proof_is_of_one_browser_all_the_same() {
    let world = World::start().await;
    let mut one = Browser::new(&world);
    one.cookie = Some(super::given(&one.get("/ui/releases").await.ok()));
    world.child().await;
    world.submit(&crate::world::strategy("a")).await.ok();
    let pause = one.find("a", "pause").await;
    let stranger = Browser::new(&world);
    assert_eq!(stranger.submit(&pause).await.status, 403);
    assert_eq!(world.get("/api/v1/releases/a").await.json()["state"], "Running");
    assert_eq!(one.submit(&pause).await.status, 303);
    world.stop().await;
}
