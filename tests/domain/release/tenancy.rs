//! Releases of several tenants: what a tenant sees of its own is what it would see alone.

use std::collections::BTreeMap;

use domain::{
    children,
    release::{
        command::{Command, Refusal, Reply},
        lifecycle,
        state::ReleaseState,
    },
};
use model::{ReleaseId, TENANT_LABEL, TenantName};
use proptest::prelude::*;

use super::world::{AB, World, strategy_text, submission};

/// What somebody does; by a small number, of which the release or the child follows.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// A release of these functions, as bits.
    Submit(u8),
    Pause(u8),
    Resume(u8),
    Abort(u8),
    /// A child of theirs polls and takes what it is offered.
    Take(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (1_u8..8).prop_map(Deed::Submit),
        1 => (0_u8..6).prop_map(Deed::Pause),
        1 => (0_u8..6).prop_map(Deed::Resume),
        2 => (0_u8..6).prop_map(Deed::Abort),
        3 => (0_u8..2).prop_map(Deed::Take),
    ]
}

/// Somebody whose releases these are; `None`: the manager's own.
type Whose = Option<&'static str>;

/// Tenants with two children each, and how many releases each has submitted.
struct Shared {
    world: World,
    children: BTreeMap<&'static str, Vec<String>>,
    submitted: BTreeMap<Whose, u8>,
}

