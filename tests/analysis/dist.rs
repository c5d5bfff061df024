//! Distributions beside those of `statrs`: the same where both hold, and where one doesn't, which. What is right was worked
//! out with 60 digits.

use analysis::dist::{
    binomial_cdf, binomial_pmf, binomial_sf, hypergeometric_pmf, normal_ln_sf, normal_pdf, normal_sf,
    normal_z, pearson3_sf, student_sf,
};
use statrs::{
    distribution::{Binomial, ContinuousCDF as _, Discrete as _, DiscreteCDF as _, Hypergeometric, Normal},
    function::gamma::{gamma_lr, gamma_ur},
};

/// How far one is from the other, as a share of it.
fn off(found: f64, right: f64) -> f64 {
    if found.to_bits() == right.to_bits() { 0.0 } else { ((found - right) / right).abs() }
}

/// From a to b in steps.
fn steps(a: f64, b: f64, count: u32) -> impl Iterator<Item = f64> {
    (0..=count).map(move |at| a + (b - a) * f64::from(at) / f64::from(count))
}

#[test]
fn normal_tails_are_those_of_statrs_but_for_its_tenth_digit() {
    let statrs = Normal::standard();
    for z in steps(-37.0, 37.0, 7_400) {
        assert!(off(normal_sf(z), statrs.sf(z)) < 2e-10, "{z}");
        if z > 0.0 && z < 37.0 {
            assert!((normal_ln_sf(z) - statrs.sf(z).ln()).abs() < 2e-10, "{z}");
        }
    }
    let (z, right) = (0.71, 0.238_852_068_089_986_7);
    assert!(off(normal_sf(z), right) < 1e-15);
    assert!(off(statrs.sf(z), right) > 5e-11, "statrs is exact by now: it could take the place of libm");
    // Where there is no probability any more, its logarithm still is.
    assert_eq!(statrs.sf(50.0).to_bits(), 0.0_f64.to_bits());
    assert!((normal_ln_sf(50.0) + 1_254.831_361).abs() < 1e-6);
}

#[test]
fn scores_and_tails_are_inverse_to_each_other() {
    for exponent in steps(-300.0, -0.31, 3_000) {
        let p = 10.0_f64.powf(exponent);
        // The slope of ln p is about z: that much of the last digit of z is seen.
        assert!(off(normal_sf(normal_z(p)), p) < 1e-12, "{p:e}");
    }
    assert!(normal_z(0.0).is_infinite() && normal_z(0.0) > 0.0);
    assert!(normal_z(1.0).is_infinite() && normal_z(1.0) < 0.0);
    assert!(normal_z(0.5).abs() < 1e-15 && normal_z(f64::NAN).is_nan());
    assert!(off(normal_pdf(1.0), 0.241_970_724_519_143_37) < 1e-15);
}

#[test]
fn students_far_tail_is_no_difference_from_one() {
    let right = [
        (1.723, 1_000.0, 0.042_598_834_390_272_23),
        (1.723, 10_000.0, 0.042_459_719_867_292_13),
        (8.0, 7.0, 4.557_460_585_437_681e-5),
        (60.0, 5.0, 1.216_818_879_499_189e-8),
        (40.0, 19.0, 4.153_878_599_669_215e-20),
    ];
    for (t, nu, p) in right {
        assert!(off(student_sf(t, nu), p) < 1e-10, "{t} {nu}: {:e}", student_sf(t, nu));
        assert!((student_sf(-t, nu) - (1.0 - p)).abs() < 1e-10);
    }
    assert_eq!(student_sf(2.0, f64::INFINITY).to_bits(), normal_sf(2.0).to_bits());
    assert!(student_sf(2.0, 0.0).is_nan());
}

