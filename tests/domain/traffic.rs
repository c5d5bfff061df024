//! What is told of routers, and asked of them.

use std::sync::Arc;

use domain::{
    children::{self, Poll, Profile},
    release::{
        advance,
        change::Change,
        command::{Command, LastSeen, NoReply, Refusal, Reply},
        settings::Settings,
        state::State,
    },
    traffic::{
        self, BURST, MAX_ORDERS, MEASURED_EVERY_MS, OrderAsked, OrderState, Report, RouterConcern,
        RouterReport, Service, ToldDrift, ToldOrder, Variation, sums,
    },
};
use model::{
    Capabilities, ChildId, ChildKey, ChildKind, Now,
    traffic::{DriftThen, LedForm, LedVariation, OrderWhat, RouterPhase, TargetCount},
};
use proptest::prelude::*;

struct Nobody;

impl LastSeen for Nobody {
    fn last_call(&self, _: ChildKey) -> Option<u64> {
        None
    }
}

/// A state with one child that leads a router, and another that only applies what the first one's commands changed.
struct World {
    state: State,
    replayed: State,
    now: Now,
}

const ROUTER: &str = "edge-1";
const KEY: ChildKey = ChildKey(0);

impl World {
    fn new() -> Self {
        let mut world = Self {
            state: State::new(Settings::default()),
            replayed: State::new(Settings::default()),
            now: Now { wall_ms: 1_700_000_000_000, served_ms: 1_000 },
        };
        let capabilities = Capabilities { routers: vec!["nginx".to_owned()], ..Capabilities::default() };
        let poll = Poll {
            child: Some(ChildId::parse(ROUTER).unwrap()),
            fresh: ChildId::parse("fresh").unwrap(),
            area: None,
            address: None,
            agents: 1,
            profile: Some(Profile { name: None, kind: ChildKind::Agent, capabilities }),
            tenant: None,
        };
        world.command(&Command::Children(children::Command::Poll(poll))).1.unwrap();
        world
    }

    fn command(&mut self, command: &Command) -> (Vec<Change>, Result<Reply, NoReply>) {
        let (changes, answer) = advance(&mut self.state, &Nobody, command, self.now);
        for change in &changes {
            self.replayed.apply(change);
        }
        assert_eq!(self.state.traffic.get(KEY), self.replayed.traffic.get(KEY));
        let bytes: usize = self.state.traffic.iter().map(|(_, router)| router.bytes()).sum();
        assert_eq!(
            (self.state.traffic.bytes(), self.state.traffic.len()),
            (bytes, self.state.traffic.iter().count())
        );
        (changes, answer)
    }

    fn tell(&mut self, report: &Report) -> Result<bool, NoReply> {
        let command = traffic::Command::Report { child: ROUTER.to_owned(), report: Box::new(report.clone()) };
        match self.command(&Command::Traffic(command)).1? {
            Reply::Told { is_news } => Ok(is_news),
            other => panic!("{other:?}"),
        }
    }

