//! Longitudes on the globe, where east comes back to west.

/// One turn, in degrees.
const TURN: f64 = 360.0;

/// A longitude within the turn from -180 up to 180: areas may lie a turn further east or west than where they are shown.
pub fn within_turn(longitude: f64) -> f64 {
    (longitude + TURN / 2.0).rem_euclid(TURN) - TURN / 2.0
}

/// What lies west to east on the globe, both in degrees; east is not less than west.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub west: f64,
    pub east: f64,
}

impl Span {
    pub fn width(&self) -> f64 {
        self.east - self.west
    }

    /// Within the turn from -180 up to 180.
    pub fn middle(&self) -> f64 {
        within_turn(f64::midpoint(self.west, self.east))
    }
}

/// The shortest span that holds all of these, wherever the antimeridian lies: what is left out is the widest gap between them, the one
/// across the antimeridian where none is wider. `None`: there are none, or they go all around.
pub fn around(spans: impl IntoIterator<Item = Span>) -> Option<Span> {
    let placed = |span: Span| {
        let west = within_turn(span.west);
        Span { west, east: west + span.width() }
    };
    let mut spans: Vec<Span> = spans.into_iter().map(placed).collect();
    spans.sort_by(|one, other| one.west.total_cmp(&other.west));
    let last = spans.iter().map(|span| span.east).fold(f64::NEG_INFINITY, f64::max);
    // What ends beyond the antimeridian covers what comes after it.
    let mut end = last - TURN;
    let mut gap = 0.0;
    let mut found = None;
    for Span { west, east } in spans {
        if west - end > gap {
            gap = west - end;
            found = Some(Span { west, east: end + TURN });
        }
        end = end.max(east);
    }
    found
}