#[test]
fn binomial_tails_are_those_of_statrs_as_long_as_there_are_few_calls() {
    for (n, p) in [(10, 0.5), (50, 0.3), (400, 0.5), (400, 0.05), (5_000, 0.01), (20_000, 0.5)] {
        let statrs = Binomial::new(p, n).unwrap();
        for k in (1..n).step_by((n / 97 + 1) as usize) {
            if statrs.pmf(k) > 1e-290 {
                assert!(off(binomial_pmf(k, n, p), statrs.pmf(k)) < 1e-9, "= {k} of {n}, {p}");
                assert!(off(binomial_sf(k, n, p), statrs.sf(k - 1)) < 1e-9, "≥ {k} of {n}, {p}");
                assert!(off(binomial_cdf(k, n, p), statrs.cdf(k)) < 1e-9, "≤ {k} of {n}, {p}");
            }
        }
    }
    for (n, right) in [(1_000_000, 0.500_398_942_180_665_9), (100_000_000, 0.500_039_894_227_940_4)] {
        assert!(off(binomial_sf(n / 2, n, 0.5), right) < 1e-11, "{:e}", binomial_sf(n / 2, n, 0.5));
        let statrs = Binomial::new(0.5, n).unwrap().sf(n / 2 - 1);
        assert!(off(statrs, right) > 1e-3, "{n}: statrs holds by now, and sums can go");
    }
    let (k, n, right) = (49_965_000, 100_000_000, 1.826_940_869_298_456e-15);
    let statrs = Binomial::new(0.5, n).unwrap();
    assert!(off(binomial_pmf(k, n, 0.5), right) < 1e-11, "{:e}", binomial_pmf(k, n, 0.5));
    assert!(off(statrs.pmf(k), right) > 1e-8, "statrs holds by now, and Loader's form can go");
    assert!(statrs.sf(49_999_999) < 0.0, "{}", statrs.sf(49_999_999));
    assert!(binomial_pmf(3, 2, 0.5).abs() < f64::MIN_POSITIVE);
}

#[test]
fn hypergeometric_probabilities_sum_to_one_whatever_their_coefficients() {
    for (total, marked, n) in
        [(20, 5, 10), (1_000, 50, 300), (20_000, 1_000, 10_000), (1_000_000, 300, 50_000)]
    {
        let sum: f64 = (0..=marked).map(|k| hypergeometric_pmf(k, total, marked, n)).sum();
        assert!(off(sum, 1.0) < 1e-8, "{total}: {sum}");
    }
    assert!(Hypergeometric::new(20_000, 1_000, 10_000).unwrap().pmf(500).is_nan());
    assert!(hypergeometric_pmf(6, 20, 5, 10).abs() < f64::MIN_POSITIVE);
}

#[test]
fn pearsons_tails_are_those_of_statrs_unless_skewness_is_small() {
    let tails = |z: f64, skewness: f64| {
        let shape = 4.0 / (skewness * skewness);
        let (above, below) = (shape + z * shape.sqrt(), shape - z * shape.sqrt());
        (gamma_ur(shape, above), if below > 0.0 { gamma_lr(shape, below) } else { 0.0 })
    };
    for skewness in [2.0, 1.0, 0.5, 0.2, 0.1, 0.05] {
        for z in steps(0.0, 20.0, 200) {
            let (upper, lower) = tails(z, skewness);
            assert!(off(pearson3_sf(z, skewness), upper) < 1e-11, "{z} {skewness}");
            assert!(lower < 1e-290 || off(pearson3_sf(z, -skewness), lower) < 1e-11, "{z} {skewness}");
        }
    }
    let right = [
        (3.0, 0.05, 0.001_660_219_079_971_66),
        (3.0, 0.001, 0.001_355_813_253_763_16),
        (7.17, 0.0001, 3.772_965_433_721_5e-13),
    ];
    for (z, skewness, p) in right {
        assert!(off(pearson3_sf(z, skewness), p) < 1e-11, "{z} {skewness}: {:e}", pearson3_sf(z, skewness));
    }
    assert!(off(tails(7.17, 0.0001).0, 3.772_965_433_721_5e-13) > 1e-7, "statrs holds by now");
}

#[test]
fn tails_too_small_for_a_float_are_none_at_once_however_many_calls_there_are() {
    let calls = 1 << 48;
    assert_eq!(binomial_sf(calls / 2, calls, 0.001).to_bits(), 0.0_f64.to_bits());
    assert_eq!(binomial_cdf(10, calls, 0.5).to_bits(), 0.0_f64.to_bits());
    assert_eq!(binomial_pmf(calls / 2, calls, 0.001).to_bits(), 0.0_f64.to_bits());
}
