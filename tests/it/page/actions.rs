//! What is done by the forms of a release's page.

use reqwest::header;
use serde_json::{Value, json};

use super::{Browser, form_in, form_of, given, release, said, waves};
use crate::{
    http::tenants::Shared,
    world::{STAGE, strategy},
};

#[tokio::test]
async fn each_action_is_done_by_its_form() {
    let shared = Shared::start().await;
    let world = &shared.world;
    let (one, two) = (world.child().await, world.child().await);
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    shared.submit("root", &waves("a")).await.ok();
    let page = root.act("a", "pause", "wait for me").await;
    assert_eq!(said(&page, "role=\"status\">You "), "paused it.");
    assert_eq!(release(&shared, "a").await["state"], "Paused");
    let page = root.act("a", "resume", "").await;
    assert!(page.contains("You let it go on."), "{page}");
    world.run(&one, "a").await;
    assert_eq!(release(&shared, "a").await["state"], "AwaitingApproval");
    let page = root.page("a").await;
    assert!(page.contains("Opens wave 2 of 2: 1 agent can go on in wave 2, at 52.5200N 13.4050E."), "{page}");
    root.act("a", "approve", "looks good").await;
    assert_eq!(release(&shared, "a").await["state"], "Running");
    let page = root.act("a", "skip", "").await;
    assert!(page.contains("You skipped the stage."), "{page}");
    assert_eq!(release(&shared, "a").await["stages"][0]["skipped"], true);
    assert!(
        page.contains(&format!("Skip stage <bdi>{STAGE}</bdi></strong>: <bdi>this stage is skipped already"))
    );
    let three = world.child().await;
    root.act("a", "extend", "").await;
    let parts = shared.get("root", "/api/v1/releases/a/children").await.ok().text();
    assert!(parts.contains(&three) && parts.contains(&two), "{parts}");
    root.act("a", "abort", "not good after all").await;
    let ended = release(&shared, "a").await;
    assert_eq!(
        (&ended["why"]["by"], &ended["why"]["note"]),
        (&json!("operator:root"), &json!("not good after all"))
    );
    shared.world.stop().await;
}

#[tokio::test]
async fn a_release_is_promoted_to_the_next_gate_and_says_before_what_that_is() {
    let shared = Shared::start().await;
    let world = &shared.world;
    world.child().await;
    world.child().await;
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    let led = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    shared.submit("root", &format!("{}{led}", strategy("a"))).await.ok();
    let page = root.page("a").await;
    let does = "Opens wave 2 of 2 without waiting any longer: 1 agent can go on in wave 2";
    assert!(page.contains(does), "{page}");
    let form = root.find("a", "promote-gate").await.with("note", "the first has come far enough");
    let answer = root.submit(&form).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/ui/releases/a"));
    let page = root.go_on(&answer).await.ok().text();
    assert!(page.contains("You promoted it."), "{page}");
    let trail = shared.get("root", "/api/v1/audit?release=a").await.ok().json();
    assert!(trail.to_string().contains("the first has come far enough"), "{trail}");
    assert_eq!(release(&shared, "a").await["waves"][1]["open"], true);
    assert!(page.contains("everything is open already"), "{page}");
    shared.world.stop().await;
}

#[tokio::test]
async fn what_is_left_opens_and_what_failed_is_tried_again() {
    let shared = Shared::start().await;
    let world = &shared.world;
    let (one, two) = (world.child().await, world.child().await);
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    let led = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave, on_failure: continue}\n";
    shared.submit("root", &format!("{}{led}", strategy("a"))).await.ok();
    let page = root.page("a").await;
    assert!(
        page.contains("<strong>Retry what failed</strong>: <bdi>no child of release a can be retried"),
        "{page}"
    );
    root.act("a", "promote", "").await;
    for child in [&one, &two] {
        assert_eq!(world.poll(child).await.1, "a");
        world.fetch(child, "a").await.ok();
        world.report(child, "a", STAGE, 5).await.ok();
    }
    let page = root.act("a", "retry", "again").await;
    assert!(page.contains("You gave those that ended badly another attempt."), "{page}");
    assert_eq!(release(&shared, "a").await["attempt"], 2);
    shared.world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_done_says_why_in_the_words_of_who_tries() {
    let shared = Shared::start().await;
    shared.world.child().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    shared.submit("root", &waves("a")).await.ok();
    for state in ["Running", "Paused", "Aborted"] {
        let actions = shared.get("root", "/api/v1/releases/a/actions").await.ok().json();
        let page = root.page("a").await;
        for action in actions["actions"].as_array().unwrap() {
            let name = action["action"].as_str().unwrap();
            assert_eq!(form_in(&page, name).is_some(), action["can"] == json!(true), "{state} {action}");
            let Some(why) = action["why"].as_str() else { continue };
            assert!(page.contains(&why.replace('"', "&quot;")), "{state} {why}: {page}");
            let path = match action["stage"].as_str() {
                Some(stage) => format!("/api/v1/releases/a/stages/{stage}/skip"),
                None => format!("/api/v1/releases/a/{name}"),
            };
            let before = release(&shared, "a").await["tag"].clone();
            let answer = shared.post("root", &path, &json!({})).await;
            if answer.status == 200 {
                // It is so already: nothing is done.
                assert!(why.contains("already"), "{state} {why}");
                assert_eq!(release(&shared, "a").await["tag"], before, "{state} {name}");
            } else {
                assert_eq!(answer.json()["detail"], json!(why), "{state} {name}");
            }
        }
        let next = if state == "Running" { "pause" } else { "abort" };
        if state != "Aborted" {
            root.act("a", next, "").await;
        }
    }
    shared.world.stop().await;
}

