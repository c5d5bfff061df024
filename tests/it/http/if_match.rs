//! Two people at once: the second hears what the first did, and nothing is done twice.

use serde_json::{Value, json};

use crate::world::{Answer, STAGE, World, strategy};

fn waves(id: &str) -> String {
    format!("{}rollout: {{order: waves, waves: [1, 100%], approval: before_each_wave}}\n", strategy(id))
}

async fn act(world: &World, path: &str, by: &str, tag: &str) -> Answer {
    let request = world.request("POST", &format!("/api/v1/releases/{path}")).header("if-match", tag);
    world.send(request.json(&json!({"by": by}))).await
}

async fn shown(world: &World, id: &str) -> Value {
    world.get(&format!("/api/v1/releases/{id}")).await.ok().json()
}

/// The tag in quotes, which is the `ETag` as well.
async fn tag(world: &World, id: &str) -> String {
    let answer = world.get(&format!("/api/v1/releases/{id}")).await.ok();
    let tag = format!("{:?}", answer.json()["tag"].as_str().unwrap());
    assert_eq!(answer.header("etag"), tag);
    tag
}

/// A problem without what differs from run to run: times and tags.
fn steady(problem: &str) -> String {
    let is_time = |word: &str| word.len() > 15 && word.contains('T') && word.as_bytes()[4] == b'-';
    let is_tag = |word: &str| word.starts_with('"') && word.matches('-').count() == 2;
    let word = |word: &str| match word.trim_end_matches([';', '.', ',']) {
        bare if is_time(bare) => word.replace(bare, "TIME"),
        bare if is_tag(bare) => word.replace(bare, "TAG"),
        _ => word.to_owned(),
    };
    problem.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

async fn run(world: &World, child: &str, id: &str) {
    for (offer, stage) in [(id, STAGE), (&format!("{id}.rollout"), "choirmaster rollout")] {
        assert_eq!(world.poll(child).await.1, offer);
        world.fetch(child, offer).await.ok();
        world.report(child, offer, stage, 2).await.ok();
        assert_eq!(world.end_stage(child, offer, stage).await.text(), "{\"end_stage\":true}\n");
        world.report(child, offer, stage, 4).await.ok();
    }
}

#[tokio::test]
async fn the_second_of_two_hears_what_the_first_did() {
    let world = World::start().await;
    let (one, _two) = (world.child().await, world.child().await);
    world.submit(&waves("a")).await.ok();
    let before = tag(&world, "a").await;
    run(&world, &one, "a").await;
    insta::assert_snapshot!(steady(&act(&world, "a/approve", "jane", &before).await.problem()), @"412 /problems/changed: release a has changed since: the release by itself came to wave 2 of 2, asked for an approval of wave 2 of 2 at TIME. Nothing was done now; look at it again, its tag is TAG");
    assert_eq!(shown(&world, "a").await["state"], "AwaitingApproval");
    let seen = tag(&world, "a").await;
    act(&world, "a/approve", "jane", &seen).await.ok();
    let after = shown(&world, "a").await;
    // It is said after a restart as well.
    let world = world.restart().await;
    assert_eq!(shown(&world, "a").await["tag"], after["tag"]);
    insta::assert_snapshot!(steady(&act(&world, "a/abort", "bob", &seen).await.problem()), @"412 /problems/changed: release a has changed since: jane approved it, opened wave 2 of 2 at TIME. Nothing was done now; look at it again, its tag is TAG");
    insta::assert_snapshot!(steady(&act(&world, "a/approve", "jane", &seen).await.problem()), @"412 /problems/changed: release a has changed since: jane approved it, opened wave 2 of 2 at TIME, and that was you: nothing was done twice. Nothing was done now; look at it again, its tag is TAG");
    assert_eq!(shown(&world, "a").await["tag"], after["tag"]);
    // Of several tags that were seen one counts; any release is met by a star, and whoever sends none.
    let now = tag(&world, "a").await;
    act(&world, "a/pause", "bob", &format!("{seen}, {now}")).await.ok();
    act(&world, "a/resume", "bob", "*").await.ok();
    act(&world, "a/abort", "bob", &tag(&world, "a").await).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn whoever_stops_a_release_means_it_also_where_it_went_on_by_itself() {
    let world = World::start().await;
    let (one, _two) = (world.child().await, world.child().await);
    world.submit(&waves("a")).await.ok();
    let seen = tag(&world, "a").await;
    run(&world, &one, "a").await;
    assert_ne!(tag(&world, "a").await, seen, "it came to its next wave");
    act(&world, "a/pause", "jane", &seen).await.ok();
    assert_eq!(shown(&world, "a").await["state"], "Paused");
    // Where somebody had a hand in it, who stops it hears of that first.
    let seen = tag(&world, "a").await;
    act(&world, "a/resume", "bob", "*").await.ok();
    let answer = act(&world, "a/abort", "jane", &seen).await;
    assert!(answer.status == 412 && answer.problem().contains("bob resumed it"), "{}", answer.text());
    act(&world, "a/abort", "jane", &tag(&world, "a").await).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn it_is_told_who_left_a_child_out() {
    let world = World::start().await;
    let (_one, two) = (world.child().await, world.child().await);
    world.submit(&waves("a")).await.ok();
    let seen = tag(&world, "a").await;
    act(&world, &format!("a/children/{two}/skip"), "bob", "*").await.ok();
    let answer = act(&world, "a/pause", "jane", &seen).await;
    assert!(answer.status == 412 && answer.problem().contains("bob left a child out"), "{}", answer.text());
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_tag_of_the_release_meets_nothing() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let tag = tag(&world, "a").await;
    for other in ["\"\"", "\"abc\"", "\"0-0-0\"", "\"99-1-1\"", &format!("W/{tag}"), &tag.replace('-', "-0")]
    {
        let answer = act(&world, "a/pause", "jane", other).await;
        assert_eq!(
            (answer.status, answer.json()["type"].as_str()),
            (412, Some("/problems/changed")),
            "{other}"
        );
    }
    for unread in ["a", "\"a", &tag.replace('"', ""), &vec![tag.as_str(); 17].join(",")] {
        assert_eq!(act(&world, "a/pause", "jane", unread).await.status, 400, "{unread}");
    }
    assert_eq!(act(&world, "b/pause", "jane", &tag).await.status, 404);
    assert_eq!(shown(&world, "a").await["state"], "Running");
    world.stop().await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_actions_succeeds() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    for round in 0..1_000 {
        let (path, tag) = (["a/pause", "a/resume"][round % 2], tag(&world, "a").await);
        let (jane, bob) = tokio::join!(act(&world, path, "jane", &tag), act(&world, path, "bob", &tag));
        let (done, refused, first) =
            if jane.status == 200 { (jane, bob, "jane") } else { (bob, jane, "bob") };
        assert_eq!((done.status, refused.status), (200, 412), "round {round}: {}", refused.text());
        let verb = ["paused it", "resumed it"][round % 2];
        let said = format!("{first} {verb}");
        assert!(refused.problem().contains(&said), "round {round}: {}", refused.text());
    }
    world.stop().await;
}
