//! The part of a target that concerns one child manager.

use geo::{BooleanOps as _, MultiPolygon, Translate as _};

use language::{MAX_TARGET_POSITIONS, Target, TargetArea};
use model::area::{self, check_polygon};

/// Places a turn around the globe apart are the same place.
const TURNS: [f64; 5] = [0.0, 360.0, -360.0, 720.0, -720.0];

/// The target, clipped to the area (GeoJSON) of a child. Where nothing is left of it, or what is left is no shape that could
/// be written down, the target stays as it was: the child finds out itself which of its own children lie in it.
pub fn clipped(target: &Target, child: &str) -> Target {
    let clip = |wanted: &TargetArea| {
        let child = area::parse(child).ok()?;
        let wanted = wanted.polygons();
        let parts = TURNS.iter().flat_map(|turn| wanted.translate(*turn, 0.0).intersection(&child));
        let parts: MultiPolygon = parts.collect();
        parts.iter().try_for_each(check_polygon).ok()?;
        let clipped = TargetArea::from(&parts);
        let positions: usize = clipped.0.iter().flatten().map(Vec::len).sum();
        (1..=MAX_TARGET_POSITIONS).contains(&positions).then_some(clipped)
    };
    let area = target.area.as_ref().map(|wanted| clip(wanted).unwrap_or_else(|| wanted.clone()));
    Target { area, ..target.clone() }
}
