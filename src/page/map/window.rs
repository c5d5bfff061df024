//! The part of the world that a page shows.

/// Cells from west to east; of the world they are 10 degrees wide.
pub const COLUMNS: u32 = 36;

/// How much nearer one step goes.
const STEP: f64 = 4.0;

/// Of what is near one child, in degrees from west to east.
const NEAR: f64 = 8.0;

/// No page shows less, in degrees from west to east.
const NARROWEST: f64 = 0.01;

/// West, south, east and north, in degrees; twice as wide as high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
}

pub const WORLD: Window = Window { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };

impl Window {
    /// `WEST,SOUTH,EAST,NORTH`. What it isn't, the API says.
    pub fn read(text: &str) -> Option<Self> {
        let numbers: Vec<f64> = text.split(',').map_while(|part| part.trim().parse().ok()).collect();
        let [west, south, east, north] = numbers[..] else { return None };
        let is_one = numbers.iter().all(|number| number.is_finite()) && west < east && south < north;
        is_one.then_some(Self { west, south, east, north })
    }

    /// Around a position.
    pub fn near([x, y]: [f64; 2]) -> Self {
        around(x, y, NEAR)
    }

    /// One step nearer to a position; `None`: this is as near as it gets.
    pub fn nearer(&self, [x, y]: [f64; 2]) -> Option<Self> {
        let width = self.width() / STEP;
        (width >= NARROWEST).then(|| around(x, y, width))
    }

    /// One step back; `None`: this is the world.
    pub fn farther(&self) -> Option<Self> {
        let is_world = self.width() >= 360.0;
        let middle = (f64::midpoint(self.west, self.east), f64::midpoint(self.south, self.north));
        (!is_world).then(|| around(middle.0, middle.1, self.width() * STEP))
    }

    pub fn width(&self) -> f64 {
        self.east - self.west
    }

    pub fn height(&self) -> f64 {
        self.north - self.south
    }

    /// As in an address.
    pub fn text(&self) -> String {
        let number = |value: f64| {
            let text = format!("{value:.6}");
            let short = text.trim_end_matches('0').trim_end_matches('.');
            short.to_owned()
        };
        [self.west, self.south, self.east, self.north].map(number).join(",")
    }
}

/// So wide and half as high around a position, moved to within the poles.
fn around(x: f64, y: f64, width: f64) -> Window {
    if width >= 360.0 {
        return WORLD;
    }
    let x = (x + 180.0).rem_euclid(360.0) - 180.0;
    let up = width / 4.0;
    let y = y.clamp(up - 90.0, 90.0 - up);
    Window { west: x - width / 2.0, south: y - up, east: x + width / 2.0, north: y + up }
}
