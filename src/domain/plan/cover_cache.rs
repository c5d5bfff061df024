//! The cover of a target, kept for the next child that is looked at alone: to prepare one of many vertices takes longer than
//! all else that such a look does.

use std::sync::{Arc, Mutex, PoisonError};

use geo::MultiPolygon;

use super::{Cover, edges::Point, shape::Bounds};

/// The grid is as fine as for so many children.
const CHILDREN: usize = 4_096;

/// A turn around the globe, in degrees.
const TURN: f64 = 360.0;

/// What was prepared last, and for where. It follows from the target: two of them are always equal, and a copy begins empty.
#[derive(Debug, Default)]
pub struct KeptCover(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    bounds: Bounds,
    cover: Arc<Cover>,
}

impl KeptCover {
    /// Of `target`, which must be the same each time, for a child within these bounds; `None`: its area is not known.
    pub fn for_child(&self, target: impl FnOnce() -> MultiPolygon, child: Option<Bounds>) -> Arc<Cover> {
        let wanted = whole_turns(child.unwrap_or(Bounds::of([Point { x: 0.0, y: 0.0 }])));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bounds = wanted;
        if let Some(kept) = &*kept {
            if kept.bounds.min.x <= wanted.min.x && wanted.max.x <= kept.bounds.max.x {
                return Arc::clone(&kept.cover);
            }
            bounds.take(kept.bounds.min);
            bounds.take(kept.bounds.max);
        }
        let cover = Arc::new(Cover::new(&target(), &bounds, CHILDREN));
        *kept = Some(Kept { bounds, cover: Arc::clone(&cover) });
        cover
    }
}

impl Clone for KeptCover {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for KeptCover {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// All around the globe, as often as it takes: then one cover does for nearly all children.
fn whole_turns(bounds: Bounds) -> Bounds {
    let west = ((bounds.min.x + TURN / 2.0) / TURN).floor() * TURN - TURN / 2.0;
    let east = ((bounds.max.x + TURN / 2.0) / TURN).ceil() * TURN - TURN / 2.0;
    let (min, max) = (Point { x: west, y: -90.0 }, Point { x: east.max(west + TURN), y: 90.0 });
    Bounds { min, max }
}
