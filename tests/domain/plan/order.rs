use domain::plan::{Point, Shape, metres_from, plan};
use language::{Amount, Order, Rollout};
use model::Capabilities;
use proptest::prelude::*;

use super::{Child, Children, planned, rectangle, strategy};

fn agents(id: &str, agents: u32) -> Child {
    Child { agents, ..Child::nowhere(id) }
}

#[test]
fn waves_count_agents_and_spread_a_manager_over_several() {
    let strategy = strategy("rollout: {order: waves, waves: [1, 10%, 50%, 100%]}");
    let list = vec![agents("a", 1), agents("rm", 60), agents("b", 1), agents("c", 38)];
    let (plan, _) = planned(&strategy, list);
    assert_eq!(plan.waves.iter().map(|wave| wave.agents).collect::<Vec<_>>(), [1, 10, 50, 100]);
    assert_eq!((0..4).map(|at| plan.wave(at)).collect::<Vec<_>>(), [0, 1, 3, 3]);
    assert_eq!((0..4).map(|wave| plan.quota(1, wave)).collect::<Vec<_>>(), [0, 9, 49, 60]);
    assert_eq!((0..4).map(|wave| plan.quota(0, wave)).collect::<Vec<_>>(), [1, 1, 1, 1]);
    assert_eq!(plan.by_wave(), [(1, 1), (1, 9), (0, 40), (2, 50)]);
}

#[test]
fn waves_grow_by_one_at_least_and_empty_ones_are_left_out() {
    let strategy = strategy("rollout: {order: waves, waves: [1%, 2%, 3%, 100%]}");
    let plan_of = |count: u32| {
        let list = (0..count).map(|at| agents(&at.to_string(), 1)).collect();
        planned(&strategy, list).0.waves.iter().map(|wave| wave.agents).collect::<Vec<_>>()
    };
    assert_eq!(plan_of(0), [0; 0]);
    assert_eq!(plan_of(1), [1]);
    assert_eq!(plan_of(2), [1, 2]);
    assert_eq!(plan_of(10), [1, 2, 3, 10]);
    assert_eq!(plan_of(200), [2, 4, 6, 200]);
}

#[test]
fn locations_follow_each_other_by_distance_and_then_by_id() {
    let strategy = strategy("rollout: {order: location_sequential, start_at: [13.4, 52.5]}");
    let list = vec![
        Child::at("far", &rectangle(20.0, 52.0, 21.0, 53.0)),
        Child::nowhere("unknown"),
        Child::at("z-around", &rectangle(13.0, 52.0, 14.0, 53.0)),
        Child::at("west", &rectangle(12.0, 52.0, 12.5, 53.0)),
        Child::at("a-around", &rectangle(13.3, 52.4, 13.5, 52.6)),
        Child::at("east", &rectangle(14.2, 52.0, 15.0, 53.0)),
    ];
    let (plan, children) = planned(&strategy, list);
    let turns: Vec<&str> = plan
        .sequence
        .iter()
        .map(|at| children.list[plan.members[*at as usize].0 as usize].id.as_str())
        .collect();
    assert_eq!(turns, ["a-around", "z-around", "east", "west", "far", "unknown"]);
}

#[test]
fn distances_are_metres_on_the_globe() {
    let metres = |x: f64, y: f64, area: &str| metres_from(Point { x, y }, &Shape::read(area).unwrap());
    let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-3, "{found}");
    let degree = 111_195.0;
    close(metres(0.0, 0.0, &rectangle(1.0, -1.0, 2.0, 1.0)), degree);
    close(metres(0.0, 0.0, &rectangle(-1.0, 3.0, 1.0, 4.0)), 3.0 * degree);
    close(metres(0.0, 60.0, &rectangle(1.0, 59.0, 2.0, 61.0)), degree / 2.0);
    assert!(metres(1.5, 0.0, &rectangle(1.0, -1.0, 2.0, 1.0)) == 0.0);
    // Over the antimeridian it is near.
    close(metres(179.5, 0.0, &rectangle(-179.5, -1.0, -179.0, 1.0)), degree);
    close(metres(-179.5, 0.0, &rectangle(178.0, -1.0, 179.5, 1.0)), degree);
    assert!(metres(-175.0, 0.0, &rectangle(184.0, -1.0, 186.0, 1.0)) == 0.0);
}

