//! The columns of a map: number, middle, state and wave of each child.

use std::iter::Peekable;

use crate::scope::Scope;
use domain::{
    children::Child,
    plan::Middle,
    release::{
        assignment::Assignment,
        command::LastSeen,
        state::{Release, Snapshot},
    },
};
use engine::{blocking::giving_way, questions::tree::is_silent};
use model::{ChildKey, MapState, Now};

/// Parts of a degree in which positions are told.
pub const PER_DEGREE: f64 = 1e7;

/// Instead of a position: no area is known.
pub const NOWHERE: i32 = i32::MIN;

/// In the byte of a state: children of its own stand behind this child.
pub const MANAGER: u8 = 0x80;

/// In the byte of a state: its area spans half the globe or more, so its middle says little.
pub const WIDE: u8 = 0x40;

/// The rest of that byte.
pub const STATE: u8 = 0x3f;

/// One child's part in a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    pub state: MapState,
    /// From 0.
    pub wave: u32,
}

impl Part {
    pub fn of(key: ChildKey, part: &Assignment) -> Self {
        Self { number: key.0, state: part.map_state(), wave: part.wave }
    }
}

/// The parts of all children in a release in memory, in order of number.
pub fn parts(release: &Release) -> Vec<Part> {
    giving_way(release.assignments.iter()).map(|(key, part)| Part::of(*key, part)).collect()
}

/// Columns of one length, in order of number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub numbers: Vec<u32>,
    pub x: Vec<i32>,
    pub y: Vec<i32>,
    /// [`MapState::number`], with [`MANAGER`] and [`WIDE`].
    pub states: Vec<u8>,
    /// Of a release: from 0.
    pub waves: Vec<u32>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    fn push(&mut self, number: ChildKey, at: (i32, i32), state: u8, wave: u32) {
        self.numbers.push(number.0);
        self.x.push(at.0);
        self.y.push(at.1);
        self.states.push(state);
        self.waves.push(wave);
    }

    /// Of a release: those with a part, and the others that the caller sees. Forgotten children are nowhere.
    pub fn of_release(state: &Snapshot, scope: &Scope, parts: &[Part]) -> Self {
        let mut rows = Self::default();
        let mut parts = parts.iter().copied().peekable();
        let mut last = None;
        for (key, child) in giving_way(children(state, scope)) {
            rows.forgotten(&mut parts, Some(key));
            last = Some(key);
            let part = parts.next_if(|part| part.number == key.0);
            if part.is_none() && child.replaced.is_some() {
                continue;
            }
            let (shown, wave) = part.map_or((MapState::NoPart, 0), |part| (part.state, part.wave));
            rows.child(state, key, child, shown, wave);
        }
        rows.forgotten(&mut parts, None);
        debug_assert!(rows.numbers.is_sorted(), "numbers ascend up to {last:?}");
        rows
    }

    /// Parts of children that are not seen any more, up to one that is.
    fn forgotten(&mut self, parts: &mut Peekable<impl Iterator<Item = Part>>, before: Option<ChildKey>) {
        while let Some(part) = parts.next_if(|part| before.is_none_or(|key| part.number < key.0)) {
            self.push(ChildKey(part.number), (NOWHERE, NOWHERE), part.state.number(), part.wave);
        }
    }

    /// Of the fleet.
    pub fn of_fleet<S: LastSeen + ?Sized>(state: &Snapshot, scope: &Scope, seen: &S, now: Now) -> Self {
        let mut rows = Self::default();
        for (key, child) in giving_way(children(state, scope)).filter(|(_, child)| child.replaced.is_none()) {
            rows.child(state, key, child, fleet_state(seen, key, child, now), 0);
        }
        rows
    }

    fn child(&mut self, state: &Snapshot, key: ChildKey, child: &Child, shown: MapState, wave: u32) {
        let middle = state.children.areas().middle(key);
        let manager = if child.kind().is_manager() { MANAGER } else { 0 };
        let wide = if middle.is_some_and(|middle| middle.is_wide) { WIDE } else { 0 };
        let at = middle.map_or((NOWHERE, NOWHERE), placed);
        self.push(key, at, shown.number() | manager | wide, wave);
    }
}

/// What a child of the fleet is shown as.
pub fn fleet_state<S: LastSeen + ?Sized>(seen: &S, key: ChildKey, child: &Child, now: Now) -> MapState {
    MapState::of_fleet(child.cordon, is_silent(seen, key, now))
}

/// Whom the caller sees, in order of number. For a tenant it walks over its own children alone.
pub fn children<'s>(
    state: &'s Snapshot,
    scope: &'s Scope,
) -> Box<dyn Iterator<Item = (ChildKey, &'s Child)> + 's> {
    match scope {
        Scope::Everything => Box::new(state.children.iter()),
        Scope::Tenant(own) => Box::new(state.children.after_of(own.as_str(), None)),
    }
}

/// The middle of a child's area: longitude and latitude in degrees.
pub fn position(state: &Snapshot, key: ChildKey) -> Option<[f64; 2]> {
    let (x, y) = state.children.areas().middle(key).map(placed)?;
    Some([f64::from(x) / PER_DEGREE, f64::from(y) / PER_DEGREE])
}

fn placed(middle: Middle) -> (i32, i32) {
    ((middle.east * PER_DEGREE).round() as i32, (middle.north * PER_DEGREE).round() as i32)
}
