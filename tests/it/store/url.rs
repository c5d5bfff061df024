//! What the URL of a store names.

use std::path::Path;

use store::tried_alone::{StorePlace, parse};

#[test]
fn a_url_names_a_file_or_a_server_and_nothing_else() {
    assert_eq!(parse("sqlite://a/b.db").unwrap(), StorePlace::Sqlite(Path::new("a/b.db")));
    assert_eq!(parse("sqlite:///a/b.db").unwrap(), StorePlace::Sqlite(Path::new("/a/b.db")));
    assert_eq!(parse("sqlite:b.db").unwrap(), StorePlace::Sqlite(Path::new("b.db")));
    assert_eq!(parse("postgres://h/d").unwrap(), StorePlace::Postgres("postgres://h/d"));
    for wrong in ["", "b.db", "sqlite://", "sqlite::memory:", "mysql://x:secret@h/d"] {
        let text = parse(wrong).unwrap_err().to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}
