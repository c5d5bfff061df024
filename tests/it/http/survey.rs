//! Which areas are checked where they come in, and which on a thread apart.

use http_api::tried_alone::survey::{SMALL_BYTES, check, is_small, rings};

#[test]
fn what_takes_long_to_check_is_never_checked_where_it_comes_in() {
    let polygon = r#"{"type": "Polygon", "coordinates": [[ [0, 0], [1, 0], [1, 1], [0, 0] ]]}"#;
    assert!(is_small(polygon));
    assert_eq!(rings(polygon), 1);
    // Triangles that don't meet, but whose boxes do.
    let triangles: Vec<String> =
        (0..50).map(|at| format!("[[[{at},0],[89,{}],[{at}.3,0],[{at},0]]]", 89 - at)).collect();
    let many = format!(r#"{{"type":"MultiPolygon","coordinates":[{}]}}"#, triangles.join(","));
    assert!(many.len() <= SMALL_BYTES && check(&many).is_ok());
    assert_eq!(rings(&many), 50);
    assert!(!is_small(&many));
    let holes: Vec<String> = (1..40).map(|at| format!("[[{at},1],[{at},2],[{at}.5,1],[{at},1]]")).collect();
    let holed = format!(
        r#"{{"type":"Polygon","coordinates":[[[0,0],[50,0],[50,9],[0,9],[0,0]],{}]}}"#,
        holes.join(", ")
    );
    assert!(holed.len() <= SMALL_BYTES && check(&holed).is_ok());
    assert!(!is_small(&holed));
    assert!(!is_small(&" ".repeat(SMALL_BYTES + 1)));
}
