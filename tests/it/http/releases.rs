//! Looking at releases and acting on them.

use serde_json::{Value, json};

use crate::world::{STAGE, World, settled, strategy};

fn lines(page: &Value, own: &str) -> String {
    let items = page["items"].as_array().unwrap().iter();
    let line = |item: &Value| {
        let waits = settled(item["waits_for"].as_str().unwrap()).replace(own, "CHILD");
        format!(
            "{} {} {} {}: {waits}\n",
            item["status"], item["outcome"], item["stage_status"], item["offer"]
        )
    };
    items.map(line).collect()
}

#[tokio::test]
async fn each_child_has_a_line_that_says_what_it_waits_for() {
    let world = World::start().await;
    let child = world.child().await;
    let mut seen = String::new();
    let look = async |world: &World, id: &str| {
        lines(&world.get(&format!("/api/v1/releases/{id}/children")).await.ok().json(), &child)
    };
    world.submit(&strategy("a")).await.ok();
    world.submit(&strategy("b")).await.ok();
    seen += &look(&world, "a").await;
    seen += &look(&world, "b").await;
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    seen += &look(&world, "a").await;
    world.post("/api/v1/releases/a/pause", &json!({"by": "eve", "note": "lunch"})).await.ok();
    seen += &look(&world, "a").await;
    world.report(&child, "a", STAGE, 2).await.ok();
    seen += &look(&world, "a").await;
    world.call("POST", "/api/v1/releases/a/resume").await.ok();
    seen += &look(&world, "a").await;
    world.post("/api/v1/releases/a/abort", &json!({"note": "too slow"})).await.ok();
    seen += &look(&world, "a").await;
    assert_eq!(world.poll(&child).await.1, "a.undo");
    world.report(&child, "a", STAGE, 5).await;
    seen += &look(&world, "a").await;
    seen += &look(&world, "b").await;
    insta::assert_snapshot!(seen, @r#"
    "Todo" null "Pending" "a": waits to be fetched: offered Ns ago, gives up in Nm
    "Doing" null "InProgress" "a": runs stage Canary 5 Percent for Ns, gives up in Nm unless it calls
    "Doing" null "InProgress" "a": runs stage Canary 5 Percent; the release is paused: lunch
    "Doing" null "SuccessWaiting" "a": is ready to end stage Canary 5 Percent; the release is paused: lunch
    "Doing" null "ShouldEnd" "a": runs stage Canary 5 Percent; was told to end it, its result is awaited, gives up in Nm unless it calls
    "Failed" null "ShouldEnd" "a.undo": waits for its undo a.undo to be fetched: offered Ns ago, gives up in Nm
    "Failed" "undone" "ShouldEnd" null: ended: runs the base version again
    "Todo" null "Pending" "b": waits to be fetched: offered Ns ago, gives up in Nm
    "#);
    // Another function, at the same time: the child has one release in hand.
    let greet = strategy("g").replace("sieve", "greet").replace("nodejs", "python");
    world.submit(&greet).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "b").await.ok();
    let mut queued = look(&world, "g").await;
    world.call("POST", "/api/v1/releases/b/pause").await.ok();
    queued += &look(&world, "g").await;
    world.call("POST", "/api/v1/releases/g/pause").await.ok();
    queued += &look(&world, "g").await;
    insta::assert_snapshot!(queued, @r#"
    "Todo" null "Pending" "g": waits behind release b
    "Todo" null "Pending" "g": waits behind release b, which is paused
    "Todo" null "Pending" "g": the release is paused: by operator:unnamed
    "#);
    world.stop().await;
}

#[tokio::test]
async fn a_release_is_shown_the_same_in_memory_and_from_the_store() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    let open = world.get("/api/v1/releases/a").await.ok().json();
    assert_eq!((&open["state"], &open["counts"]["todo"]), (&json!("Running"), &json!(2)));
    assert_eq!(open["waits_for"], "0 of 2 children have ended, 2 have yet to begin");
    assert_eq!(open["strategy"].as_str().unwrap(), strategy("a"));
    let mut stage = open["stages"][0].clone();
    let waits = stage.as_object_mut().unwrap().remove("waits_for").unwrap();
    assert!(
        waits.as_str().unwrap().starts_with("2 children are waited for; those that come no further"),
        "{waits}"
    );
    assert_eq!(
        stage,
        json!({"name": STAGE, "kind": "WaitForSignal", "function": "sieve",
        "new_traffic": 5, "min_calls": 50, "min_ms": 2_000, "on_success": "rollout",
        "on_failure": "rollback", "children": {"Pending": 2}})
    );
    world.run(&one, "a").await;
    world.poll(&two).await;
    world.fetch(&two, "a").await.ok();
    world.report(&two, "a", STAGE, 5).await.ok();
    let over = world.get("/api/v1/releases/a").await.ok().json();
    assert_eq!((&over["state"], &over["waits_for"]), (&json!("DoneWithFailures"), &Value::Null));
    assert_eq!((&over["counts"]["succeeded"], &over["counts"]["failed"]), (&json!(1), &json!(1)));
    let children = world.get("/api/v1/releases/a/children").await.ok().json();
    insta::assert_snapshot!(lines(&children, &one), @r#"
    "Done" "succeeded" "Completed" null: ended: succeeded
    "Failed" "failed" "Failure" null: ended: failed in stage Canary 5 Percent
    "#);
    let results = &children["items"][0]["results"];
    assert_eq!((&results[0]["stage"], &results[0]["status"]), (&json!(STAGE), &json!("Completed")));
    assert_eq!(
        (&results[0]["preliminary"], &results[0]["summary"]["f2_times_summary"]["median"]),
        (&json!(false), &json!(8.5))
    );
    let world = world.restart().await;
    assert_eq!(world.get("/api/v1/releases/a").await.ok().json(), over);
    let again = world.get("/api/v1/releases/a/children").await.ok().json();
    assert_eq!(again["items"][0]["results"], children["items"][0]["results"]);
    assert_eq!(lines(&again, &one), lines(&children, &one));
    let failed = world.get("/api/v1/releases/a/children?outcome=failed").await.ok().json();
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
    assert_eq!(failed["items"][0]["child"], json!(two));
    assert_eq!(world.get("/api/v1/releases/a/strategy").await.ok().text(), strategy("a"));
    world.stop().await;
}

/// What a child reports of its stage when it has counted its calls.
async fn tell_counted(world: &World, child: &str, status: u8, [base, new]: [[u64; 2]; 2]) {
    let mut told = crate::world::summary(STAGE, status);
    for (side, [calls, errors]) in [("f1", base), ("f2", new)] {
        told[format!("{side}_calls")] = json!(calls);
        told[format!("{side}_errors")] = json!(errors);
        told[format!("{side}_err_rate")] = json!(errors as f64 / calls as f64);
    }
    let result = json!({"id": child, "release_id": "a", "stage_summaries": [told], "next_stage": ""});
    world.post("/result", &result).await.ok();
}

#[tokio::test]
async fn what_was_measured_of_a_stage_is_added_up_while_it_goes_on_and_when_it_is_over() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    for child in [&one, &two] {
        world.poll(child).await;
        world.fetch(child, "a").await.ok();
    }
    let measured = async |world: &World| {
        world.get("/api/v1/releases/a?measured=true").await.ok().json()["stages"][0]["measured"].clone()
    };
    assert_eq!(measured(&world).await, Value::Null, "nobody has told anything");
    tell_counted(&world, &one, 1, [[95, 1], [5, 0]]).await;
    let going_on = measured(&world).await;
    assert_eq!((&going_on["children"], &going_on["calls"]), (&json!(1), &json!(100)));
    tell_counted(&world, &one, 4, [[190, 2], [10, 0]]).await;
    tell_counted(&world, &two, 5, [[190, 0], [10, 1]]).await;
    let over = measured(&world).await;
    assert_eq!((&over["children"], &over["calls"]), (&json!(2), &json!(400)));
    let numbers = [
        "errorRate 5 % (1 of 20 calls), allowed <2 %; base version 0.526 % (2 of 380 calls)",
        "responseTime Median 8.5 ms (19 calls), allowed <=250 ms; base version 8.5 ms (378 calls)",
    ];
    assert_eq!(over["numbers"], json!(numbers));
    let shown = world.get("/api/v1/releases/a").await.ok().json();
    assert_eq!(shown["stages"][0].get("measured"), None, "it wasn't asked for");
    assert!(shown["stages"][0]["began"].is_string(), "{shown:#}");
    let world = world.restart().await;
    assert_eq!(measured(&world).await, over);
    world.stop().await;
}