#[tokio::test]
async fn the_second_of_two_hears_what_the_first_did_and_keeps_the_note() {
    let shared = Shared::start().await;
    shared.world.child().await;
    shared.submit("root", &strategy("a")).await.ok();
    let (one, two) = (
        Browser::signed_in(&shared.world, Shared::secret("root")).await,
        Browser::signed_in(&shared.world, Shared::secret("root")).await,
    );
    let late = two.find("a", "abort").await.with("note", "mine & <b>");
    one.act("a", "pause", "").await;
    let answer = two.submit(&late).await;
    let page = answer.text();
    assert_eq!(answer.status, 412, "{page}");
    assert!(page.contains("release a has changed since: root paused it"), "{page}");
    assert!(page.contains("mine &amp; &lt;b&gt;</textarea>"), "{page}");
    assert_eq!(release(&shared, "a").await["state"], "Paused");
    // The form is one of the release as it is now.
    let again = form_in(&page, "abort").unwrap();
    assert_eq!(two.submit(&again).await.status, 303);
    shared.world.stop().await;
}

#[tokio::test]
async fn a_second_click_does_nothing() {
    let shared = Shared::start().await;
    shared.world.child().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    shared.submit("root", &strategy("a")).await.ok();
    let pause = root.find("a", "pause").await;
    let (one, other) = tokio::join!(root.submit(&pause), root.submit(&pause));
    let mut both = [one.status, other.status];
    both.sort_unstable();
    assert_eq!(both, [303, 412]);
    // Back, and sent once more: it was let go on meanwhile, and is not paused again.
    root.act("a", "resume", "").await;
    assert_eq!(root.submit(&pause).await.status, 412);
    assert_eq!(root.submit(&pause.clone().without("tag")).await.status, 412);
    assert_eq!(release(&shared, "a").await["state"], "Running");
    shared.world.stop().await;
}

#[tokio::test]
async fn an_abort_of_many_asks_for_the_id() {
    let shared = Shared::with(|options| options.page.confirm_abort_above = 1).await;
    shared.world.child().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    shared.submit("root", &strategy("one")).await.ok();
    assert!(!root.page("one").await.contains("name=\"typed\""));
    root.act("one", "abort", "").await;
    shared.world.child().await;
    shared.submit("root", &strategy("two")).await.ok();
    assert!(root.page("two").await.contains("name=\"typed\""));
    let abort = root.find("two", "abort").await.with("note", "why not");
    for typed in ["", "one", "TWO"] {
        let answer = root.submit(&abort.clone().with("typed", typed)).await;
        assert_eq!(answer.status, 422, "{typed}");
        assert!(answer.text().contains("why not</textarea>"), "{}", answer.text());
    }
    assert_eq!(root.submit(&abort).await.status, 422);
    assert_eq!(release(&shared, "two").await["state"], "Running");
    assert_eq!(root.submit(&abort.with("typed", " two ")).await.status, 303);
    assert_eq!(release(&shared, "two").await["why"]["note"], "why not");
    shared.world.stop().await;
}

#[tokio::test]
async fn markup_in_a_note_is_text() {
    let shared = Shared::start().await;
    shared.world.child().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    shared.submit("root", &strategy("a")).await.ok();
    let note = "</textarea><script>alert(1)</script>\u{202e}\"'&";
    let page = root.act("a", "pause", note).await;
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert"), "{page}");
    let late = root.find("a", "resume").await.with("note", note).with("tag", "0-0-0");
    let page = root.submit(&late).await.text();
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert"), "{page}");
    // Only names that are known are told as done.
    let resumed = root.submit(&root.find("a", "resume").await).await;
    let name = given(&resumed).split_once('=').unwrap().0.to_owned();
    for told in ["<script>", "paused", "<script>.seen", ""] {
        let forged = root.request("GET", "/ui/releases/a").header(header::COOKIE, format!("{name}={told}"));
        let page = root.send(forged).await.ok().text();
        assert!(!page.contains("id=\"done\""), "{page}");
    }
    shared.world.stop().await;
}

