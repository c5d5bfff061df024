//! Services, whose variations run elsewhere.

use call_metrics::InFlight;
use model::StageStatus;
use protocol::FollowUp;
use serde_json::json;

use super::world::World;

/// Two stages and a roll-out from one target to another.
pub fn offer(id: &str, port: u16, [stable, new]: [&str; 2]) -> String {
    let stage = |name: &str, of_new: u16, next: &str| {
        format!(
            "  - name: {name}\n    type: Traffic\n    shares: {{{stable}: {}, {new}: {of_new}}}\n    metrics_conditions: [{{name: errorRate, \
             threshold: \"<=0.05\"}}]\n    end_conditions: [{{name: minDuration, threshold: 1s}}, {{name: minCalls, threshold: \
             \"10\"}}]\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
            100 - of_new
        )
    };
    let variation = |name: &str| {
        let port = 9_000 + u32::from(name.as_bytes()[0]);
        format!("      - {{name: {name}, targets: [\"127.0.0.1:{port}\"]}}\n")
    };
    format!(
        "id: {id}\nname: {id}\nservices:\n  - name: shop\n    ports: [{{port: {port}}}]\n    variations:\n{}{}stages:\n{}{}",
        variation(stable),
        variation(new),
        stage("little", 10, "half"),
        stage("half", 50, "rollout")
    )
}

fn offered(world: &mut World, id: &str, port: u16, variations: [&str; 2]) {
    world.offers.push((id.to_owned(), offer(id, port, variations)));
}

/// The port of the service in force, and who serves it alone.
pub fn serving(world: &World) -> Option<(u16, String)> {
    let service = world.table.as_ref()?.services.first()?;
    let [alone] = &service.variations[..] else { return None };
    Some((service.ports[0], alone.name.clone()))
}

fn rolled_out() -> World {
    let mut world = World::new();
    offered(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is rolled out", |world| world.ended().len() == 2);
    world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
    world
}

#[test]
fn operator_rollback_and_retirement_are_reported() {
    let mut world = rolled_out();
    world.until("the release is over", |world| world.core.state().work.is_none());
    world.undo(Some("shop")).unwrap();
    world.until("the first serves alone", |world| serving(world) == Some((80, "A".to_owned())));
    world.until("it is told", |world| world.ended().len() == 3);
    assert!(world.undo(Some("shop")).is_err(), "there is nothing to go back to any more");
    world.kill();
    world.retire("shop");
    world.until("it is told", |world| world.ended().len() == 4);
    let told = world.told.iter().rev().take(2).rev();
    let told: Vec<_> = told
        .map(|told| {
            let why = told.summary.why.as_ref().unwrap();
            (&*told.offer, &*told.stage, told.status, &*why.cause, &*why.text)
        })
        .collect();
    let taken_back = "taken back by an operator of the agent: it looks odd";
    let gone = "an operator of the agent has it led no more";
    assert_eq!(
        told,
        [
            ("r1", "half", StageStatus::Failure, "operator", taken_back),
            ("r1", "half", StageStatus::Error, "operator", gone)
        ]
    );
}

#[test]
fn what_won_serves_alone_on_and_a_kill_at_any_step_changes_nothing_of_that() {
    let world = rolled_out();
    assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Completed, "rollout".to_owned()));
    for steps in 0..60 {
        let mut world = World::new();
        offered(&mut world, "r1", 80, ["A", "B"]);
        world.steps(steps);
        world.kill();
        world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
    }
}

#[test]
fn last_stage_with_full_share_is_rolled_out_as_usual() {
    let mut world = World::new();
    let text = offer("r1", 80, ["A", "B"]).replace("{A: 50, B: 50}", "{A: 0, B: 100}");
    world.offers.push(("r1".to_owned(), text));
    world.until("it is rolled out", |world| world.ended().len() == 2);
    world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
}