#[tokio::test]
async fn actions_that_the_state_does_not_allow_are_refused_and_repeats_are_not() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    let act = async |what: &str| world.call("POST", &format!("/api/v1/releases/a/{what}")).await;
    assert_eq!(act("pause").await.ok().json()["state"], "Paused");
    assert_eq!(act("pause").await.ok().json()["state"], "Paused");
    let mut seen = String::new();
    seen += &format!("{}\n", act("stages/Canary%205%20Percent/end").await.problem());
    seen += &format!("{}\n", act("retry").await.problem());
    assert_eq!(act("resume").await.ok().json()["state"], "Running");
    seen += &format!("{}\n", act("stages/other/end").await.problem());
    seen += &format!("{}\n", act("retry").await.problem());
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    act("stages/Canary%205%20Percent/end").await.ok();
    assert!(world.end_stage(&child, "a", STAGE).await.text().contains("true"));
    world.report(&child, "a", STAGE, 5).await.ok();
    seen += &format!("{}\n", act("pause").await.problem());
    seen += &format!("{}\n", act("abort").await.problem());
    assert_eq!(act("retry").await.ok().json()["attempt"], 2);
    assert_eq!(world.poll(&child).await.1, "a.r2");
    insta::assert_snapshot!(seen, @r#"
    409 /problems/wrong-state: release a is Paused: a stage can be ended while the release runs
    409 /problems/wrong-state: release a is Paused: only a release that runs or ended with failures can be retried
    409 /problems/unknown-stage: a has no stage "other"
    409 /problems/nothing-to-retry: no child of release a can be retried
    409 /problems/wrong-state: release a is DoneWithFailures: only a running release can be paused
    409 /problems/wrong-state: release a is DoneWithFailures: what is over can't be aborted; release rollback puts back what ran before
    "#);
    for path in ["/api/v1/releases/x", "/api/v1/releases/x/children", "/api/v1/releases/x/strategy"] {
        assert_eq!(world.get(path).await.problem(), "404 /problems/unknown-release: release x is not known");
    }
    let unknown = world.call("POST", "/api/v1/releases/x/abort").await;
    assert_eq!(unknown.problem(), "404 /problems/unknown-release: release x is not known");
    world.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages_and_filters_are_checked() {
    let world = World::start().await;
    for id in ["r1", "r2", "r3"] {
        world.submit(&strategy(id)).await.ok();
    }
    let ids = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.get("/api/v1/releases?limit=2").await.ok().json();
    assert_eq!(ids(&first), ["r3", "r2"]);
    let path = format!("/api/v1/releases?limit=2&after={}", first["next"].as_str().unwrap());
    let second = world.get(&path).await.ok().json();
    assert_eq!((ids(&second), &second["next"]), (vec!["r1".to_owned()], &Value::Null));
    // Without a child each of them is over at once, and there is nobody to stop, to hold, or to try again.
    let mut refused = String::new();
    for action in ["abort", "pause", "retry"] {
        let answer = world.call("POST", &format!("/api/v1/releases/r1/{action}")).await;
        refused += &format!("{}\n", answer.problem());
    }
    insta::assert_snapshot!(refused, @"
    409 /problems/wrong-state: release r1 is NoParticipants: what is over can't be aborted; release rollback puts back what ran before
    409 /problems/wrong-state: release r1 is NoParticipants: only a running release can be paused
    409 /problems/wrong-state: release r1 is NoParticipants: nobody took part; submit it again once there are children for it
    ");
    assert_eq!(ids(&world.get("/api/v1/releases?state=NoParticipants").await.ok().json()).len(), 3);
    assert!(ids(&world.get("/api/v1/releases?function=other").await.ok().json()).is_empty());
    assert_eq!(ids(&world.get("/api/v1/releases?function=sieve&limit=1").await.ok().json()), ["r3"]);
    let mut seen = String::new();
    for query in [
        "releases?state=done",
        "releases?stat=Done",
        "releases?limit=0",
        "releases?limit=1001",
        "releases?limit=x",
        "releases?after=x",
        "releases?limit=1&limit=2",
        "releases/r1/children?status=done",
        "releases/r1/children?outcome=x",
        "children?kind=x",
        "children?cordon=x",
        "children?label=x",
        "children?silent_for=5",
        "children?silent_for=999999999999999999d",
        "deployments?after=x",
        "audit?after=x",
        "callers/unknown?after=x",
    ] {
        seen += &format!("{}\n", world.get(&format!("/api/v1/{query}")).await.problem());
    }
    insta::assert_snapshot!(seen, @r#"
    400 about:blank: `state` "done" is none of Planned, Running, Paused, AwaitingApproval, RollingBack, Done, DoneWithFailures, RolledBack, RolledBackUnproven, Aborted, NoParticipants, DoneUntested
    400 about:blank: Failed to deserialize query string: stat: unknown field `stat`, expected one of `state`, `name`, `function`, `label`, `area`, `sort`, `counts`, `below`, `after`, `limit`
    400 about:blank: `limit` is 1 to 1000, not 0
    400 about:blank: `limit` is 1 to 1000, not 1001
    400 about:blank: Failed to deserialize query string: limit: invalid digit found in string
    400 about:blank: `after` must be what `next` of the page before said
    400 about:blank: Failed to deserialize query string: duplicate field `limit`
    400 about:blank: `status` "done" is none
    400 about:blank: `outcome` "x" is none of succeeded, failed, timed_out, unreachable, lost, undone, untested, excluded
    400 about:blank: `kind` is one of agent, rm
    400 about:blank: `cordon` is one of open, cordoned, drained
    400 about:blank: `label` looks like tier:edge
    400 about:blank: `silent_for` looks like 90s, 5m or 2h
    400 about:blank: `silent_for` looks like 90s, 5m or 2h
    400 about:blank: `after` must be what `next` of the page before said
    400 about:blank: `after` must be what `next` of the page before said
    400 about:blank: `after` must be what `next` of the page before said
    "#);
    world.stop().await;
}

#[tokio::test]
async fn children_of_a_release_come_in_pages() {
    let world = World::start().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(world.child().await);
    }
    world.submit(&strategy("a")).await.ok();
    world.poll(&all[1]).await;
    world.fetch(&all[1], "a").await.ok();
    let pages = async |query: &str| {
        let mut found: Vec<String> = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/api/v1/releases/a/children?limit=2&after={after}{query}");
            let page = world.get(&path).await.ok().json();
            found.extend(
                page["items"].as_array().unwrap().iter().map(|c| c["child"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return found,
            }
        }
    };
    assert_eq!(pages("").await, all);
    assert_eq!(pages("&status=Doing").await, all[1..2]);
    assert_eq!(pages("&stage=Canary%205%20Percent").await, all);
    // Aborted before they began: they have no rows of their own.
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    world.report(&all[1], "a", STAGE, 5).await;
    assert_eq!(pages("").await, all);
    assert_eq!(pages("&outcome=excluded").await.len(), 4);
    world.stop().await;
}
