//! The pages of the documentation that list every key of the language, written from the schema.
//!
//! After a change of the schema: `INSTA_UPDATE=always cargo test -p language pages::`, and read the difference.

mod examples;
mod page;

use std::collections::BTreeSet;

use language::schema::schema;
use serde_json::Value;

use self::page::{PAGES, Reader};

/// The variable by which snapshots are written too.
const UPDATE: &str = "INSTA_UPDATE";

fn schema_value() -> Value {
    serde_json::to_value(schema()).unwrap()
}

#[test]
fn the_pages_of_the_language_say_what_the_schema_says() {
    let schema = schema_value();
    for page in &PAGES {
        let path = crate::repository().join("docs").join(page.file);
        let text = page.text(&schema);
        if std::env::var(UPDATE).is_ok_and(|how| how == "always") {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = kept.lines().zip(text.lines()).find(|(kept, now)| kept != now);
        assert!(
            kept == text,
            "docs/{} is stale: {UPDATE}=always cargo test -p language pages:: writes it\n{differs:#?}",
            page.file
        );
    }
}

#[test]
fn each_block_of_the_schema_is_on_a_page() {
    let schema = schema_value();
    let forms = schema["$defs"].as_object().unwrap();
    let keys = |form: &Value| -> BTreeSet<String> {
        form["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let shown: Vec<&str> = PAGES.iter().flat_map(|page| page.blocks).map(|block| block.form).collect();
    for (name, form) in forms.iter().filter(|(_, form)| form["properties"].is_object()) {
        let has_all = |other: &&str| keys(form).is_subset(&keys(Reader::new(&schema, "").form(other)));
        assert!(
            shown.contains(&name.as_str()) || shown.iter().any(has_all),
            "no page has {name}: add it to PAGES in tests/language/pages/page.rs"
        );
    }
}
