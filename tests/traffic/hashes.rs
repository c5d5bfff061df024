use traffic::{BUCKETS, Bucket, HashFunction, murmur2};

#[test]
fn murmur2_gives_the_published_values() {
    // Values of the reference implementation with seed 0.
    assert_eq!(murmur2(b""), 0);
    assert_eq!(murmur2(b"a"), 0x9268_5f5e);
    assert_eq!(murmur2(b"hello"), 0xe561_29cb);
}

#[test]
fn each_bucket_is_about_as_likely_as_any_other() {
    for function in [HashFunction::Murmur2, HashFunction::Xxh32] {
        let mut counts = vec![0_u32; usize::from(BUCKETS)];
        let keys = 400_000;
        for key in 0..keys {
            let bucket = Bucket::of_key(function, b"release-7", format!("user-{key}").as_bytes());
            counts[usize::from(bucket.index())] += 1;
        }
        let expected = f64::from(keys) / f64::from(BUCKETS);
        let chi_square: f64 =
            counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        // Mean 9,999 and standard deviation 141 where all are as likely; 6 of these are passed once in 500 million.
        assert!((chi_square - 9_999.0).abs() < 6.0 * 141.4, "{function:?}: {chi_square}");
    }
}

#[test]
fn two_salts_draw_users_independently() {
    for function in [HashFunction::Murmur2, HashFunction::Xxh32] {
        let mut counts = [[0_u32; 10]; 10];
        let keys = 100_000;
        for key in 0..keys {
            let key = format!("user-{key}");
            let tenth =
                |salt: &[u8]| usize::from(Bucket::of_key(function, salt, key.as_bytes()).index() / 1000);
            counts[tenth(b"release-1")][tenth(b"release-2")] += 1;
        }
        let expected = f64::from(keys) / 100.0;
        let chi_square: f64 =
            counts.iter().flatten().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        // 99 degrees of freedom: above 200 once in a hundred million.
        assert!(chi_square < 200.0, "{function:?}: {chi_square}");
    }
}

#[test]
fn the_bounds_of_a_draw_fall_into_the_first_and_the_last_bucket() {
    assert_eq!(Bucket::of_random(0).index(), 0);
    assert_eq!(Bucket::of_random(u32::MAX).index(), BUCKETS - 1);
}
