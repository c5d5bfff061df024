//! What commands cost: how many entries of what grows with the number of children they walk over, at ten and a hundred
//! times as many children.

use std::{net::IpAddr, time::Duration};

use domain::{
    children::{self, Poll, Profile},
    release::{
        advance,
        command::{Command, LastSeen, Reply},
        members,
        settings::Settings,
        state::State,
    },
};
use model::{ChildId, ChildKind, StageStatus, steps};

use crate::cases::is_all;

use super::{
    reports::received,
    world::{canary, submission, summary},
};
use model::{ChildKey, Now};

/// So many children; the largest number takes long, and is tried with all tests alone.
fn sizes() -> &'static [usize] {
    let sizes = &[1_000, 10_000, 100_000];
    if is_all() { sizes } else { &sizes[..2] }
}

/// No single command of a child walks over more entries than that, however many children there are.
const MOST_FOR_A_CALL: u64 = 200;

/// No tick does: it does a part of what is to be done, and the rest follows at the next ones.
const MOST_FOR_A_TICK: u64 = 150_000;

/// Everybody called last just now, but those of the first ids.
#[derive(Debug, Default)]
struct Heard {
    now: u64,
    gone_before: Option<ChildKey>,
    gone_at: u64,
}

impl LastSeen for Heard {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        let is_gone = self.gone_before.is_some_and(|first| child < first);
        Some(if is_gone { self.gone_at } else { self.now })
    }
}

struct Fleet {
    state: State,
    heard: Heard,
    now: Now,
    born: usize,
    most: u64,
    most_in_a_tick: u64,
}

impl Fleet {
    fn new() -> Self {
        let settings = Settings::default();
        let now = Now { wall_ms: 1_700_000_000_000, served_ms: 1_000 };
        let heard = Heard::default();
        Self { state: State::new(settings), heard, now, born: 0, most: 0, most_in_a_tick: 0 }
    }

    /// Carries a command out and notes what it cost.
    fn call(&mut self, command: &Command) -> Reply {
        let before = steps::taken();
        let (_, answer) = advance(&mut self.state, &self.heard, command, self.now);
        self.state.take_closed();
        let cost = steps::taken() - before;
        let most = if *command == Command::Tick { &mut self.most_in_a_tick } else { &mut self.most };
        *most = (*most).max(cost);
        answer.unwrap()
    }

    /// The same without a note: what concerns all children costs that.
    fn prepare(&mut self, command: &Command) {
        let (_, answer) = advance(&mut self.state, &self.heard, command, self.now);
        answer.unwrap();
    }

    fn poll(&mut self, id: Option<&str>, area: &str) -> (String, Option<String>) {
        self.born += 1;
        let poll = Poll {
            child: id.map(|id| ChildId::parse(id).unwrap()),
            fresh: ChildId::parse(&format!("c{}", self.born)).unwrap(),
            area: Some(area.into()),
            address: Some(IpAddr::from([192, 0, 2, 1])),
            agents: 0,
            profile: None,
            tenant: None,
        };
        match self.call(&Command::Children(children::Command::Poll(poll))) {
            Reply::Polled { child, offer, .. } => (child.as_str().to_owned(), offer),
            other => panic!("{other:?}"),
        }
    }

