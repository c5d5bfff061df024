//! What the planner needs of every child, packed by key.
//!
//! Keys are dense, so this is an array of [`ENTRY_BYTES`] a child, in pages, that is read from end to end: a million children
//! are 24 MB and some milliseconds. A tree over the boxes reads less when a target is small, but answers no question
//! that has to be answered about each child anyway (why does it take no part?), costs three times the memory and
//! has to be balanced while children come, move and go.

use super::{
    area_cover::{Cover, Lies},
    edges::Point,
    shape::{Bounds, Shape},
};
use model::{
    ChildKey,
    globe::{self, Span},
    pages::{self, Pages},
    steps,
};

/// Memory of a child in the index, in bytes. The polygons stay the text that the child sent, and are read again where
/// the box doesn't decide.
pub const ENTRY_BYTES: usize = size_of::<Entry>();

/// A child in the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// West, south, east, north, rounded outwards; not numbers where no area is known.
    bounds: [f32; 4],
    /// How many agents stand for it: 1 for an agent, its children for a release manager.
    pub agents: u32,
    /// Square kilometres of its area, 0 where it encloses nothing; negative where there is no child.
    km2: f32,
}

/// What spans so many degrees of longitude is wide: the middle of its box may be far from all of it.
const WIDE: f64 = 180.0;

/// The middle of an area, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Middle {
    /// From -180 up to 180.
    pub east: f64,
    pub north: f64,
    /// It spans half the globe or more, so its middle says little.
    pub is_wide: bool,
}

/// Entries on a page.
const ON_A_PAGE: usize = 64;

impl pages::Place for Entry {
    const VACANT: Self = Self { bounds: [f32::NAN; 4], agents: 0, km2: -1.0 };

    fn is_vacant(&self) -> bool {
        self.km2 < 0.0
    }
}

impl Entry {
    pub fn km2(&self) -> f64 {
        f64::from(self.km2.max(0.0))
    }

    /// Whether an area is known that has no surface.
    fn is_flat(&self) -> bool {
        self.km2 == 0.0 && !self.bounds[0].is_nan()
    }

    /// `None` where no area is known.
    pub fn bounds(&self) -> Option<Bounds> {
        let [west, south, east, north] = self.bounds.map(f64::from);
        let bounds = Bounds { min: Point { x: west, y: south }, max: Point { x: east, y: north } };
        (!west.is_nan()).then_some(bounds)
    }
}

/// Where a child is seen from a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Inside,
    /// Only a part of its area.
    Partly,
    Outside,
    /// No area of it is known.
    Unknown,
}

/// The areas of all children. A copy shares everything with the original.
#[derive(Debug, Clone, Default)]
pub struct AreaIndex {
    entries: Pages<Entry, ON_A_PAGE>,
    /// Of the few whose boxes are wide and whose parts lie together all the same, on both sides of the antimeridian: where they do.
    parted: Pages<Option<Span>, ON_A_PAGE>,
    len: usize,
}

impl AreaIndex {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a child in, or replaces what is known of it. A text that is no area counts as none.
    pub fn insert(&mut self, child: ChildKey, area: Option<&str>, agents: u32) {
        self.len += usize::from(self.get(child).is_none());
        let shape = area.and_then(Shape::read);
        match shape.as_ref().and_then(parted) {
            Some(span) => self.parted.put(child.0 as usize, Some(span)),
            None => drop(self.parted.take(child.0 as usize)),
        }
        self.entries.put(child.0 as usize, entry(shape.as_ref(), agents));
    }

    /// A child's area is another.
    pub fn move_to(&mut self, child: ChildKey, area: Option<&str>) {
        if let Some(agents) = self.get(child).map(|entry| entry.agents) {
            self.insert(child, area, agents);
        }
    }

    /// A child stands for another number of agents.
    pub fn count(&mut self, child: ChildKey, agents: u32) {
        if let Some(entry) = self.entries.get_mut(child.0 as usize) {
            entry.agents = agents;
        }
    }

    pub fn remove(&mut self, child: ChildKey) {
        self.len -= usize::from(self.entries.take(child.0 as usize).is_some());
        self.parted.take(child.0 as usize);
    }

