//! Answers of scipy and of full enumeration; `vectors/make.py` made them.

use analysis::{
    dist::{binomial_cdf, binomial_sf, hypergeometric_pmf, normal_sf, normal_z, pearson3_sf, student_sf},
    exact::exact_tails,
    rank::{Alternative, Element, Map, normal_p, rank_sums, walk},
    spread::SortedSide,
};
use serde::Deserialize;
use std::collections::BTreeMap;

const MANN_WHITNEY: &str = include_str!("vectors/mann_whitney.json");
const ENUMERATIONS: &str = include_str!("vectors/enumerations.json");
const TAILS: &str = include_str!("vectors/tails.json");

/// Below it nothing is asked for.
const LEAST_P: f64 = 1e-300;

fn close(found: f64, wanted: f64, relative: f64) -> bool {
    found.to_bits() == wanted.to_bits()
        || (wanted < LEAST_P && found < LEAST_P)
        || (found - wanted).abs() <= relative * wanted.abs()
}

/// All that isn't close, in lines.
#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn check(&mut self, what: &str, found: f64, wanted: f64, relative: f64) {
        if !close(found, wanted, relative) {
            self.0.push(format!("{what}: {found:e}, wanted {wanted:e}, off by {:.1e}", found / wanted - 1.0));
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{}", self.0.join("\n"));
        }
    }
}

#[derive(Deserialize)]
struct Case {
    m: usize,
    n: usize,
    shape: String,
    shift: i64,
    seed: u64,
    u: f64,
    p: BTreeMap<String, f64>,
    #[serde(default)]
    exact: BTreeMap<String, f64>,
}

impl Case {
    /// The recipe of `make.py`.
    fn samples(&self) -> (Vec<f64>, Vec<f64>) {
        if self.shape == "separated" {
            return (
                (0..self.m).map(|v| v as f64).collect(),
                (self.m..2 * self.m).map(|v| v as f64).collect(),
            );
        }
        let mut state = self.seed;
        let mut values = Vec::new();
        for at in 0..self.m + self.n {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let u = (state >> 40) as i64;
            let value = match self.shape.as_str() {
                "fine" => u,
                "coarse" => u % 17,
                _ if u % 10 < 7 => 0,
                _ => u % 1000,
            };
            values.push((value + if at >= self.m { self.shift } else { 0 }) as f64);
        }
        let canary = values.split_off(self.m);
        (values, canary)
    }
}

fn order(baseline: &SortedSide, canary: &SortedSide) -> Vec<Element> {
    let mut order = Vec::new();
    walk(baseline, canary, Map::IDENTITY, |element| order.push(element));
    order
}

#[test]
fn u_and_its_p_agree_with_scipy() {
    let cases: Vec<Case> = serde_json::from_str(MANN_WHITNEY).unwrap();
    assert!(cases.len() > 100);
    let mut report = Report::default();
    for case in cases {
        let (x, y) = case.samples();
        let (x, y) = (SortedSide::of_values(x, None), SortedSide::of_values(y, None));
        let sums = rank_sums(&x, &y, Map::IDENTITY);
        let name = format!("{} {}:{} {}", case.shape, case.m, case.n, case.shift);
        report.check(&name, sums.s + 0.5 * (case.m * case.n) as f64, case.u, 1e-12);
        for (how, wanted) in &case.p {
            let (alternative, continuity) = how.split_once(',').unwrap();
            let which = match alternative {
                "greater" => Alternative::Greater,
                "less" => Alternative::Less,
                _ => Alternative::TwoSided,
            };
            let found = normal_p(&sums, which, continuity == "true");
            report.check(&format!("{name} {how}"), found, *wanted, 1e-9);
        }
        if !case.exact.is_empty() {
            let (upper, lower) = exact_tails(&order(&x, &y)).expect("feasible");
            for (how, wanted) in &case.exact {
                let found = if how == "greater" { upper } else { lower };
                report.check(&format!("{name} exact {how}"), found, *wanted, 1e-9);
            }
        }
    }
}

#[test]
fn exact_p_with_ties_agrees_with_full_enumeration() {
    #[derive(Deserialize)]
    struct Enumerated {
        baseline: Vec<f64>,
        canary: Vec<f64>,
        greater: f64,
        less: f64,
    }
    let cases: Vec<Enumerated> = serde_json::from_str(ENUMERATIONS).unwrap();
    let mut report = Report::default();
    for case in cases {
        let name = format!("{:?} {:?}", case.baseline, case.canary);
        let order =
            order(&SortedSide::of_values(case.baseline, None), &SortedSide::of_values(case.canary, None));
        let (upper, lower) = exact_tails(&order).expect("feasible");
        report.check(&name, upper, case.greater, 1e-12);
        report.check(&name, lower, case.less, 1e-12);
    }
}

#[derive(Deserialize)]
struct Tails {
    normal: Vec<(f64, f64)>,
    quantiles: Vec<(f64, f64)>,
    pearson: Vec<(f64, f64, f64)>,
    binomial: Vec<(u64, u64, f64, f64, f64)>,
    hypergeometric: Vec<(u64, u64, u64, u64, f64)>,
    student: Vec<(f64, f64, f64)>,
}

#[test]
fn tails_of_distributions_agree_with_scipy() {
    let tails: Tails = serde_json::from_str(TAILS).unwrap();
    let mut report = Report::default();
    for (z, p) in tails.normal {
        report.check(&format!("normal {z}"), normal_sf(z), p, 1e-12);
    }
    for (p, z) in tails.quantiles {
        if z.abs() > 1e-9 {
            report.check(&format!("normal score of {p:e}"), normal_z(p), z, 1e-12);
        }
    }
    for (z, skewness, p) in tails.pearson {
        report.check(&format!("pearson {z} {skewness}"), pearson3_sf(z, skewness), p, 1e-9);
    }
    for (k, n, p, sf, cdf) in tails.binomial {
        report.check(&format!("binomial ≥{k} {n} {p}"), binomial_sf(k, n, p), sf, 1e-9);
        report.check(&format!("binomial ≤{k} {n} {p}"), binomial_cdf(k, n, p), cdf, 1e-9);
    }
    for (k, total, marked, n, p) in tails.hypergeometric {
        let found = (k..=n.min(marked)).map(|k| hypergeometric_pmf(k, total, marked, n)).sum();
        report.check(&format!("hypergeometric {k} {total} {marked} {n}"), found, p, 1e-9);
    }
    for (t, nu, p) in tails.student {
        report.check(&format!("student {t} {nu}"), student_sf(t, nu), p, 1e-9);
    }
}