    /// A manager with ten agents calls, for the first time or again.
    fn poll_as_manager(&mut self, id: Option<&str>) -> String {
        self.born += 1;
        let profile = Profile { kind: ChildKind::Rm, ..Profile::default() };
        let poll = Poll {
            child: id.map(|id| ChildId::parse(id).unwrap()),
            fresh: ChildId::parse(&format!("m{}", self.born)).unwrap(),
            area: Some("everywhere".into()),
            address: Some(IpAddr::from([192, 0, 2, 1])),
            agents: 10,
            profile: Some(profile),
            tenant: None,
        };
        match self.call(&Command::Children(children::Command::Poll(poll))) {
            Reply::Polled { child, .. } => child.as_str().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn register(&mut self, count: usize, area: impl Fn(usize) -> String) -> Vec<String> {
        (0..count)
            .map(|at| {
                let (id, _) = self.poll(None, &area(at));
                self.poll(Some(&id), &area(at));
                id
            })
            .collect()
    }

    fn submit(&mut self, id: &str, function: &str) {
        let text = canary(id, function);
        let strategy = language::check(&text).strategy.unwrap();
        self.prepare(&submission(strategy, &text));
    }

    fn pass(&mut self, time: Duration) {
        let ms = time.as_millis() as u64;
        self.now.served_ms += ms;
        self.now.wall_ms += ms as i64;
        self.heard.now = self.now.served_ms;
        self.call(&Command::Tick);
    }

    /// Downloads, asks, waits and reports.
    fn take_part(&mut self, child: &str, offer: &str) {
        let (owned, of) = (|| child.to_owned(), offer.to_owned());
        self.call(&Command::Members(members::Command::Fetch { child: owned(), offer: of.clone() }));
        self.call(&Command::Members(members::Command::EndStage {
            child: owned(),
            offer: of.clone(),
            stage: "Canary".to_owned(),
            failures: None,
        }));
        let reports = vec![received(summary("Canary", StageStatus::SuccessWaiting))];
        self.call(&Command::Members(members::Command::Result { child: owned(), offer: of.clone(), reports }));
        let reports = vec![received(summary("Canary", StageStatus::Failure))];
        self.call(&Command::Members(members::Command::Result { child: owned(), offer: of, reports }));
    }

    fn check(&self, what: &str, children: usize) {
        let Self { most, most_in_a_tick, .. } = self;
        assert!(
            *most <= MOST_FOR_A_CALL,
            "{what}: a call walked over {most} entries with {children} children"
        );
        assert!(
            *most_in_a_tick <= MOST_FOR_A_TICK,
            "{what}: a tick walked over {most_in_a_tick} entries with {children} children"
        );
    }
}

#[test]
fn what_a_call_costs_does_not_grow_with_children_of_equal_area() {
    for &children in sizes() {
        let mut fleet = Fleet::new();
        let ids = fleet.register(children, |_| "everywhere".to_owned());
        fleet.submit("7", "a");
        for id in ids.iter().take(500) {
            fleet.poll(Some(id), "everywhere");
            fleet.take_part(id, "7");
        }
        for _ in 0..20 {
            fleet.pass(Duration::from_secs(3));
            fleet.register(50, |_| "everywhere".to_owned());
        }
        fleet.prepare(&Command::Children(children::Command::Forget {
            child: ids[0].clone(),
            even_if_it_owes: true,
        }));
        fleet.call(&Command::Children(children::Command::Forget {
            child: ids[children - 1].clone(),
            even_if_it_owes: true,
        }));
        fleet.check("equal areas", children);
    }
}

#[test]
fn nor_with_the_children_of_a_release() {
    for &children in sizes() {
        let mut fleet = Fleet::new();
        let ids = fleet.register(children, |at| format!("area {at}"));
        fleet.submit("7", "a");
        // All have downloaded it, and their deadlines lie close together.
        for (at, id) in ids.iter().enumerate() {
            fleet.call(&Command::Members(members::Command::Fetch {
                child: id.clone(),
                offer: "7".to_owned(),
            }));
            fleet.now.served_ms += u64::from(at % 10 == 0);
        }
        fleet.heard.gone_before = Some(ChildKey(children as u32 / 2));
        fleet.heard.gone_at = fleet.now.served_ms;
        for _ in 0..100 {
            fleet.pass(Duration::from_secs(10));
        }
        fleet.check("one release", children);
    }
}

#[test]
fn nor_with_the_managers_in_a_release() {
    for managers in [100, 1_000, 10_000] {
        let mut fleet = Fleet::new();
        let ids: Vec<String> = (0..managers).map(|_| fleet.poll_as_manager(None)).collect();
        for id in &ids {
            fleet.poll_as_manager(Some(id));
        }
        let text = canary("7", "a") + "rollout: {max_in_progress: 500}\n";
        fleet.prepare(&submission(language::check(&text).strategy.unwrap(), &text));
        for id in ids.iter().take(50) {
            fleet.poll_as_manager(Some(id));
            fleet.call(&Command::Members(members::Command::Fetch {
                child: id.clone(),
                offer: "7".to_owned(),
            }));
            let reports = vec![received(summary("Canary", StageStatus::SuccessWaiting))];
            fleet.call(&Command::Members(members::Command::Result {
                child: id.clone(),
                offer: "7".to_owned(),
                reports,
            }));
        }
        fleet.check("managers", managers);
    }
}

#[test]
fn nor_with_others_when_one_child_has_a_part_in_all_releases() {
    const RELEASES: usize = 40;
    for &children in sizes() {
        let mut fleet = Fleet::new();
        let ids = fleet.register(children, |at| format!("area {at}"));
        for id in &ids[1..] {
            let (child, cordon) = (id.clone(), model::Cordon::Cordoned);
            fleet.call(&Command::Children(children::Command::Cordon { child, cordon }));
        }
        for release in 0..RELEASES {
            fleet.submit(&format!("r{release}"), &format!("f{release}"));
        }
        for release in 0..RELEASES {
            assert_eq!(fleet.poll(Some(&ids[0]), "area 0").1, Some(format!("r{release}")));
            fleet.take_part(&ids[0], &format!("r{release}"));
        }
        fleet.pass(Duration::from_secs(3));
        fleet.check("all releases", children);
    }
}

/// Every child but the first two has a part in a release of its own, with a neighbour that keeps it open.
#[test]
fn nor_with_releases_of_others() {
    let mut costs = Vec::new();
    for releases in [10, 900] {
        let mut fleet = Fleet::new();
        let ids = fleet.register(2 * releases, |at| format!("area {at}"));
        for (at, id) in ids.iter().enumerate() {
            let (child, key, value) = (id.clone(), "pair".to_owned(), Some(format!("p{}", at / 2)));
            fleet.prepare(&Command::Children(children::Command::Label { child, key, value }));
        }
        for release in 0..releases {
            let text = canary(&format!("r{release}"), &format!("f{release}"));
            let text = format!("{text}target: {{labels: {{pair: p{release}}}}}\n");
            let strategy = language::check(&text).strategy.unwrap();
            fleet.prepare(&submission(strategy, &text));
        }
        assert_eq!(fleet.state.releases.len(), releases);
        fleet.most = 0;
        for release in [0, releases / 2, releases - 1] {
            let id = ids[2 * release].clone();
            assert_eq!(
                fleet.poll(Some(&id), &format!("area {}", 2 * release)).1,
                Some(format!("r{release}"))
            );
            fleet.take_part(&id, &format!("r{release}"));
        }
        costs.push(fleet.most);
    }
    assert_eq!(costs[0], costs[1], "a call walks over releases that are no concern of its");
}

#[test]
fn nor_when_all_agents_are_restarted_at_once() {
    for (shared, children) in sizes().iter().flat_map(|children| [(true, *children), (false, *children)]) {
        let area = |at: usize| if shared { "everywhere".to_owned() } else { format!("area {at}") };
        let mut fleet = Fleet::new();
        fleet.register(children, area);
        fleet.submit("7", "a");
        fleet.heard.gone_before = fleet.state.children.next_key();
        fleet.heard.gone_at = fleet.now.served_ms;
        fleet.pass(Duration::from_secs(5));
        fleet.register(children, area);
        // Looks at newcomers are spread over ticks: as many as it takes.
        let mut ticks = 0;
        let replaced =
            |fleet: &Fleet| fleet.state.children.by_id("c1").is_some_and(|(_, old)| old.replaced.is_some());
        while ticks < 200 {
            fleet.pass(Duration::from_millis(200));
            ticks += 1;
        }
        assert_eq!(replaced(&fleet), !shared, "{children}");
        fleet.check("restarts", children);
    }
}

/// What a call, a tick and a look at the clock cost beside so many releases that one child has a part in.
fn costs_beside(releases: usize, text: impl Fn(usize) -> String) -> [u64; 3] {
    let mut fleet = Fleet::new();
    let ids = fleet.register(1, |_| "everywhere".to_owned());
    for release in 0..releases {
        let text = text(release);
        fleet.prepare(&submission(language::check(&text).strategy.unwrap(), &text));
    }
    assert_eq!(fleet.state.releases.len(), releases);
    (fleet.most, fleet.most_in_a_tick) = (0, 0);
    assert_eq!(fleet.poll(Some(&ids[0]), "everywhere").1, Some("r0".to_owned()));
    // It ends, and another begins in its place.
    fleet.take_part(&ids[0], "r0");
    let before = steps::taken();
    assert!(fleet.state.next_due(fleet.now).is_some());
    let looked = steps::taken() - before;
    fleet.pass(Duration::from_millis(200));
    [fleet.most, fleet.most_in_a_tick, looked]
}

#[test]
fn nor_with_releases_that_wait_for_their_turn() {
    let one_after_the_other = |at: usize| canary(&format!("r{at}"), "a");
    let to_come = |at: usize| {
        let start = if at == 0 { "" } else { "rollout: {start: \"2033-11-14T22:33:20Z\"}\n" };
        canary(&format!("r{at}"), &format!("f{at}")) + start
    };
    assert_eq!(costs_beside(10, one_after_the_other), costs_beside(900, one_after_the_other));
    assert_eq!(costs_beside(10, to_come), costs_beside(900, to_come));
}

/// A target of many corners is prepared once, and not for each child that moves, comes or changes.
#[test]
fn nor_with_the_corners_of_a_target() {
    const CORNERS: usize = 2_000;
    let corner = |at: usize| {
        let (sin, cos) = (std::f64::consts::TAU * at as f64 / CORNERS as f64).sin_cos();
        format!("[{:.4},{:.4}]", 13.0 + 5.0 * cos, 52.0 + 5.0 * sin)
    };
    let ring: Vec<String> = (0..=CORNERS).map(|at| corner(at % CORNERS)).collect();
    let area = format!("{{type: Polygon, coordinates: [[{}]]}}", ring.join(","));
    let text = canary("7", "a") + &format!("target: {{area: {area}}}\nrollout: {{late_joiners: include}}\n");
    let square = |at: usize| {
        let (x, y) = (10.0 + at as f64 / 10.0, 52.0);
        let east = x + 0.05;
        format!(
            "{{\"type\":\"Polygon\",\"coordinates\":[[[{x},{y}],[{east},{y}],[{east},53],[{x},53],[{x},{y}]]]}}"
        )
    };
    let mut fleet = Fleet::new();
    let ids = fleet.register(1, square);
    fleet.prepare(&submission(language::check(&text).strategy.unwrap(), &text));
    // The first prepares it.
    fleet.poll(Some(&ids[0]), &square(30));
    fleet.most = 0;
    let newcomers = fleet.register(5, |at| square(at + 20));
    for (at, id) in newcomers.iter().enumerate() {
        assert_eq!(fleet.poll(Some(id), &square(at + 21)).1.as_deref(), Some("7"));
    }
    fleet.check("a large target", 6);
}

/// Releases of children of their own each.
fn apart(releases: usize, children: usize) -> Fleet {
    let mut fleet = Fleet::new();
    let ids = fleet.register(releases * children, |at| format!("area {at}"));
    for (at, id) in ids.iter().enumerate() {
        let (child, key, value) = (id.clone(), "place".to_owned(), Some(format!("p{}", at / children)));
        fleet.prepare(&Command::Children(children::Command::Label { child, key, value }));
    }
    for at in 0..releases {
        let text = canary(&format!("r{at}"), &format!("f{at}"));
        let text = format!("{text}target: {{labels: {{place: p{at}}}}}\n");
        fleet.prepare(&submission(language::check(&text).strategy.unwrap(), &text));
    }
    assert_eq!(fleet.state.releases.len(), releases);
    (fleet.most, fleet.most_in_a_tick) = (0, 0);
    fleet
}

/// All were offered in the same instant, so the time to fetch them is over in the same instant.
#[test]
fn a_tick_costs_what_is_due_and_no_more() {
    let cost = |releases: usize| {
        let mut fleet = apart(releases, 1);
        fleet.pass(Duration::from_hours(1));
        assert!(fleet.state.releases.is_empty(), "none was fetched in time");
        fleet.most_in_a_tick
    };
    let (few, many) = (cost(10), cost(900));
    assert!(many <= few * 90, "{few} entries for 10 releases, {many} for 900");
}

#[test]
fn releases_that_are_due_at_once_share_the_ticks_and_none_is_forgotten() {
    const CHILDREN: usize = 5_000;
    let mut fleet = apart(8, CHILDREN);
    fleet.pass(Duration::from_hours(1));
    let mut ticks = 1;
    while !fleet.state.releases.is_empty() {
        assert!(ticks < 100, "{:?}", fleet.state.releases.keys());
        fleet.pass(Duration::from_millis(200));
        ticks += 1;
    }
    fleet.check("due at once", 8 * CHILDREN);
}
