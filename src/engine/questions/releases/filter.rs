//! Which releases are wanted, and in which order.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use geo::{Coord, LineString, MultiPolygon, Polygon};
use serde::{Deserialize, Serialize};

use domain::{
    plan::{Cover, Lies, Shape},
    release::state::{Release, ReleaseState},
};
use language::{Strategy, Target};

/// Which releases are wanted: those that all of it is true of.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Any of these states; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// A part of its id or of its name, in whatever case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It changes this function or service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its target names this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<(String, String)>,
    /// Its target reaches into this area, or is bound to none: west, south, east, north, in degrees. West of more than east is a
    /// box across the antimeridian.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<[f64; 4]>,
    /// Only ids that begin so: a tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The newest first.
    #[default]
    Submitted,
    /// In the order in which states follow each other, the newest of each first.
    State,
    Name,
    /// Those first that have come least far.
    Progress,
}

impl Sort {
    /// With a `-` before it: the other way round.
    pub const NAMES: [&str; 8] =
        ["submitted", "state", "name", "progress", "-submitted", "-state", "-name", "-progress"];

    /// The order of a name, and whether it is the other way round.
    pub fn named(name: &str) -> Option<(Self, bool)> {
        let all = [Self::Submitted, Self::State, Self::Name, Self::Progress];
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some((*all.get(at % all.len())?, at >= all.len()))
    }
}

/// States of releases that are not over.
pub(super) const NOT_OVER: [&str; 5] = ["Planned", "Running", "Paused", "AwaitingApproval", "RollingBack"];

/// Where a state stands among all.
pub(super) fn rank(state: &str) -> usize {
    ReleaseState::NAMES.iter().position(|name| *name == state).unwrap_or(ReleaseState::NAMES.len())
}

/// Half the side of the box that stands for a point, in degrees: a centimetre.
const POINT: f64 = 1e-7;

impl Filter {
    /// Whether only releases are wanted that are in memory.
    pub(super) fn wants_open_only(&self) -> bool {
        !self.states.is_empty() && self.states.iter().all(|state| NOT_OVER.contains(&state.as_str()))
    }

    /// What is held against a strategy, prepared: once for all releases, for an area takes long.
    pub(super) fn prepared(self) -> Prepared {
        Prepared {
            name: self.name.as_deref().map(str::to_lowercase),
            cover: self.area.map(|area| Cover::anywhere(&rectangle(area))),
            filter: self,
        }
    }
}

fn rectangle([west, south, east, north]: [f64; 4]) -> MultiPolygon {
    let east = if east < west { east + 360.0 } else { east };
    let (west, east) = if east - west < POINT { (west - POINT, east + POINT) } else { (west, east) };
    let (south, north) = if north - south < POINT { (south - POINT, north + POINT) } else { (south, north) };
    let corners = [(west, south), (east, south), (east, north), (west, north), (west, south)];
    let ring: LineString = corners.into_iter().map(|(x, y)| Coord { x, y }).collect::<Vec<_>>().into();
    MultiPolygon::new(vec![Polygon::new(ring, Vec::new())])
}

/// A filter, ready for many releases.
pub(super) struct Prepared {
    filter: Filter,
    name: Option<String>,
    cover: Option<Cover>,
}

impl Prepared {
    /// Of a release in memory. `digest`: of its strategy, asked for only where an area is.
    pub fn wants_open(&self, release: &Release, digest: impl FnOnce() -> Arc<Digest>) -> bool {
        let filter = &self.filter;
        let state = release.state.name();
        (filter.states.is_empty() || filter.states.iter().any(|wanted| wanted == state))
            && filter.prefix.as_deref().is_none_or(|prefix| release.id.as_str().starts_with(prefix))
            && filter.function.as_deref().is_none_or(|key| release.strategy.subject_keys().any(|k| k == key))
            && self.wants_name(release.id.as_str(), &release.strategy.name)
            && self.wants_labels(release.strategy.target.as_ref().map(|target| &target.labels))
            && (self.cover.is_none() || self.wants_shape(digest().shape.as_ref()))
    }

    /// Of one of which the store has chosen state, function and prefix.
    pub fn wants_stored(&self, id: &str, digest: &Digest) -> bool {
        self.wants_name(id, &digest.name)
            && self.wants_labels(Some(&digest.labels))
            && self.wants_shape(digest.shape.as_ref())
    }

    fn wants_name(&self, id: &str, name: &str) -> bool {
        self.name
            .as_deref()
            .is_none_or(|part| id.to_lowercase().contains(part) || name.to_lowercase().contains(part))
    }

    fn wants_labels(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.filter
            .label
            .as_ref()
            .is_none_or(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    }

    fn wants_shape(&self, shape: Option<&Shape>) -> bool {
        let Some(cover) = &self.cover else { return true };
        shape.is_none_or(|shape| cover.place_shape(shape) != Lies::Outside)
    }
}

/// The area of a target; `None`: anywhere.
fn shape_of(target: Option<&Target>) -> Option<Shape> {
    target.and_then(|target| target.area.as_ref()).map(|area| Shape::of(&area.polygons()))
}

/// What lists need of a strategy.
#[derive(Debug, Default)]
pub struct Digest {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// `None`: anywhere.
    pub shape: Option<Shape>,
}

impl Digest {
    pub fn of(strategy: &Strategy) -> Self {
        Self {
            name: strategy.name.clone(),
            labels: strategy.target.as_ref().map(|target| target.labels.clone()).unwrap_or_default(),
            shape: shape_of(strategy.target.as_ref()),
        }
    }

    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let labels = self.labels.iter().map(|(key, value)| key.len() + value.len() + 64).sum::<usize>();
        // A point takes 16 bytes.
        256 + self.name.len() + labels + self.shape.as_ref().map_or(0, |shape| shape.points().len() * 32)
    }
}

/// Most bytes that are kept of strategies for lists.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What lists need of the strategies of releases, by number, so that none is read, or its area made a shape, at every look: a strategy never
/// changes.
#[derive(Debug, Default)]
pub struct Digests(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<u32, Arc<Digest>>,
    bytes: usize,
}

impl Digests {
    pub(super) fn get(&self, key: u32) -> Option<Arc<Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(&key).cloned()
    }

    /// Where there is no room, all is forgotten and read again when it is wanted.
    pub(super) fn keep(&self, key: u32, digest: &Arc<Digest>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let weight = digest.weight();
        if kept.bytes + weight > MAX_KEPT_BYTES {
            *kept = Kept::default();
        }
        if kept.by_key.insert(key, Arc::clone(digest)).is_none() {
            kept.bytes += weight;
        }
    }
}