#[test]
fn a_service_that_the_proxy_refuses_leaves_what_served_before() {
    // What was never led is let go.
    let mut world = World::new();
    world.closed_ports.insert(81);
    offered(&mut world, "r0", 81, ["A", "B"]);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Error);
    assert!(world.core.state().services.is_empty());

    // What was led goes on as it was, at its port.
    let mut world = rolled_out();
    world.closed_ports.insert(81);
    let before = world.core.state().services.clone();
    offered(&mut world, "r2", 81, ["B", "C"]);
    world.until("it is told", |world| world.ended().len() == 3);
    assert_eq!(world.ended()[2].1, StageStatus::Error);
    assert_eq!(world.core.state().services, before);
    world.until("its table is in force", |world| world.core.in_force().is_some());
    assert_eq!(serving(&world), Some((80, "B".to_owned())));
}

/// What a manager hands out to have a release rolled back.
fn undo(id: &str, port: u16, variations: [&str; 2]) -> String {
    let text = offer(id, port, variations);
    let (services, _) = text.split_once("stages:").expect("stages");
    let [stable, new] = variations;
    format!(
        "{services}stages:\n  - name: undo\n    type: WaitForSignal\n    shares: {{{stable}: 100, {new}: 0}}\n    metrics_conditions: \
         []\n    end_conditions: []\n    end_action: {{onSuccess: rollback, onFailure: rollback}}\n"
    )
}

/// It is offered to roll a release back, and says within some seconds that this is done.
fn is_rolled_back(world: &mut World, id: &str, port: u16, variations: [&str; 2]) {
    let (ended, applied) = (world.ended().len(), world.refused_applies);
    world.offers.push((format!("{id}.undo"), undo(&format!("{id}.undo"), port, variations)));
    world.signal(None);
    let until_ms = world.now_ms + 3_000;
    world.until("it is rolled back", |world| {
        assert!(world.now_ms < until_ms, "{}", world.log.join("\n"));
        world.ended().len() > ended && world.owed().is_empty()
    });
    let told = ("undo".to_owned(), StageStatus::Completed, "rollback".to_owned());
    assert_eq!(world.ended().last(), Some(&told));
    assert_eq!(world.refused_applies, applied, "what was refused is told once more");
}

#[test]
fn refused_service_is_rolled_back_by_removal_and_blocks_nothing() {
    for is_killed in [false, true] {
        let mut world = World::new();
        world.closed_ports.insert(81);
        offered(&mut world, "r0", 81, ["A", "B"]);
        world.until("it is told", |world| world.ended().len() == 1 && world.owed().is_empty());
        if is_killed {
            world.kill();
        }
        is_rolled_back(&mut world, "r0", 81, ["A", "B"]);
        assert!(world.core.state().services.is_empty());
        world.end = None;
        offered(&mut world, "r1", 80, ["A", "B"]);
        world.until("the next one serves", |world| serving(world) == Some((80, "B".to_owned())));
    }
}

#[test]
fn a_release_that_leaves_all_calls_where_they_are_is_no_rollback() {
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), undo("r1", 80, ["A", "B"])));
    world.signal(None);
    world.until("it serves alone", |world| serving(world) == Some((80, "A".to_owned())));
}

#[test]
fn a_release_that_was_refused_is_rolled_back_to_what_served_before_at_its_ports() {
    // Also where it has the variations of the one before, and is refused for another port.
    for variations in [["B", "C"], ["A", "B"]] {
        let mut world = rolled_out();
        world.closed_ports.insert(81);
        offered(&mut world, "r2", 81, variations);
        world.until("it is told", |world| world.ended().len() == 3 && world.owed().is_empty());
        is_rolled_back(&mut world, "r2", 81, variations);
        assert_eq!(serving(&world), Some((80, "B".to_owned())));
        world.kill();
        world.until("it serves on", |world| serving(world) == Some((80, "B".to_owned())));
    }
}

#[test]
fn possibly_applied_table_is_rolled_back_once_later_one_confirmed() {
    let mut world = World::new();
    // Nobody answers whether it is taken, and then it is refused.
    world.answers_late = true;
    offered(&mut world, "r0", 81, ["A", "B"]);
    world.until("it may come into force", |world| world.late.is_some());
    world.answers_late = false;
    world.closed_ports.insert(81);
    world.until("it is left out", |world| world.core.state().withdrawn.contains("shop"));
    world.proxy_away = true;
    world.until("it is told", |world| world.ended().len() == 1 && world.owed().is_empty());
    world.offers.push(("r0.undo".to_owned(), undo("r0.undo", 81, ["A", "B"])));
    world.signal(None);
    world.steps(400);
    world.kill();
    world.steps(400);
    assert_eq!(world.ended().len(), 1, "nothing is proven of a proxy that isn't reached");
    // What was told first comes into force after all.
    world.table = world.late.take();
    world.proxy_away = false;
    world.until("it is rolled back", |world| world.ended().len() == 2);
    assert_eq!(world.table.as_ref().map(|table| table.services.len()), Some(0));
    assert!(world.core.state().withdrawn.is_empty());
}

