//! The same text with another id.

use language::{check, id_of, with_id};

use super::{REFERENCE, with};

#[test]
fn nothing_but_the_id_changes() {
    let comment = REFERENCE.replacen("id: 11", "# before\nid: 11 # behind", 1);
    for (text, expected) in [
        (REFERENCE.to_owned(), with("id: 11", "id: 11-2")),
        (comment.clone(), comment.replace("id: 11 #", "id: 11-2 #")),
        (with("id: 11", "id: '11'"), with("id: 11", "id: '11-2'")),
        (with("id: 11", "id: \"11\""), with("id: 11", "id: \"11-2\"")),
        (format!("\u{feff}{REFERENCE}"), format!("\u{feff}{}", with("id: 11", "id: 11-2"))),
        (REFERENCE.replace('\n', "\r\n"), with("id: 11", "id: 11-2").replace('\n', "\r\n")),
        ("{name: é, id: 11, more: 11}".to_owned(), "{name: é, id: 11-2, more: 11}".to_owned()),
    ] {
        assert_eq!(id_of(&text).as_deref(), Some("11"), "{text}");
        assert_eq!(with_id(&text, "11-2"), Some(expected), "{text}");
    }
    let changed = with_id(REFERENCE, "11-2").unwrap();
    assert_eq!(check(&changed).strategy.unwrap().id.as_str(), "11-2");
    assert_eq!(with_id(&changed, "11").as_deref(), Some(REFERENCE));
}

#[test]
fn where_it_does_not_stand_letter_by_letter_nothing_is_guessed() {
    for text in ["name: x\n", "id: [11]\n", "id:\n", "id: \"1\\x31\"\n", "a: [", "id: &a 11\nx: *a\n"] {
        let changed = with_id(text, "11-2");
        assert!(changed.is_none() || id_of(&changed.unwrap()).as_deref() == Some("11-2"), "{text}");
    }
    assert_eq!(id_of("name: x\n"), None);
    assert_eq!(with_id("name: x\n", "11-2"), None);
    // No text is slipped in by an id.
    for id in ["x\nforward_up: true", "x: y", "null", ""] {
        assert_eq!(with_id(REFERENCE, id), None, "{id:?}");
    }
}
