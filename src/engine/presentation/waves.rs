//! The waves of a release, who is how far in each, and the limits that hold it.

use std::collections::BTreeMap;

use domain::release::{
    assignment::Assignment,
    gate::Gate,
    pending_children::{self, PendingChildren},
    settings::Deadlines,
    state::Release,
};
use model::{ChildKey, Now};
use protocol::api::{LimitOverview, WaveOverview};

/// Waves that are shown: more of them, as where each child has a turn of its own, are those around the last that is open.
const MAX_SHOWN: u32 = 60;

/// Waves that are shown before the last open one, where not all are.
const BEFORE: u32 = 20;

/// Children by wave and by how they stand. Made before the children are walked over, so that whoever walks can add each.
#[derive(Debug)]
pub struct Waves {
    first: u32,
    counted: Vec<(BTreeMap<&'static str, u32>, PendingChildren)>,
}

impl Waves {
    /// Of a release without several waves there are none.
    pub fn of(release: &Release) -> Self {
        let all = release.turns.waves();
        let last_open = release.gates.stand.waves.saturating_sub(1);
        let shown = if all > 1 { all.min(MAX_SHOWN) } else { 0 };
        let first = last_open.saturating_sub(BEFORE).min(all - shown.min(all));
        Self { first, counted: vec![Default::default(); shown as usize] }
    }

    /// Counts a child in.
    pub fn add(&mut self, release: &Release, deadlines: Deadlines<'_>, key: ChildKey, part: &Assignment) {
        let at = part.wave.checked_sub(self.first).and_then(|at| self.counted.get_mut(at as usize));
        if let Some((counted, awaited)) = at {
            *counted.entry(part.map_state().name()).or_default() += 1;
            awaited.add(release, deadlines, key, part);
        }
    }

    pub fn overviews(self, release: &Release, now: Now) -> Vec<WaveOverview> {
        let numbered = (self.first..).zip(self.counted);
        let overview = |(wave, (counted, awaited)): (u32, (BTreeMap<&'static str, u32>, PendingChildren))| {
            WaveOverview {
                number: wave + 1,
                name: release.gate_name(Gate::Wave(wave)),
                open: wave < release.gates.stand.waves,
                children: counted.into_iter().map(|(stands, number)| (stands.to_owned(), number)).collect(),
                waits_for: pending_children::wave(release, wave, awaited, now),
            }
        };
        numbered.map(overview).collect()
    }
}

/// How near a release is to each of its limits.
pub fn limits(release: &Release) -> Vec<LimitOverview> {
    let overview = |found: domain::release::automation::Limited| LimitOverview {
        name: found.key.to_owned(),
        limit: found.limit.to_string(),
        most: found.most,
        count: found.count,
        accepted: found.accepted,
    };
    release.limits().map(overview).collect()
}
