//! Random numbers that are counts.

use rand::RngExt as _;

use crate::random::Random;

impl Random {
    pub fn poisson(&mut self, mean: f64) -> u64 {
        let limit = (-mean).exp();
        let mut k = 0;
        let mut product = self.uniform();
        while product > limit {
            k += 1;
            product *= self.uniform();
        }
        k
    }

    /// As many calls as come by chance where so many are expected.
    pub fn count(&mut self, mean: f64) -> u64 {
        const MANY: f64 = 50.0;
        if mean < MANY {
            self.poisson(mean)
        } else {
            (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64
        }
    }

    pub fn binomial(&mut self, n: u64, p: f64) -> u64 {
        if p > 0.5 {
            return n - self.binomial(n, 1.0 - p);
        }
        if (p - 0.5).abs() < f64::EPSILON {
            let ones = |bits: u64| u64::from(bits.count_ones());
            let whole: u64 = (0..n / 64).map(|_| ones(self.rng.random())).sum();
            let rest = 64 - n % 64;
            return if rest == 64 { whole } else { whole + ones(self.rng.random::<u64>() >> rest) };
        }
        if p > 0.2 {
            return (0..n).filter(|_| self.chance(p)).count() as u64;
        }
        // From success to success: the gaps are geometric.
        let (mut at, mut count) = (0.0, 0);
        loop {
            at += (self.uniform().ln() / (-p).ln_1p()).floor() + 1.0;
            if at > n as f64 {
                return count;
            }
            count += 1;
        }
    }
}
