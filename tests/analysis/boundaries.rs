//! Boundaries for repeated looks, against published tables and over all ways in which few values may come.

use std::collections::BTreeMap;

use analysis::{
    Design, End, Judgement, Occasion, Sample, Spending, Stratum, Tolerance, Verdict,
    alpha_spending::{SpentBounds, spent},
    anytime_test::ln_mixture,
    dist::{normal_sf, normal_z},
    rank::{Map, rank_sums},
    spread::SortedSide,
    sums::Sums,
};

/// Boundaries with information proportional to time.
fn boundaries(spending: Spending, alpha: f64, looks: u32) -> Vec<f64> {
    let mut bounds = SpentBounds::default();
    for look in 1..=looks {
        let t = f64::from(look) / f64::from(looks);
        bounds.look(t, spent(spending, alpha, t), 1.0);
    }
    bounds.boundary();
    bounds.iter().map(|bound| bound.z.unwrap()).collect()
}

fn rounded(values: &[f64]) -> Vec<String> {
    values.iter().map(|z| format!("{z:.3}")).collect()
}

#[test]
fn five_looks_have_the_published_boundaries() {
    // Two-sided 0.05 is one-sided 0.025 twice. Lan and DeMets 1983; Reboussin, DeMets, Kim and Lan 2000.
    let o_brien_fleming = boundaries(Spending::OBrienFleming, 0.025, 5);
    assert_eq!(rounded(&o_brien_fleming), ["4.877", "3.357", "2.680", "2.290", "2.031"]);
    let pocock = boundaries(Spending::Pocock, 0.025, 5);
    assert_eq!(rounded(&pocock), ["2.438", "2.427", "2.410", "2.397", "2.386"]);
}

#[test]
fn the_first_look_spends_what_it_spends() {
    let first = boundaries(Spending::Linear, 0.05, 10)[0];
    assert!((first - normal_z(0.005)).abs() < 1e-12);
}

#[test]
fn alpha_is_spent_whole_at_the_end_and_never_taken_back() {
    for spending in [Spending::Reserve, Spending::Linear, Spending::OBrienFleming, Spending::Pocock] {
        assert!((spent(spending, 0.05, 1.0) - 0.05).abs() < 1e-12, "{spending:?}");
        assert!(spent(spending, 0.05, 0.0).abs() < 1e-12);
        let steps: Vec<f64> = (0..=100).map(|t| spent(spending, 0.05, f64::from(t) / 100.0)).collect();
        assert!(steps.is_sorted(), "{spending:?}");
    }
}

#[test]
fn a_hundred_looks_cross_with_the_alpha_they_spend() {
    // Checked by simulation with increments of another kind than the recursion integrates.
    let boundaries = boundaries(Spending::Reserve, 0.05, 100);
    let mut random = super::random::Random::new(1);
    let runs = 40_000;
    let mut crossed = 0;
    for _ in 0..runs {
        let mut sum = 0.0;
        crossed += u32::from((1_u32..=100).zip(&boundaries).any(|(look, z)| {
            sum += random.normal();
            sum > z * f64::from(look).sqrt()
        }));
    }
    let share = f64::from(crossed) / f64::from(runs);
    assert!((share - 0.05).abs() < 0.004, "{share}");
}

#[test]
fn a_look_without_news_spends_by_itself_or_not_at_all() {
    let mut bounds = SpentBounds::default();
    assert!(!bounds.look(1.0, 0.02, 0.5));
    assert!(!bounds.worthwhile(1.001));
    assert!(bounds.worthwhile(1.1));
    // The last look has to: what is left is 0.03.
    let mut late = bounds.clone();
    assert!(late.look(1.001, 0.05, 0.029));
    let mut late = bounds.clone();
    assert!(!late.look(1.001, 0.05, 0.031));
}