proptest! {
    #[test]
    fn every_agent_has_its_turn_in_exactly_one_wave(
        children in prop::collection::vec(0..50_u32, 0..40),
        shares in prop::collection::btree_set(1..1_000_000_u32, 0..8),
    ) {
        let mut strategy = strategy("");
        let waves = shares.into_iter().map(Amount::Share).chain([Amount::WHOLE]).collect();
        strategy.rollout = Some(Rollout { order: Order::Waves(waves), ..Rollout::default() });
        let list: Vec<Child> = children.iter().map(|count| agents("x", *count)).collect();
        let plan = plan(&strategy, &Children::new(list));
        let total: u32 = children.iter().sum();
        let mut last = 0;
        for (number, wave) in plan.waves.iter().enumerate() {
            prop_assert!(wave.agents > last || total == 0);
            let quotas = (0..children.len()).map(|at| plan.quota(at, number));
            prop_assert_eq!(quotas.sum::<u32>(), wave.agents);
            last = wave.agents;
        }
        prop_assert_eq!(last, total);
        for (at, count) in children.iter().enumerate() {
            let first = plan.wave(at);
            prop_assert!(first < plan.waves.len());
            prop_assert!(*count == 0 || plan.quota(at, first) > 0);
            prop_assert!(first == 0 || plan.quota(at, first - 1) == 0);
        }
        prop_assert_eq!(plan.by_wave().iter().map(|(children, _)| children).sum::<u32>() as usize, children.len());
    }
}

#[test]
fn a_hybrid_parts_agents_and_routers_and_gives_each_group_waves_of_its_own() {
    let services = "services:\n  - name: shop\n    routers: {labels: {site: shop}}\n    ports: [{port: 80}]\n    variations: [{name: A, \
                    targets: [\"a:1\"]}, {name: B, targets: [\"b:1\"]}]\nstrategy: blue-green-instant\n";
    let text = "rollout: {order: waves, waves: [1, 50%, 100%]}\n".to_owned() + services;
    let strategy = super::strategy(&text);
    let agent = |id: &str| Child::nowhere(id);
    let leads = |id: &str, runtimes: Option<&str>, site: &str| {
        let capabilities = Capabilities {
            routers: vec!["embedded".to_owned()],
            runtimes: Some(runtimes.into_iter().map(str::to_owned).collect()),
            labels: [("site".to_owned(), site.to_owned())].into(),
            ..Capabilities::default()
        };
        Child { capabilities: Some(capabilities), ..Child::nowhere(id) }
    };
    let runtime = Some(strategy.functions[0].new.env.as_str());
    let list = vec![
        leads("named router", runtime, "shop"),
        agent("a1"),
        leads("own agent", runtime, "other"),
        leads("no router of it", None, "other"),
        agent("a2"),
        leads("router", None, "shop"),
        agent("a3"),
    ];
    let (plan, children) = planned(&strategy, list.clone());
    let named = |at: usize| children.list[plan.members[at].0 as usize].id.as_str();
    let of = |routers: bool| -> Vec<(&str, usize)> {
        let members = (0..plan.members.len()).filter(|at| plan.is_router(*at) == routers);
        members.map(|at| (named(at), plan.wave(at))).collect()
    };
    assert_eq!(of(false), [("a1", 0), ("own agent", 1), ("a2", 2), ("a3", 2)]);
    assert_eq!(of(true), [("named router", 3), ("router", 4)]);
    assert_eq!(plan.waves.iter().map(|wave| wave.agents).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
    assert_eq!(super::reasons(&plan, &strategy), [("leads no router of shop".to_owned(), 1)]);
    // Without routers there is nothing for the agents to do.
    let (plan, _) = planned(&strategy, vec![agent("a1"), agent("a2")]);
    assert!(plan.members.is_empty());
    let alone = "takes no part alone: there are no routers for this release".to_owned();
    assert_eq!(super::reasons(&plan, &strategy), [(alone, 2)]);
}

#[test]
fn agents_of_a_hybrid_are_those_with_the_labels_of_its_functions() {
    let services = "services:\n  - name: shop\n    ports: [{port: 80}]\n    variations: [{name: A, targets: [\"a:1\"]}, {name: B, targets: \
                    [\"b:1\"]}]\nstrategy: blue-green-instant\n";
    let mut strategy = super::strategy(services);
    strategy.functions[0].agents = [("tier".to_owned(), "batch".to_owned())].into();
    let child = |id: &str, routers: &[&str], tier: &str| {
        let capabilities = Capabilities {
            routers: routers.iter().map(|kind| (*kind).to_owned()).collect(),
            runtimes: Some(vec![strategy.functions[0].new.env.clone()]),
            labels: [("tier".to_owned(), tier.to_owned())].into(),
            ..Capabilities::default()
        };
        Child { capabilities: Some(capabilities), ..Child::nowhere(id) }
    };
    let list = vec![
        child("agent", &[], "batch"),
        child("agent with a proxy", &["embedded"], "batch"),
        child("of another tier", &[], "web"),
        child("proxy of another tier", &["embedded"], "web"),
    ];
    let (plan, children) = planned(&strategy, list);
    let named = |is_router: bool| -> Vec<&str> {
        let members = (0..plan.members.len()).filter(|at| plan.is_router(*at) == is_router);
        members.map(|at| children.list[plan.members[at].0 as usize].id.as_str()).collect()
    };
    assert_eq!(named(false), ["agent", "agent with a proxy"]);
    assert_eq!(named(true), ["proxy of another tier"], "who leads a router and is not to run the functions");
    let why = "is not among the agents of sieve".to_owned();
    assert_eq!(super::reasons(&plan, &strategy), [(why, 1)]);
}