    pub fn get(&self, child: ChildKey) -> Option<&Entry> {
        self.entries.get(child.0 as usize)
    }

    /// The middle of a child's area; `None` where no area is known.
    pub fn middle(&self, child: ChildKey) -> Option<Middle> {
        let Bounds { min, max } = self.get(child)?.bounds()?;
        let parted = self.parted.get(child.0 as usize).copied().flatten();
        let span = parted.unwrap_or(Span { west: min.x, east: max.x });
        let north = f64::midpoint(min.y, max.y).clamp(-90.0, 90.0);
        Some(Middle { east: span.middle(), north, is_wide: span.width() >= WIDE })
    }

    /// Every child in order of birth.
    pub fn iter(&self) -> impl Iterator<Item = (ChildKey, &Entry)> {
        steps::take(self.len);
        self.entries.from(0).map(|(at, entry)| (ChildKey(at as u32), entry))
    }

    /// Those whose area has no surface: no target meets it.
    pub fn without_surface(&self) -> impl Iterator<Item = ChildKey> {
        self.iter().filter(|(_, entry)| entry.is_flat()).map(|(child, _)| child)
    }

    /// A rectangle around all areas.
    pub fn bounds(&self) -> Bounds {
        steps::take(self.len);
        let mut all = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
        for (_, entry) in self.entries.from(0) {
            // What is not a number loses every comparison.
            let [west, south, east, north] = entry.bounds;
            all = [all[0].min(west), all[1].min(south), all[2].max(east), all[3].max(north)];
        }
        let [west, south, east, north] = all.map(f64::from);
        Bounds { min: Point { x: west, y: south }, max: Point { x: east, y: north } }
    }

    /// Prepares a target for these children.
    pub fn cover(&self, target: &geo::MultiPolygon) -> Cover {
        Cover::new(target, &self.bounds(), self.len)
    }

    /// Places every child, in order of birth. `area` gives a child's text where its box doesn't decide.
    pub fn place<'t>(
        &self,
        cover: &Cover,
        area: impl Fn(ChildKey) -> Option<&'t str>,
        mut each: impl FnMut(ChildKey, &Entry, Place),
    ) {
        for (child, entry) in self.iter() {
            each(child, entry, place(cover, child, entry, &area));
        }
    }
}

pub(super) fn place<'t>(
    cover: &Cover,
    child: ChildKey,
    entry: &Entry,
    area: &impl Fn(ChildKey) -> Option<&'t str>,
) -> Place {
    let Some(bounds) = entry.bounds() else { return Place::Unknown };
    // What has no inside meets none.
    if entry.is_flat() {
        return Place::Outside;
    }
    match cover.place(&bounds, || area(child).and_then(Shape::read)) {
        Lies::Inside => Place::Inside,
        Lies::Partly => Place::Partly,
        Lies::Outside => Place::Outside,
    }
}

/// Where the parts of a shape lie that is wide as a whole: of one that was cut at the antimeridian (RFC 7946, section 3.1.9) the box around all
/// goes around the globe. `None`: it isn't wide, or has no shorter way around.
fn parted(shape: &Shape) -> Option<Span> {
    let width = |bounds: &Bounds| bounds.max.x - bounds.min.x;
    if width(shape.bounds()) < WIDE {
        return None;
    }
    let parts = shape.exteriors().map(|ring| Bounds::of(ring.iter().copied()));
    let span = globe::around(parts.map(|part| Span { west: part.min.x, east: part.max.x }))?;
    (span.width() < width(shape.bounds())).then_some(span)
}

fn entry(shape: Option<&Shape>, agents: u32) -> Entry {
    let Some(shape) = shape else {
        return Entry { bounds: [f32::NAN; 4], agents, km2: 0.0 };
    };
    let Bounds { min, max } = *shape.bounds();
    let bounds = [down(min.x), down(min.y), up(max.x), up(max.y)];
    let km2 = if shape.is_flat() { 0.0 } else { (shape.km2() as f32).max(f32::MIN_POSITIVE) };
    Entry { bounds, agents, km2 }
}

/// The next smaller number of fewer digits.
fn down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

fn up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}