impl Shared {
    fn of(tenants: &[&'static str]) -> Self {
        let mut world = World::new();
        let mut children = BTreeMap::new();
        for tenant in tenants {
            let own: Vec<String> = (0..2).map(|at| world.child(&format!("{tenant}-{at}"))).collect();
            for child in &own {
                label(&mut world, child, tenant).unwrap();
            }
            children.insert(*tenant, own);
        }
        Self { world, children, submitted: BTreeMap::new() }
    }

    fn id(whose: Whose, number: u8) -> String {
        let prefix = whose.map(|tenant| TenantName::parse(tenant).unwrap().prefix()).unwrap_or_default();
        format!("{prefix}r{number}")
    }

    fn submit(&mut self, whose: Whose, functions: u8) {
        let number = self.submitted.entry(whose).or_default();
        *number += 1;
        let names: Vec<&str> = ["a", "b", "c"]
            .into_iter()
            .enumerate()
            .filter(|(at, _)| functions >> at & 1 == 1)
            .map(|(_, name)| name)
            .collect();
        let stages: Vec<[String; 5]> = names
            .iter()
            .map(|name| {
                [format!("test {name}"), AB.into(), (*name).into(), "rollout".into(), "rollback".into()]
            })
            .collect();
        let stages: Vec<[&str; 5]> =
            stages.iter().map(|stage| stage.each_ref().map(String::as_str)).collect();
        let said = format!("r{number}");
        let text = strategy_text(&said, "", &names, &stages);
        let mut strategy = language::check(&text).strategy.unwrap();
        strategy.bind(ReleaseId::parse(&Self::id(whose, *number)).unwrap());
        self.world.command(&submission(strategy, &text)).unwrap();
    }

    fn carry_out(&mut self, whose: Whose, deed: Deed) {
        let id = |number: u8| Self::id(whose, number);
        let lifecycle = |command| Command::Lifecycle(command);
        match deed {
            Deed::Submit(functions) => self.submit(whose, functions),
            Deed::Pause(number) => drop(self.world.command(&lifecycle(lifecycle::Command::Pause {
                release: id(number),
                reason: "somebody said so".to_owned(),
            }))),
            Deed::Resume(number) => {
                drop(self.world.command(&lifecycle(lifecycle::Command::Resume { release: id(number) })));
            }
            Deed::Abort(number) => drop(self.world.command(&lifecycle(lifecycle::Command::Abort {
                release: id(number),
                note: None,
                by: None,
            }))),
            Deed::Take(at) => {
                let Some(child) = whose.map(|tenant| self.children[tenant][usize::from(at)].clone()) else {
                    return;
                };
                let offer = self.world.poll(&child);
                if !offer.is_empty() {
                    drop(self.world.fetch(&child, &offer));
                }
            }
        }
    }

    /// The states of somebody's releases, in the order of their submission, and what their children are offered.
    fn seen_by(&mut self, tenant: &'static str) -> Vec<String> {
        let many = self.submitted.get(&Some(tenant)).copied().unwrap_or_default();
        let mut seen: Vec<String> = (1..=many)
            .map(|number| {
                let release = self.world.release(&Self::id(Some(tenant), number));
                format!("{} {:?}", release.state.name(), release.counts)
            })
            .collect();
        for child in self.children[tenant].clone() {
            seen.push(self.world.poll(&child));
        }
        seen
    }
}

fn label(world: &mut World, child: &str, tenant: &str) -> Result<Reply, Refusal> {
    world.command(&Command::Children(children::Command::Label {
        child: child.to_owned(),
        key: TENANT_LABEL.to_owned(),
        value: Some(tenant.to_owned()),
    }))
}

/// No two that are under way meet and change the same function; and nobody waits who could begin.
fn check_lanes(world: &World) {
    let open: Vec<_> = world.state.releases.values().filter(|release| !release.state.is_over()).collect();
    for one in &open {
        for other in open.iter().filter(|other| other.key > one.key) {
            let share =
                one.strategy.subject_keys().any(|key| other.strategy.subject_keys().any(|name| name == key));
            let meet = model::tenant::meet(one.id.tenant(), other.id.tenant());
            let both_on = [one, other].iter().all(|release| !matches!(release.state, ReleaseState::Planned));
            assert!(!(share && meet && both_on), "{} and {}", one.id, other.id);
        }
    }
    for release in open.iter().filter(|release| matches!(release.state, ReleaseState::Planned)) {
        let before = world.state.goes_before(&release.strategy, release.key, world.now).count();
        assert!(before > 0, "{} waits for nobody", release.id);
    }
}

proptest! {
    /// Whatever the other does, the same happens to a tenant's releases and children.
    #[test]
    fn a_tenant_sees_what_it_would_see_alone(
        deeds in prop::collection::vec((any::<bool>(), deed()), 1..40),
    ) {
        let (mut both, mut alone) = (Shared::of(&["acme", "umbra"]), Shared::of(&["acme"]));
        for (is_acmes, deed) in deeds {
            both.carry_out(Some(if is_acmes { "acme" } else { "umbra" }), deed);
            if is_acmes {
                alone.carry_out(Some("acme"), deed);
            }
            check_lanes(&both.world);
            prop_assert_eq!(both.seen_by("acme"), alone.seen_by("acme"));
        }
    }

    /// With the manager's own among them, that wait for everybody: no tenant keeps another from beginning.
    #[test]
    fn nobody_holds_up_a_tenant_but_itself_and_the_managers_own_that_are_under_way(
        deeds in prop::collection::vec((0_u8..3, deed()), 1..40),
    ) {
        let mut shared = Shared::of(&["acme", "umbra"]);
        for (whose, deed) in deeds {
            shared.carry_out([None, Some("acme"), Some("umbra")][usize::from(whose)], deed);
            check_lanes(&shared.world);
            let state = &shared.world.state;
            let open: Vec<_> = state.releases.values().filter(|release| !release.state.is_over()).collect();
            // Tenants of whose releases, and of the manager's own under way, none is left that shares a function: it must be under way.
            for release in open.iter().filter(|release| matches!(release.state, ReleaseState::Planned)) {
                let Some(tenant) = release.id.tenant() else { continue };
                let shares = |other: &&&domain::release::state::Release| {
                    other.key != release.key
                        && release.strategy.subject_keys().any(|key| other.strategy.subject_keys().any(|name| name == key))
                };
                let own = |other: &&&domain::release::state::Release| other.id.tenant() == Some(tenant);
                let is_on = |other: &&&domain::release::state::Release| !matches!(other.state, ReleaseState::Planned);
                let held = open.iter().filter(shares).any(|other| own(&other) || other.id.tenant().is_none() && is_on(&other));
                // One of the manager's own that waits for nobody but this tenant, or for its like, is before it by right.
                let rightly = open.iter().filter(shares).any(|other| other.id.tenant().is_none() && other.key < release.key);
                prop_assert!(held || rightly, "{} is held up by another tenant", release.id);
            }
        }
    }
}

#[test]
fn a_tenants_release_passes_what_waits_for_another_tenant_however_indirectly() {
    let mut shared = Shared::of(&["acme", "umbra"]);
    // acme has a; the manager's own want a and b, then b and c; umbra wants c alone.
    shared.submit(Some("acme"), 0b001);
    shared.submit(None, 0b011);
    shared.submit(None, 0b110);
    shared.submit(Some("umbra"), 0b100);
    let state =
        |shared: &Shared, whose, number| shared.world.release(&Shared::id(whose, number)).state.name();
    assert_eq!(state(&shared, None, 1), "Planned");
    assert_eq!(state(&shared, None, 2), "Planned");
    assert_eq!(state(&shared, Some("umbra"), 1), "Running");
    // What is the manager's own and waits for no tenant goes first.
    let mut shared = Shared::of(&["acme", "umbra"]);
    shared.submit(None, 0b010);
    shared.submit(None, 0b110);
    shared.submit(Some("umbra"), 0b100);
    assert_eq!(state(&shared, None, 2), "Planned");
    assert_eq!(state(&shared, Some("umbra"), 1), "Planned");
}

#[test]
fn a_child_changes_its_tenant_when_it_has_nothing_of_the_other_in_hand() {
    let mut shared = Shared::of(&["acme", "umbra"]);
    let child = shared.children["acme"][0].clone();
    shared.submit(Some("acme"), 0b001);
    assert!(matches!(label(&mut shared.world, &child, "umbra"), Err(Refusal::HasPart { .. })));
    shared.carry_out(Some("acme"), Deed::Abort(1));
    label(&mut shared.world, &child, "umbra").unwrap();
    assert_eq!(shared.world.state.children.of_tenant("acme"), 1);
    assert_eq!(shared.world.state.children.of_tenant("umbra"), 3);
}
