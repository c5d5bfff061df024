//! Names and ids: each has its UUID, and it is always the same.

use ab_releases::{Kind, Uuid, hundredths, release_id};

#[test]
fn ids_are_uuids_of_version_5_and_stay_what_they_were() {
    let id = Uuid::of(Kind::Release, &["default", "checkout-42"]);
    let text = id.to_string();
    assert_eq!((text.len(), text.as_bytes()[14]), (36, b'5'));
    assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
    assert_eq!(Uuid::parse(&text.to_uppercase()), Some(id));
    assert_ne!(Uuid::of(Kind::Release, &["defaultc", "heckout-42"]), id, "names don't run into each other");
    assert_ne!(Uuid::of(Kind::Version, &["default", "checkout-42"]), id);
    for none in
        ["", "checkout-42", "0c5b8f1e9a414d27b60d3a55e217c490", "zc5b8f1e-9a41-4d27-b60d-3a55e217c490"]
    {
        assert_eq!(Uuid::parse(none), None, "{none}");
    }
}

#[test]
fn names_become_ids_of_releases_that_differ_as_they_do() {
    assert_eq!(release_id("checkout-42", 48).unwrap().as_str(), "checkout-42");
    let (a, b) = (release_id("a b", 48).unwrap(), release_id("a,b", 48).unwrap());
    assert!(a.as_str().starts_with("a-b-") && b.as_str().starts_with("a-b-") && a != b, "{a} {b}");
    let long = release_id(&"x".repeat(300), 42).unwrap();
    assert_eq!(long.as_str().len(), 42);
    assert_ne!(release_id(&"x".repeat(43), 42), release_id(&"x".repeat(44), 42));
    assert!(release_id("…", 48).is_some());
}

#[test]
fn percentages_have_two_decimals() {
    for (percent, expected) in
        [(0.0, Some(0)), (0.01, Some(1)), (10.0, Some(1_000)), (33.33, Some(3_333)), (100.0, Some(10_000))]
    {
        assert_eq!(hundredths(percent), expected, "{percent}");
    }
    for none in [-0.01, 0.001, 33.333, 100.01, f64::NAN, f64::INFINITY] {
        assert_eq!(hundredths(none), None, "{none}");
    }
}