#[test]
fn agent_without_memory_rolls_back_service_seen_at_router() {
    let mut world = World::new();
    offered(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.forget_everything();
    world.offers = vec![("r1.undo".to_owned(), undo("r1.undo", 80, ["A", "B"]))];
    world.signal(None);
    world.until("it serves alone", |world| serving(world) == Some((80, "A".to_owned())));
}

/// The same release or rollback of what goes with that, where nothing led it before.
fn passing(text: &str) -> String {
    let passing = text.replace("    variations:\n", "    at_rollback: retire\n    variations:\n");
    assert_ne!(passing, text);
    passing
}

fn offered_passing(world: &mut World, id: &str, port: u16, variations: [&str; 2]) {
    world.offers.push((id.to_owned(), passing(&offer(id, port, variations))));
}

/// What the table in force says, byte for byte, but for its number.
fn in_force(world: &World) -> String {
    let services = world.table.as_ref().map(|table| &table.services);
    serde_json::to_string(&services.into_iter().flatten().collect::<Vec<_>>()).unwrap()
}

/// A release is over, and a table without its services was read back.
fn is_gone(world: &World) -> bool {
    let state = world.core.state();
    state.services.is_empty() && state.withdrawn.is_empty() && in_force(world) == "[]" && state.work.is_none()
}

/// A service is led, and a canary of another one has begun, which nothing led before. With the table from before that.
fn beside_a_first_canary() -> (World, String) {
    let mut world = rolled_out();
    world.until("all is told", |world| world.core.state().work.is_none() && world.owed().is_empty());
    let before = in_force(&world);
    let text = passing(&offer("c1", 81, ["A", "B"])).replace("name: shop", "name: basket");
    world.offers.push(("c1".to_owned(), text));
    world.until("it is tried", |world| world.share("basket") == 1_000);
    assert_ne!(in_force(&world), before);
    (world, before)
}

#[test]
fn a_service_that_came_with_a_canary_goes_with_it() {
    let is_as_before = |world: &World, before: &str| {
        let state = world.core.state();
        in_force(world) == before
            && state.work.is_none()
            && state.withdrawn.is_empty()
            && world.owed().is_empty()
    };
    let (mut world, before) = beside_a_first_canary();
    world.signal(Some(FollowUp::Rollback));
    world.until("its table is as before", |world| is_as_before(world, &before));
    assert_eq!(world.ended().last().map(|ended| ended.2.as_str()), Some("rollback"));
    assert_eq!(world.ended().len(), 3);
    assert!(!world.core.state().services.contains_key("basket"));
    // Killed at any step of that.
    for steps in 0..60 {
        let (mut world, before) = beside_a_first_canary();
        world.signal(Some(FollowUp::Rollback));
        world.steps(steps);
        world.kill();
        world.until("its table is as before", |world| is_as_before(world, &before));
        assert_eq!(world.ended().len(), 3, "{steps}");
        world.steps(100);
        assert!(is_as_before(&world, &before), "{steps}");
    }
}

#[test]
fn a_service_that_came_with_a_canary_stays_where_nobody_has_rolled_that_back() {
    type Trial = fn(&mut World);
    let stays = |world: &World| {
        let services = world.table.iter().flat_map(|table| &table.services);
        let basket: Vec<_> = services.filter(|service| service.name == "basket").collect();
        let [service] = basket[..] else { return false };
        let [alone] = &service.variations[..] else { return false };
        alone.name == "A" && service.ports == [81]
    };
    let trials: [(&str, usize, Trial); 3] = [
        ("the canary answers no more when it is to take over", 4, |world| {
            world.silent.insert("B".to_owned());
        }),
        ("the proxy refuses its shares", 3, |world| world.refused_share = Some(5_000)),
        ("an operator gives it back", 3, |world| {
            world.undo(Some("basket")).unwrap();
        }),
    ];
    for (what, ended, trial) in trials {
        let (mut world, _) = beside_a_first_canary();
        trial(&mut world);
        world.until("it is told", |world| world.ended().len() == ended && world.owed().is_empty());
        assert_eq!(world.ended().last().map(|ended| ended.2.as_str()), Some("rollback"), "{what}");
        world.until("the stable one serves alone", stays);
        world.kill();
        world.steps(100);
        assert!(stays(&world), "{what}");
        // Its rollback takes it along, where there is one.
        world.silent.clear();
        world.refused_share = None;
        world.signal(None);
        let text = passing(&undo("c1.undo", 81, ["A", "B"])).replace("name: shop", "name: basket");
        world.offers.push(("c1.undo".to_owned(), text));
        world.until("it is gone", |world| !world.core.state().services.contains_key("basket"));
    }
}

#[test]
fn what_came_with_a_canary_is_drained_before_it_goes_and_no_longer_than_its_deadline() {
    for ends in [true, false] {
        let (mut world, before) = beside_a_first_canary();
        let call = InFlight { service: "basket".to_owned(), variation: "B".to_owned(), calls: 1 };
        world.in_flight.push(call);
        world.signal(Some(FollowUp::Rollback));
        world.until("it has no share", |world| world.share("basket") == 0);
        let since_ms = world.now_ms;
        world.steps(60);
        assert!(world.core.state().services.contains_key("basket"), "a call of its canary goes on");
        assert_eq!(world.ended().len(), 2, "that is not told before it has ended");
        if ends {
            world.in_flight.clear();
        }
        world.until("its table is as before", |world| in_force(world) == before);
        assert_eq!(world.now_ms - since_ms >= 5_000, !ends, "{}", world.now_ms - since_ms);
    }
}

#[test]
fn a_service_that_a_former_release_leads_stays_whatever_a_later_one_wants() {
    for came in [false, true] {
        let mut world = World::new();
        let text = offer("r1", 80, ["A", "B"]);
        world.offers.push(("r1".to_owned(), if came { passing(&text) } else { text }));
        world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
        offered_passing(&mut world, "r2", 80, ["B", "C"]);
        world.until("it is tried", |world| world.share("shop") == 1_000);
        world.signal(Some(FollowUp::Rollback));
        world.until("it is told", |world| world.ended().len() == 3 && world.owed().is_empty());
        world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
        world.kill();
        world.steps(100);
        assert_eq!(serving(&world), Some((80, "B".to_owned())));
    }
}

#[test]
fn what_was_rolled_out_goes_with_the_rollback_of_its_own_release_alone() {
    for (id, goes) in [("r1.undo", true), ("r1.undo.2", true), ("r2.undo", false), ("r1.undoing.undo", false)]
    {
        let mut world = World::new();
        offered_passing(&mut world, "r1", 80, ["A", "B"]);
        world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
        world.kill();
        world.signal(None);
        world.offers.push((id.to_owned(), passing(&undo(id, 80, ["A", "B"]))));
        world.until("it is told", |world| world.ended().len() == 3 && world.owed().is_empty());
        if goes {
            world.until("it is gone", is_gone);
        }
        // Once more, as where the answer was lost: what isn't there isn't brought back.
        let again = format!("{id}.3").replace(".2.3", ".3");
        world.offers.push((again.clone(), passing(&undo(&again, 80, ["A", "B"]))));
        world.until("it is told", |world| world.ended().len() == 4 && world.owed().is_empty());
        world.steps(20);
        assert_eq!(is_gone(&world), goes, "{id}");
    }
}

#[test]
fn the_next_attempt_and_the_next_release_bring_it_anew_and_take_it_along() {
    for next in ["r1.r2", "r2"] {
        let mut world = World::new();
        // The second waits while the first is in hand, and begins before anything was read back.
        offered_passing(&mut world, "r1", 80, ["A", "B"]);
        offered_passing(&mut world, next, 80, ["A", "B"]);
        world.until("it is tried", |world| world.share("shop") == 1_000);
        world.signal(Some(FollowUp::Rollback));
        world.until("it is told", |world| world.ended().len() == 2 && world.owed().is_empty());
        world.until("it is gone", is_gone);
    }
}

#[test]
fn what_is_rolled_back_before_its_first_share_gets_none_and_goes() {
    let mut world = World::new();
    world.steps(20);
    offered_passing(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is begun", |world| world.core.state().services.contains_key("shop"));
    world.proxy_away = true;
    world.signal(Some(FollowUp::Rollback));
    world.steps(20);
    world.proxy_away = false;
    world.until("it is told", |world| world.ended().len() == 1 && world.owed().is_empty());
    world.until("it is gone", is_gone);
    for service in world.tables.iter().flat_map(|table| &table.services) {
        assert_eq!(service.runs, Some(vec![(0, 10_000, 0)]), "{service:?}");
    }
}

#[test]
fn an_agent_without_memory_lets_nothing_go_that_may_have_been_led_before() {
    for is_known in [false, true] {
        let mut world = World::new();
        offered_passing(&mut world, "r1", 80, ["A", "B"]);
        world.until("it is tried", |world| world.share("shop") == 1_000);
        world.forget_everything();
        if is_known {
            world.signal(Some(FollowUp::Rollback));
        } else {
            world.signal(None);
            world.offers = vec![("r1.undo".to_owned(), passing(&undo("r1.undo", 80, ["A", "B"])))];
        }
        world.until("it is told", |world| world.ended().len() == 1 && world.owed().is_empty());
        world.until("it serves alone", |world| serving(world) == Some((80, "A".to_owned())));
        world.steps(100);
        assert_eq!(serving(&world), Some((80, "A".to_owned())));
    }
    // Whose proxy has lost its table too knows that nothing is led there.
    let mut world = World::new();
    offered_passing(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.forget_everything();
    world.table = None;
    world.until("it is tried again", |world| world.share("shop") == 1_000);
    world.signal(Some(FollowUp::Rollback));
    world.until("it is gone", is_gone);
}

#[test]
fn what_a_service_says_of_its_connections_is_in_the_table() {
    let passing = "[{port: 443, protocol: HTTPS, hosts: [b.example, a.example], tls: pass}, {port: 444, protocol: HTTPS, hosts: \
                   [a.example], tls: pass}, {port: 445, protocol: HTTPS, tls: pass}]";
    for (ports, keys, format, expected) in [
        ("[{port: 443}]", "", 2, json!([null, [443], null, null, null])),
        ("[{port: 443, protocol: HTTPS}]", "proxy_protocol: v2", 3, json!([null, [443], null, "v2", null])),
        (
            "[{port: 443, protocol: TCP}]",
            "proxy_protocol: v1\n    drain: 1h",
            3,
            json!(["tcp", [443], null, "v1", 3_600]),
        ),
        ("[{port: 443, protocol: UDP}]", "drain: 0s", 3, json!(["udp", [443], null, null, 0])),
        (passing, "drain: 30d", 3, json!(["tls", [445], ["a.example", "b.example"], null, 2_592_000])),
    ] {
        let mut world = World::new();
        let text = offer("r1", 443, ["A", "B"]).replace("[{port: 443}]", ports);
        let text = text.replace("    variations:\n", &format!("    {keys}\n    variations:\n"));
        world.offers.push(("r1".to_owned(), text));
        world.until("it is tried", |world| world.share("shop") == 1_000);
        let table = world.table.as_ref().unwrap();
        let service = serde_json::to_value(&table.services[0]).unwrap();
        let said = ["protocol", "ports", "hosts", "proxy_protocol", "drain_seconds"].map(|key| &service[key]);
        assert_eq!((json!(said), table.format), (expected, format), "{ports}");
    }
}

#[test]
fn a_service_that_an_operator_retires_is_gone_after_a_kill_too() {
    let mut world = rolled_out();
    world.until("all is told", |world| world.core.state().work.is_none() && world.owed().is_empty());
    world.retire("shop");
    world.kill();
    world.until("it is gone", is_gone);
}

#[test]
fn table_that_waits_for_others_is_tried_each_second_however_long_that_takes() {
    let mut world = rolled_out();
    world.until("all is told", |world| world.core.state().work.is_none() && world.owed().is_empty());
    world.waits_for_others = true;
    world.retire("shop");
    let since_ms = world.now_ms;
    world.steps(2_000);
    let seconds = ((world.now_ms - since_ms) / 1_000) as usize;
    let tries = world.waiting_applies;
    assert!((seconds - 5..=seconds + 1).contains(&tries), "{tries} tries in {seconds} s");
    assert_eq!(serving(&world), Some((80, "B".to_owned())), "it serves on meanwhile");
    world.waits_for_others = false;
    let since_ms = world.now_ms;
    world.until("it is gone", is_gone);
    assert!(world.now_ms - since_ms <= 1_500, "{} ms", world.now_ms - since_ms);
}

#[test]
fn a_rollback_of_what_may_be_in_force_is_told_until_it_is_read_back() {
    let mut world = World::new();
    offered(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.forget_everything();
    world.closed_ports.insert(80);
    world.offers = vec![("r1.undo".to_owned(), undo("r1.undo", 80, ["A", "B"]))];
    world.signal(None);
    world.steps(200);
    assert!(world.ended().is_empty(), "{:?}", world.ended());
    world.closed_ports.clear();
    world.until("it serves alone", |world| serving(world) == Some((80, "A".to_owned())));
}

#[test]
fn a_table_that_is_refused_in_mid_release_is_no_end_of_what_serves() {
    let mut world = World::new();
    offered(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.steps(5);
    // As where somebody else has put another table of this number in force.
    world.closed_ports.insert(80);
    world.until("the next stage is decided", |world| {
        world.core.state().services["shop"].shares() == [5_000, 5_000]
    });
    world.steps(20);
    assert_eq!(world.core.state().services["shop"].shares(), [5_000, 5_000]);
    world.closed_ports.clear();
    world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
}

/// Refuses what half of the calls go to the new variation by, from the end of the first stage on.
fn refused_in_the_second_stage() -> World {
    let mut world = World::new();
    offered(&mut world, "r1", 80, ["A", "B"]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.refused_share = Some(5_000);
    world.until("the next stage is decided", |world| {
        world.core.state().services["shop"].shares() == [5_000, 5_000]
    });
    world
}

#[test]
fn shares_that_the_proxy_goes_on_refusing_are_taken_back_with_the_reason() {
    let mut world = refused_in_the_second_stage();
    world
        .until("it gives everything to what is stable", |world| serving(world) == Some((80, "A".to_owned())));
    world.until("it is told", |world| world.owed().is_empty() && world.ended().len() == 1);
    assert_eq!(world.ended()[0], ("little".to_owned(), StageStatus::Failure, "rollback".to_owned()));
    assert!(world.core.state().work.is_none());
}

#[test]
fn rollback_skips_shares_that_proxy_has_not_yet_applied() {
    let mut world = refused_in_the_second_stage();
    world.signal(Some(FollowUp::Rollback));
    world.until("it is decided", |world| world.core.state().services["shop"].shares() == [10_000, 0]);
    // Nothing is wrong any more, and half of the calls are never given to the new one.
    world.refused_share = None;
    world.until("it serves alone", |world| {
        assert_ne!(world.share("shop"), 5_000);
        serving(world) == Some((80, "A".to_owned()))
    });
    assert_eq!(world.ended().last().map(|ended| ended.2.as_str()), Some("rollback"));
}

/// Three variations, the second of which the stages lead to.
fn three(world: &mut World) {
    let text = offer("r1", 80, ["A", "B"])
        .replace("stages:\n", "      - {name: C, targets: [\"127.0.0.1:9067\"]}\nstages:\n")
        .replace("{A: 90, B: 10}", "{A: 80, B: 15, C: 5}")
        .replace("{A: 50, B: 50}", "{A: 0, B: 90, C: 10}")
        .replace("type: Traffic", "type: WaitForSignal");
    world.offers.push(("r1".to_owned(), text));
}

fn wins(variation: &str, skip: &[&str]) -> protocol::EndStageAnswer {
    let skip = skip.iter().map(|stage| (*stage).to_owned()).collect();
    protocol::EndStageAnswer {
        end_stage: true,
        skip,
        winner: Some(variation.to_owned()),
        ..protocol::EndStageAnswer::default()
    }
}

#[test]
fn the_variation_that_the_manager_chose_wins_after_a_kill_at_any_step_too() {
    let mut world = World::new();
    three(&mut world);
    world.signal(None);
    world.until("the stages decide", |world| serving(world) == Some((80, "B".to_owned())));
    for steps in 0..60 {
        let mut world = World::new();
        three(&mut world);
        world.end = Some(wins("C", &[]));
        world.steps(steps);
        world.kill();
        world.until("it serves alone", |world| {
            let serving = serving(world);
            assert!(serving.as_ref().is_none_or(|(_, name)| name != "B"), "{steps}");
            serving == Some((80, "C".to_owned()))
        });
    }
}

#[test]
fn stages_skipped_for_another_winner_raise_no_losing_share() {
    let mut world = World::new();
    three(&mut world);
    world.until("it is tried", |world| {
        world.core.state().services.get("shop").is_some_and(|led| led.shares() == [8_000, 1_500, 500])
    });
    world.end = Some(wins("C", &["little", "half"]));
    let mut seen = std::collections::BTreeSet::new();
    world.until("it serves alone", |world| {
        seen.insert(world.core.state().services["shop"].shares());
        serving(world) == Some((80, "C".to_owned()))
    });
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen, [[0, 0, 10_000], [8_000, 1_500, 500]]);
}

#[test]
fn a_chosen_winner_that_does_not_answer_gives_everything_back() {
    let mut world = World::new();
    three(&mut world);
    world.silent.insert("C".to_owned());
    world.end = Some(wins("C", &[]));
    world.until("it serves alone", |world| serving(world) == Some((80, "A".to_owned())));
    assert_eq!(world.ended().last().unwrap().2, "rollback");
}

/// Half of the calls go to the new variation, and who asks gets it too.
fn asked_for(shares: [u16; 2]) -> World {
    let mut world = World::new();
    let [stable, new] = shares;
    let text =
        offer("r1", 80, ["A", "B"]).replace("{A: 90, B: 10}", &format!("{{A: {stable}, B: {new}}}")).replace(
            "    variations:\n",
            "    header: {name: X-Variation, values: {B: B, A: A}}\n    variations:\n",
        );
    world.offers.push(("r1".to_owned(), text));
    world.until("it is tried", |world| {
        world.core.is_in_force() && serving(world).is_none() && world.table.is_some()
    });
    world
}

/// To which variations callers come who ask.
fn asked(world: &World) -> Vec<&str> {
    let headers = world.table.iter().flat_map(|table| &table.services).filter_map(|one| one.header.as_ref());
    headers.flat_map(|header| header.values.values()).map(String::as_str).collect()
}

#[test]
fn header_routed_calls_follow_share_in_rollback_and_rollout() {
    for (then, winner) in [(Some(FollowUp::Rollback), "A"), (None, "B")] {
        let mut world = asked_for([50, 50]);
        assert_eq!(asked(&world), ["A", "B"]);
        if then.is_some() {
            world.signal(then);
        }
        world.until("it serves alone", |world| serving(world) == Some((80, winner.to_owned())));
        for table in &world.tables {
            let service = &table.services[0];
            let runs = service.runs.as_ref().expect("runs");
            let [(0, 10_000, all)] = runs[..] else { continue };
            let Some(header) = &service.header else { continue };
            let name = &service.variations[usize::from(all)].name;
            assert!(header.values.values().all(|to| to == name), "{service:?}");
        }
    }
}

#[test]
fn a_stage_without_a_share_is_judged_by_those_who_ask_for_the_new_variation() {
    for (errors, ends_well) in [(0, true), (66, false), (100, false)] {
        let mut world = asked_for([100, 0]);
        world.asks = 40;
        world.errors.insert("B", errors);
        world.until("the stage has ended", |world| !world.ended().is_empty());
        let ended = &world.ended()[0];
        let status = if ends_well { StageStatus::Completed } else { StageStatus::Failure };
        assert_eq!((ended.0.as_str(), ended.1), ("little", status), "{errors} % of errors");
        let summary = &world.told.iter().find(|told| told.status == status).expect("it is told").summary;
        assert_eq!(summary.f2_calls, Some(0), "they are no part of the split");
        assert_eq!(summary.why.is_some(), !ends_well);
    }
    // Nobody asks, and so there is nothing to be judged.
    let mut world = asked_for([100, 0]);
    world.until("the stage has ended", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Completed);
}