#[test]
fn whether_a_boundary_is_worked_out_at_once_or_later_changes_nothing() {
    let looks = [(1.0, 0.01), (1.7, 0.02), (3.1, 0.03), (3.2, 0.04), (7.0, 0.05)];
    let mut lazy = SpentBounds::default();
    let mut eager = SpentBounds::default();
    for (information, spent) in looks {
        lazy.look(information, spent, 1.0);
        eager.look(information, spent, 1.0);
        eager.boundary();
    }
    lazy.boundary();
    for (a, b) in lazy.iter().zip(eager.iter()) {
        assert!((a.z.unwrap() - b.z.unwrap()).abs() < 1e-6, "{a:?} {b:?}");
    }
    // A level lies between what a look spends by itself and all that was spent.
    for (bound, (_, spent)) in lazy.iter().zip(looks) {
        let level = normal_sf(bound.z.unwrap());
        assert!(level >= 0.01 - 1e-9 && level <= spent + 1e-9, "{level}");
    }
}

#[test]
fn the_mixture_exceeds_its_level_as_seldom_as_it_promises() {
    let mut random = super::random::Random::new(2);
    let runs = 2_000;
    let mut exceeded = 0;
    for _ in 0..runs {
        let mut s = 0.0;
        exceeded += u32::from((1..=1_000).any(|step| {
            s += random.normal();
            ln_mixture(s, f64::from(step), 10.0) >= -0.05_f64.ln()
        }));
    }
    assert!(exceeded < runs / 20, "{exceeded}");
    assert!(exceeded > runs / 200, "{exceeded}: it should not be idle either");
}

/// Ways in which ten different values may be shared out among two sides of five, each as values with the baseline before it is
/// compared.
fn shared_out() -> Vec<[Vec<f64>; 2]> {
    let values = |way: u32, side: bool, scale: f64| -> Vec<f64> {
        (0..10).filter(|at| (way >> at & 1 == 1) == side).map(|at| (10.0 + f64::from(at)) / scale).collect()
    };
    let ways = (0_u32..1 << 10).filter(|way| way.count_ones() == 5);
    ways.map(|way| [values(way, false, 1.05), values(way, true, 1.0)]).collect()
}

fn sums(sides: &[Vec<f64>; 2]) -> Sums {
    let [baseline, canary] = sides.clone().map(|side| SortedSide::of_values(side, None));
    rank_sums(&baseline, &canary, Map::scale(1.05))
}

#[test]
fn the_variance_of_placements_is_that_of_ranks_in_the_mean_over_all_ways() {
    let ways: Vec<Sums> = shared_out().iter().map(sums).collect();
    let mean = |of: fn(&Sums) -> f64| ways.iter().map(of).sum::<f64>() / ways.len() as f64;
    assert!((mean(|sums| sums.placement) / mean(|sums| sums.v) - 1.0).abs() < 0.01);
}

#[test]
fn two_looks_at_five_values_a_side_keep_alpha_over_all_ways() {
    // Ways with the same statistic and variance are judged alike.
    let mut kinds: BTreeMap<[u64; 2], (f64, [Vec<f64>; 2])> = BTreeMap::new();
    let ways = shared_out();
    for way in &ways {
        let Sums { s, placement, .. } = sums(way);
        let (part, _) = kinds.entry([s, placement].map(f64::to_bits)).or_insert_with(|| (0.0, way.clone()));
        *part += 1.0 / ways.len() as f64;
    }
    let mut design = Design::new(Tolerance::Ratio(0.05));
    design.end = End::After { duration_ms: 2, interval_ms: 1, spending: Spending::default() };
    let stratum = |interval, [baseline, canary]: [Vec<f64>; 2]| {
        Stratum::new("canary", interval, Sample::Values(baseline), Sample::Values(canary))
    };
    let [mut at_first, mut in_all] = [0.0; 2];
    for (part, way) in kinds.values() {
        let mut judgement = Judgement::new(design.clone()).unwrap();
        let first = stratum(0, way.clone());
        if judgement.decide(std::slice::from_ref(&first), 1, Occasion::Look).verdict == Some(Verdict::Fail) {
            at_first += part;
            in_all += part;
            continue;
        }
        for (of, next) in kinds.values() {
            let strata = [first.clone(), stratum(1, next.clone())];
            let verdict = judgement.clone().decide(&strata, 2, Occasion::Last).verdict;
            in_all += if verdict == Some(Verdict::Fail) { part * of } else { 0.0 };
        }
    }
    assert!(at_first > 0.01, "so few values count: {at_first}");
    assert!(in_all <= 0.05 && in_all > 0.03, "{in_all}");
}
