//! Random numbers of the tests: seeded, fast, the same on every machine.

use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

pub struct Random {
    pub rng: Xoshiro256PlusPlus,
    spare: Option<f64>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), spare: None }
    }

    /// From 0 to 1, neither of them.
    pub fn uniform(&mut self) -> f64 {
        let bits: u64 = self.rng.random();
        ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let r = x * x + y * y;
            if r < 1.0 && r > 0.0 {
                let factor = (-2.0 * r.ln() / r).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Median 1.
    pub fn log_normal(&mut self, sd: f64) -> f64 {
        (sd * self.normal()).exp()
    }
}
