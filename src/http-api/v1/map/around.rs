//! The box around the middles of areas on the globe.

use domain::plan::Middle;

/// Meridians that are told apart when the box is looked for: a box that has no shorter way around is wrong by less than a degree.
const SECTORS: usize = 360;

/// The box around points on the globe, the shorter way around.
#[derive(Debug)]
pub struct Around {
    south: f64,
    north: f64,
    /// The westernmost and the easternmost point in each sector.
    sectors: Vec<Option<(f64, f64)>>,
}

impl Default for Around {
    fn default() -> Self {
        Self { south: f64::INFINITY, north: f64::NEG_INFINITY, sectors: vec![None; SECTORS] }
    }
}

impl Around {
    /// The middle of an area.
    pub fn take(&mut self, Middle { east, north, .. }: Middle) {
        (self.south, self.north) = (self.south.min(north), self.north.max(north));
        let sector = ((east + 180.0) as usize).min(SECTORS - 1);
        if let Some(found) = self.sectors.get_mut(sector) {
            let (west, last) = found.unwrap_or((east, east));
            *found = Some((west.min(east), last.max(east)));
        }
    }

    /// West, south, east, north; west is more than east where it lies across the antimeridian. `None`: around nothing.
    pub fn bounds(&self) -> Option<[f64; 4]> {
        let filled: Vec<(f64, f64)> = self.sectors.iter().flatten().copied().collect();
        let (first, last) = (filled.first()?, filled.last()?);
        // What is left out is the widest gap; that across the antimeridian, where none is wider.
        let mut gap = first.0 + 360.0 - last.1;
        let (mut west, mut east) = (first.0, last.1);
        for pair in filled.windows(2) {
            if let [before, after] = pair
                && after.0 - before.1 > gap
            {
                gap = after.0 - before.1;
                (west, east) = (after.0, before.1);
            }
        }
        Some([west, self.south, east, self.north])
    }
}