    fn order(&mut self, within_ms: u64) -> Result<u64, NoReply> {
        let by = "operator:ada".to_owned();
        let asked = OrderAsked { what: OrderWhat::Repair, service: None, config: None, within_ms, by };
        let command = traffic::Command::Order { child: ROUTER.to_owned(), asked };
        match self.command(&Command::Traffic(command)).1? {
            Reply::Ordered { number } => Ok(number),
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.served_ms += ms;
        self.now.wall_ms += ms.cast_signed();
    }

    fn open(&self) -> Vec<u64> {
        let router = self.state.traffic.get(KEY).unwrap();
        let open = router.orders.iter().filter(|order| order.state(self.now.served_ms) == OrderState::Open);
        open.map(|order| order.number).collect()
    }
}

fn service(name: &str, b: u16, calls: u64) -> Service {
    let variation = |name: &str, share: u16| Variation {
        name: name.to_owned(),
        wanted: share,
        seen: Some(share),
        targets: TargetCount { healthy: Some(1), total: 1 },
        draining: None,
        calls: Some(calls),
        errors: Some(0),
        histogram: None,
    };
    let led = |name: &str| LedVariation {
        name: name.to_owned(),
        targets: vec![format!("127.0.0.1:{}", 9000 + name.len())],
        health: None,
    };
    let led = LedForm { variations: vec![led("A"), led("B")], ..LedForm::default() };
    let variations = vec![variation("A", 10_000 - b), variation("B", b)];
    Service { led: Arc::new(led), measured_ms: Some(calls), ..Service::told(name.to_owned(), variations) }
}

fn report(services: Vec<Service>) -> Report {
    let told = RouterReport {
        kind: "nginx".to_owned(),
        version: None,
        phase: RouterPhase::InForce,
        trouble: None,
        is_reached: true,
        repairs: 0,
        ports: None,
        takeover_trouble: None,
        untold: 0,
    };
    Report { told, services, drifts: Vec::new(), answers: Vec::new() }
}

/// What a router says otherwise than one where all is well.
type Told = fn(&mut RouterReport);

#[test]
fn the_most_urgent_of_what_is_the_matter_with_a_router_is_told() {
    let of = |change: Told| {
        let mut world = World::new();
        let mut report = report(Vec::new());
        world.tell(&report).unwrap();
        // What is counted is not kept at once.
        world.pass(MEASURED_EVERY_MS);
        change(&mut report.told);
        world.tell(&report).unwrap();
        world.state.traffic.get(KEY).unwrap().concern()
    };
    let table: [(Told, Option<RouterConcern>); 12] = [
        (|_| (), None),
        (|told| told.phase = RouterPhase::Idle, None),
        (|told| told.phase = RouterPhase::Telling, None),
        (|told| told.takeover_trouble = Some("no right to".to_owned()), Some(RouterConcern::NoTakeover)),
        (|told| told.repairs = 1, Some(RouterConcern::Repaired)),
        (|told| told.phase = RouterPhase::Accepted, Some(RouterConcern::Accepted)),
        (|told| told.phase = RouterPhase::Paused, Some(RouterConcern::LeftAlone)),
        (|told| told.trouble = Some("refused".to_owned()), Some(RouterConcern::Hindered)),
        (|told| told.phase = RouterPhase::Superseded, Some(RouterConcern::Superseded)),
        (|told| told.is_reached = false, Some(RouterConcern::Unreached)),
        (
            |told| (told.is_reached, told.phase) = (false, RouterPhase::Waiting),
            None, // It was not read yet.
        ),
        (
            |told| (told.repairs, told.phase, told.is_reached) = (3, RouterPhase::Paused, true),
            Some(RouterConcern::LeftAlone),
        ),
    ];
    for (at, (change, expected)) in table.into_iter().enumerate() {
        assert_eq!(of(change), expected, "line {at}");
    }
}

#[test]
fn counts_alone_are_kept_now_and_then_and_are_no_news() {
    let mut world = World::new();
    assert!(world.tell(&report(vec![service("checkout", 1_000, 1)])).unwrap());
    let calls = |world: &World| {
        world.state.traffic.get(KEY).unwrap().service("checkout").unwrap().variations[0].calls
    };
    world.pass(1);
    assert!(!world.tell(&report(vec![service("checkout", 1_000, 2)])).unwrap());
    assert_eq!(calls(&world), Some(1));
    world.pass(MEASURED_EVERY_MS);
    assert!(!world.tell(&report(vec![service("checkout", 1_000, 3)])).unwrap());
    assert_eq!(calls(&world), Some(3));
}

#[test]
fn an_order_is_answered_once_and_its_place_is_given_again_once_it_is_over() {
    let mut world = World::new();
    world.tell(&report(vec![service("checkout", 0, 1)])).unwrap();
    let numbers: Vec<u64> = (0..MAX_ORDERS).map(|_| world.order(1_000).unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(world.open(), numbers);
    let full = NoReply::Refused(Refusal::Limit { what: "orders to a router that wait", limit: MAX_ORDERS });
    assert_eq!(world.order(1_000).unwrap_err(), full);
    let answered = |is_ok| Report {
        answers: vec![ToldOrder { number: numbers[3], is_ok, text: String::new(), left_over: Vec::new() }],
        ..report(vec![service("checkout", 0, 1)])
    };
    assert!(world.tell(&answered(true)).unwrap());
    assert!(!world.tell(&answered(false)).unwrap());
    let state = |world: &World, number| {
        let router = world.state.traffic.get(KEY).unwrap();
        router
            .orders
            .iter()
            .find(|order| order.number == number)
            .map(|order| order.state(world.now.served_ms))
    };
    assert_eq!(state(&world, numbers[3]), Some(OrderState::Done));
    let next = world.order(1_000).unwrap();
    assert!(next > numbers[MAX_ORDERS - 1]);
    assert_eq!(state(&world, numbers[3]), None);
    world.pass(1_000);
    assert_eq!(world.open(), [0_u64; 0]);
    assert_eq!(state(&world, numbers[0]), Some(OrderState::Expired));
    // Too late: nobody asks any more.
    let late = ToldOrder { number: numbers[0], is_ok: true, text: String::new(), left_over: Vec::new() };
    world.tell(&Report { answers: vec![late], ..report(vec![service("checkout", 0, 1)]) }).unwrap();
    assert_eq!(state(&world, numbers[0]), Some(OrderState::Expired));
}

#[test]
fn a_drift_that_is_told_again_is_known() {
    let mut world = World::new();
    let drift = |number| ToldDrift {
        number,
        at_ms: 5,
        service: Some("checkout".to_owned()),
        wanted: "90/10 %".to_owned(),
        seen: "50/50 %".to_owned(),
        then: DriftThen::Repaired,
    };
    let with = |numbers: &[u64]| Report {
        drifts: numbers.iter().copied().map(drift).collect(),
        ..report(vec![service("checkout", 1_000, 1)])
    };
    for (numbers, drifts) in [(vec![7], 1), (vec![7], 1), (vec![3, 7, 8], 2), (vec![], 2)] {
        world.tell(&with(&numbers)).unwrap();
        assert_eq!(world.state.traffic.get(KEY).unwrap().drifts, drifts, "{numbers:?}");
    }
}

#[test]
fn sums_tell_the_lowest_and_the_highest_and_count_each_target_once() {
    let (one, mut other) = (service("checkout", 1_000, 90), service("checkout", 0, 10));
    other.variations[1].seen = None;
    other.variations[1].targets.healthy = Some(0);
    let all = sums([&one, &other]);
    let b = &all[1];
    assert_eq!((b.wanted, b.seen, b.calls, b.unproven), ((0, 1_000), Some((1_000, 1_000)), 100, 1));
    assert_eq!((b.healthy, b.targets, all[0].healthy), (Some(0), 1, Some(1)));
}

#[derive(Debug, Clone)]
enum Step {
    Tell(Vec<(u8, u16, u64)>),
    Order(u64),
    Answer(usize, bool),
    Drift(u64),
    Pass(u64),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec((0_u8..5, 0_u16..=10_000, 0_u64..5), 0..4).prop_map(Step::Tell),
        2 => (1_u64..50_000).prop_map(Step::Order),
        2 => (0..MAX_ORDERS, any::<bool>()).prop_map(|(place, ok)| Step::Answer(place, ok)),
        1 => (0_u64..6).prop_map(Step::Drift),
        3 => (0_u64..20_000).prop_map(Step::Pass),
        1 => Just(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    /// Whatever is told and asked: the record says what was told last, changes alone lead to the same record, what is told twice
    /// changes nothing the second time, and nothing grows beyond its bounds.
    #[test]
    fn what_is_known_is_what_was_told_last(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        let mut last = report(Vec::new());
        for step in steps {
            match step {
                Step::Tell(services) => {
                    let mut named = std::collections::BTreeMap::new();
                    for (name, b, calls) in services {
                        named.insert(name, service(&format!("s{name}"), b, calls));
                    }
                    last = report(named.into_values().collect());
                    world.tell(&last).unwrap();
                    prop_assert_eq!(world.tell(&last), Ok(false));
                    let router = world.state.traffic.get(KEY).unwrap();
                    let mut known: Vec<(&str, Vec<u16>)> =
                        router.services().map(|one| (one.name.as_str(), one.wanted())).collect();
                    known.sort();
                    let told: Vec<(&str, Vec<u16>)> =
                        last.services.iter().map(|one| (one.name.as_str(), one.wanted())).collect();
                    prop_assert_eq!(known, told);
                    prop_assert!(router.services.len() <= 5);
                }
                Step::Order(within_ms) => {
                    let is_led = world.state.traffic.get(KEY).is_some();
                    let open = if is_led { world.open().len() } else { 0 };
                    prop_assert_eq!(world.order(within_ms).is_ok(), is_led && open < MAX_ORDERS);
                }
                Step::Answer(place, is_ok) => {
                    let Some(number) = world.state.traffic.get(KEY).and_then(|router| Some(router.orders.get(place)?.number)) else { continue };
                    let told = ToldOrder { number, is_ok, text: String::new(), left_over: Vec::new() };
                    let with = Report { answers: vec![told], ..last.clone() };
                    world.tell(&with).unwrap();
                    prop_assert!(!world.open().contains(&number));
                }
                Step::Drift(number) => {
                    let drift = ToldDrift { number, at_ms: 1, service: None, wanted: String::new(), seen: String::new(), then: DriftThen::Accepted };
                    world.tell(&Report { drifts: vec![drift], ..last.clone() }).unwrap();
                }
                Step::Pass(ms) => world.pass(ms),
                Step::Forget => {
                    let forget = children::Command::Forget { child: ROUTER.to_owned(), even_if_it_owes: true };
                    let _ = world.command(&Command::Children(forget));
                    prop_assert!(world.state.traffic.is_empty());
                    break;
                }
            }
        }
    }
}

#[test]
fn a_router_that_changes_all_the_time_is_slowed_down() {
    let mut world = World::new();
    let shares = |at: u32| report(vec![service("checkout", u16::try_from(at % 2).unwrap(), 1)]);
    let taken = (0..10 * BURST).take_while(|at| world.tell(&shares(*at)).is_ok()).count();
    // The first report says how the router is, beside the shares.
    assert_eq!(taken, BURST as usize - 1);
    world.pass(traffic::REFILL_MS);
    let next = u32::try_from(taken).unwrap();
    assert!(world.tell(&shares(next)).is_ok());
    assert!(world.tell(&shares(next + 1)).is_err());
}

#[test]
fn how_many_targets_are_healthy_is_unknown_where_no_router_looks() {
    let of = |healthy: Option<u32>| {
        let mut service = service("checkout", 1_000, 1);
        service.variations[1].targets.healthy = healthy;
        service
    };
    let healthy = |routers: &[Option<u32>]| {
        let services: Vec<Service> = routers.iter().copied().map(of).collect();
        let sums = sums(&services);
        (sums[1].healthy, sums[1].healthy_percent())
    };
    assert_eq!(healthy(&[None]), (None, None));
    assert_eq!(healthy(&[None, None]), (None, None));
    assert_eq!(healthy(&[Some(1)]), (Some(1), Some(100.0)));
    assert_eq!(healthy(&[None, Some(0)]), (Some(0), Some(0.0)), "the same targets: one that looks is enough");
    let mut world = World::new();
    world.tell(&report(vec![of(Some(0))])).unwrap();
    let is_health = |change: &&Change| matches!(change, Change::Traffic(traffic::Change::Health { .. }));
    let told = |report: &Report| traffic::Command::Report {
        child: ROUTER.to_owned(),
        report: Box::new(report.clone()),
    };
    let (changes, answer) = world.command(&Command::Traffic(told(&report(vec![of(None)]))));
    answer.unwrap();
    assert_eq!(changes.iter().filter(is_health).count(), 0, "nobody knows that there is one again");
}
