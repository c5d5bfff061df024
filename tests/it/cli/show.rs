//! Ids as people see them.

use choirmaster::cli::show::{short_id, short_ids};

#[test]
fn ids_that_the_manager_made_are_shortened_and_no_others() {
    let id = "7c3d2b67-9a23-4bbc-a80b-2913d09a1c26";
    assert_eq!(short_id(id), "7c3d2b67");
    for other in
        ["", "agent-3", "7c3d2b67-9a23-4bbc-a80b-2913d09a1c2", "7c3d2b67-9a23-4bbc-a80b-2913d09a1c2x"]
    {
        assert_eq!(short_id(other), other);
    }
    assert_eq!(
        short_ids(&format!("{id}: {id} failed (5 %), é agent-3")),
        "7c3d2b67: 7c3d2b67 failed (5 %), é agent-3"
    );
}
