//! How many agents an action reaches, and where.

use domain::plan::Middle;
use engine::questions::children::place_at;

use crate::v1::map::Around;

/// Places that are named.
const MAX_PLACES: usize = 3;

/// Whom an action reaches.
#[derive(Debug, Default)]
pub struct Reach {
    pub agents: u32,
    /// Nobody was counted.
    pub is_unknown: bool,
    /// First and last, from 1.
    pub waves: Option<[u32; 2]>,
    /// The first ones.
    pub places: Vec<String>,
    /// Where the last one was whose place was looked at: many may be at one point.
    last: Option<Middle>,
    /// Whether somebody is elsewhere, or nowhere that is known.
    pub has_others: bool,
    around: Around,
}

impl Reach {
    /// Of somebody for whom nobody is counted.
    pub fn unknown() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// One child more, with so many agents; with none it is not reached. `wave`: from 0, where it has a part. `middle`: where it is, if that is
    /// known.
    pub fn take(&mut self, agents: u32, wave: Option<u32>, middle: Option<Middle>) {
        if agents == 0 {
            return;
        }
        self.agents = self.agents.saturating_add(agents);
        if let Some(wave) = wave.map(|wave| wave + 1) {
            let [first, last] = self.waves.unwrap_or([wave; 2]);
            self.waves = Some([first.min(wave), last.max(wave)]);
        }
        if let Some(middle) = middle {
            self.around.take(middle);
        }
        if self.has_others && self.places.len() == MAX_PLACES || middle.is_some() && middle == self.last {
            return;
        }
        self.last = middle;
        match middle.map(place_at) {
            Some(place) if self.places.contains(&place) => {}
            Some(place) if self.places.len() < MAX_PLACES => self.places.push(place),
            Some(_) | None => self.has_others = true,
        }
    }

    /// West, south, east, north.
    pub fn bounds(&self) -> Option<[f64; 4]> {
        self.around.bounds()
    }
}
