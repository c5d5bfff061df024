//! The area that a manager is there for, as an operator wrote it down: whoever calls from elsewhere probably meant
//! another manager, or has latitude and longitude the wrong way round.
//!
//! It keeps nobody out: what a child takes part in is the target's business.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::plan::{Cover, Lies, Shape};
use model::area::{self, AreaError};

/// Between two warnings about children that lie outside, in milliseconds of serving time: many may call at once.
const WARN_EVERY_MS: u64 = 1_000;

/// The area of this manager.
#[derive(Debug)]
pub struct ServiceArea {
    cover: Cover,
    /// Serving time before which no further warning is given.
    silent_until_ms: AtomicU64,
}

impl ServiceArea {
    /// From the GeoJSON of an area.
    pub fn read(text: &str) -> Result<Self, AreaError> {
        let cover = Cover::anywhere(&area::parse(text)?);
        Ok(Self { cover, silent_until_ms: AtomicU64::new(0) })
    }

    /// Whether an area, as GeoJSON, shares nothing with it; a child without an area lies nowhere, so not outside.
    pub fn is_outside(&self, area: Option<&str>) -> bool {
        let Some(shape) = area.and_then(Shape::read) else { return false };
        self.cover.place_shape(&shape) == Lies::Outside
    }

    /// Warns of a child that has come, or moved, if it lies outside.
    pub fn check(&self, child: &str, area: Option<&str>, served_ms: u64) {
        if !self.is_outside(area) {
            return;
        }
        let next = served_ms.saturating_add(WARN_EVERY_MS);
        let may_speak = |until: u64| (until <= served_ms).then_some(next);
        if self.silent_until_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_speak).is_ok() {
            tracing::warn!(
                child,
                "a child lies outside of this manager's area (parent.area_file); `choirmaster children list --outside` \
                 lists all"
            );
        }
    }
}
