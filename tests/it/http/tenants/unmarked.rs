//! The mark of a tenant is taken off ids wherever a text is cut, and nothing else is.

use http_api::scope::Unmarker;
use model::TenantName;
use proptest::prelude::*;

fn acme() -> TenantName {
    TenantName::parse("acme").unwrap()
}

#[test]
fn marks_stand_where_an_id_may_begin() {
    for (text, shown) in [
        ("~acme~x", "x"),
        ("\"~acme~x\"", "\"x\""),
        ("release ~acme~x, ~acme~y.r2", "release x, y.r2"),
        ("/api/v1/releases/~acme~x", "/api/v1/releases/x"),
        ("a\\n~acme~x", "a\\nx"),
        // Somebody else's, and what only looks like it.
        ("~umbra~x", "~umbra~x"),
        ("x~acme~y", "x~acme~y"),
        ("~acm", "~acm"),
        // An id may have a mark in it.
        ("~acme~~acme~x", "~acme~x"),
        ("~acme~~umbra~x", "~umbra~x"),
    ] {
        assert_eq!(String::from_utf8(Unmarker::whole(&acme(), text.as_bytes())).unwrap(), shown, "{text}");
    }
}

proptest! {
    #[test]
    fn it_doesnt_matter_where_a_text_is_cut(
        words in prop::collection::vec(prop_oneof![
            Just("~acme~"), Just("~acme"), Just("acme~"), Just("~"), Just(" "), Just("\""), Just("x"), Just("\\n"), Just("ä"),
        ], 0..20),
        cuts in prop::collection::vec(0_usize..100, 0..6),
    ) {
        let text = words.concat().into_bytes();
        let whole = Unmarker::whole(&acme(), &text);
        let mut places: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        places.push(text.len());
        places.sort_unstable();
        let (mut unmarker, mut from, mut out) = (Unmarker::new(&acme()), 0, Vec::new());
        for to in places {
            out.extend(unmarker.push(&text[from..to]));
            from = to;
        }
        out.extend(unmarker.end());
        prop_assert_eq!(out, whole);
    }
}
