//! Work that gives way to others is the same work.

use engine::apart::{BYTES, ITEMS, giving_way, write_json};

#[test]
fn items_come_as_they_are_however_many() {
    for count in [0, 1, ITEMS, 10 * ITEMS + 1] {
        assert!(giving_way(0..count).eq(0..count));
    }
}

#[tokio::test]
async fn json_is_what_it_is_without_giving_way() {
    let long: Vec<String> = (0..BYTES).map(|at| format!("\"{at}\" \\ ü")).collect();
    let expected = serde_json::to_vec(&long).unwrap();
    assert_eq!(write_json(move || long).await.unwrap(), expected);
}
