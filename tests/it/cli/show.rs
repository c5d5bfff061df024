//! Ids, tables and sizes as people see them.

use choirmaster::cli::show::{short_id, short_ids, size, table, table_within, wrapped};

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

fn rows() -> Vec<Vec<String>> {
    let row = |id: &str, name: &str| vec![id.to_owned(), "RolledBack".to_owned(), name.to_owned()];
    vec![
        row("checkout-42", "Checkout, version 42, with another way to pay"),
        row("a-release-with-a-long-id", "Short"),
    ]
}

const HEAD: [&str; 3] = ["ID", "STATE", "NAME"];

#[test]
fn a_table_is_cut_to_its_width_in_the_last_column_and_then_in_the_first() {
    assert_eq!(table_within(None, &HEAD, rows()), table(&HEAD, rows()));
    assert_eq!(table_within(Some(100), &HEAD, rows()), table(&HEAD, rows()));
    insta::assert_snapshot!(table_within(Some(60), &HEAD, rows()), @r"
    ID                        STATE       NAME
    checkout-42               RolledBack  Checkout, version 42,…
    a-release-with-a-long-id  RolledBack  Short
    ");
    insta::assert_snapshot!(table_within(Some(30), &HEAD, rows()), @r"
    ID            STATE       NAME
    checkout-42   RolledBack  Che…
    a-release-w…  RolledBack  Sho…
    ");
    for width in 1..80 {
        let text = table_within(Some(width), &HEAD, rows());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn a_text_is_wrapped_between_words_and_cut_after_some_lines() {
    assert_eq!(wrapped("one two three four", 9, 3), ["one two", "three", "four"]);
    assert_eq!(wrapped("one two three four", 9, 2), ["one two", "three fo…"]);
    assert_eq!(wrapped("unbreakable", 5, 2), ["unbr…"]);
    assert_eq!(wrapped("", 5, 2), [""; 0]);
}

#[test]
fn sizes_are_told_in_the_largest_unit() {
    let table = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB"), (5 << 40, "5.0 TiB")];
    for (bytes, said) in table {
        assert_eq!(size(bytes), said);
    }
}