#[tokio::test]
async fn what_was_done_is_said_once() {
    const SAID: &str = "You paused it.";
    let shared = Shared::start().await;
    shared.world.child().await;
    let root = Browser::signed_in(&shared.world, Shared::secret("root")).await;
    shared.submit("root", &strategy("a")).await.ok();
    let answer = root.submit(&root.find("a", "pause").await).await;
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.contains("; Path=/ui/releases/a; Max-Age=60; HttpOnly; SameSite=Strict"), "{cookie}");
    let first = root.go_on(&answer).await.ok();
    assert!(first.text().contains(SAID));
    // What a script fetches to keep the page as it is says so as well; whoever looks anew isn't told, and the cookie is gone then.
    let seen = given(&first);
    let again = || root.request("GET", "/ui/releases/a").header(header::COOKIE, &seen);
    assert!(root.send(again().header("x-choirmaster-middle", "1")).await.ok().text().contains(SAID));
    let reloaded = root.send(again()).await.ok();
    assert!(!reloaded.text().contains(SAID));
    assert!(reloaded.header("set-cookie").contains("Max-Age=0"), "{}", reloaded.header("set-cookie"));
    // The address alone says nothing, to nobody.
    for path in ["/ui/releases/a", "/ui/releases/a?done=pause"] {
        assert!(!root.get(path).await.ok().text().contains(SAID), "{path}");
    }
    // An action that was refused is none that was done.
    let late = root.submit(&root.find("a", "resume").await.with("tag", "0-0-0")).await;
    assert_eq!((late.status, late.header("set-cookie")), (412, ""));
    shared.world.stop().await;
}

#[tokio::test]
async fn one_child_is_tried_again_and_another_left_out() {
    let shared = Shared::start().await;
    let world = &shared.world;
    let (one, two) = (world.child().await, world.child().await);
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    let led = "rollout: {order: global_incremental, on_failure: continue}\n";
    shared.submit("root", &format!("{}{led}", strategy("a"))).await.ok();
    assert_eq!(world.poll(&one).await.1, "a");
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 5).await.ok();
    let list = "/ui/releases/a/children";
    let part = async |child: &str| {
        let all = shared.get("root", "/api/v1/releases/a/children").await.ok().json();
        all["items"].as_array().unwrap().iter().find(|part| part["child"] == child).unwrap().clone()
    };
    assert_eq!(part(&one).await["outcome"], "failed");
    for (verb, child, said) in
        [("retry", &one, "You gave the child another attempt."), ("skip", &two, "You left the child out.")]
    {
        let page = root.get(list).await.ok().text();
        let form = form_of(&page, verb, child).with("note", "by hand");
        assert_eq!(form.path, format!("{list}/{child}/{verb}"));
        // Without its proof nothing is done, and by a second click nothing twice.
        let before = shared.get("root", "/api/v1/releases/a").await.json()["tag"].clone();
        assert_eq!(root.submit(&form.clone().without("proof")).await.status, 403);
        assert_eq!(shared.get("root", "/api/v1/releases/a").await.json()["tag"], before);
        let answer = root.submit(&form).await;
        assert_eq!((answer.status, answer.header("location")), (303, list), "{}", answer.text());
        assert!(root.go_on(&answer).await.ok().text().contains(said));
        assert!(!root.get(list).await.ok().text().contains(said));
        let again = root.submit(&form.with("note", "kept, though nothing was done")).await;
        let text = again.text();
        assert!(
            again.status == 412 && text.contains("kept, though nothing was done"),
            "{} {text}",
            again.status
        );
    }
    assert_eq!((&part(&one).await["attempt"], &part(&one).await["outcome"]), (&json!(2), &Value::Null));
    assert_eq!(part(&two).await["outcome"], "excluded");
    shared.world.stop().await;
}

#[tokio::test]
async fn a_release_whose_strategy_wants_notes_does_nothing_without_one() {
    let shared = Shared::start().await;
    let world = &shared.world;
    world.child().await;
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    let led = "rollout: {order: parallel, notes: required}\n";
    shared.submit("root", &format!("{}{led}", strategy("a"))).await.ok();
    let actions = shared.get("root", "/api/v1/releases/a/actions").await.ok().json();
    assert_eq!(actions["note_required"], true);
    let page = root.page("a").await;
    assert!(page.contains("this release wants one") && page.contains(" required>"), "{page}");
    for note in ["", " \r\n\t"] {
        let answer = root.submit(&root.find("a", "pause").await.with("note", note)).await;
        let text = answer.text();
        assert_eq!(answer.status, 422, "{text}");
        assert!(text.contains("release a wants a note with whatever is done to it"), "{text}");
    }
    for action in ["pause", "abort", "promote", "retry", "extend", "stages/Canary%205%20Percent/skip"] {
        let answer = shared.post("root", &format!("/api/v1/releases/a/{action}"), &json!({})).await;
        assert_eq!(
            (answer.status, &answer.json()["type"]),
            (422, &json!("/problems/note-required")),
            "{action}"
        );
    }
    assert_eq!(release(&shared, "a").await["state"], "Running");
    root.act("a", "pause", "looks odd").await;
    root.act("a", "abort", "is odd").await;
    // It is over: the strategy is asked for in the store.
    let answer = shared.post("root", "/api/v1/releases/a/retry", &json!({})).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    shared.world.stop().await;
}
