//! What is said of routers that would give one user different variations.

use domain::plan::{advise, drawn_apart, plan};
use language::check_submission;
use model::{Capabilities, Leads};

use super::{Child, Children};

const SERVICE: &str = r#"id: checkout-42
name: checkout
services:
  - name: checkout
    ports: [{port: 8080}]
    sticky: {cookie: cm}
    variations:
      - {name: A, targets: ["127.0.0.1:9101"]}
      - {name: B, targets: ["127.0.0.1:9111"]}
strategy: canary-10-25-50-100
"#;

/// What is said where these kinds of routers lead the service.
fn said(text: &str, kinds: &[&str]) -> String {
    let checked = check_submission(text.as_bytes());
    let strategy = checked.strategy.unwrap();
    let child = |kind: &&str| {
        let routers = vec![(*kind).to_owned()];
        let capabilities = Capabilities { leads: Leads::Whole, routers, ..Capabilities::default() };
        Child { capabilities: Some(capabilities), ..Child::nowhere("c") }
    };
    let children = Children::new(kinds.iter().map(child).collect());
    let planned = plan(&strategy, &children);
    assert_eq!(planned.members.len(), kinds.len());
    let advice = advise(&strategy, &children, &planned);
    let found = drawn_apart(&strategy, &checked.places, &advice);
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn routers_that_draw_users_by_different_functions_are_named_with_what_helps() {
    insta::assert_snapshot!(said(SERVICE, &["embedded", "haproxy", "haproxy"]), @r#"
    4:5: warning: users of checkout are drawn apart: by murmur2 at embedded, by xxh32 at haproxy; one who calls at several of them may get another variation at each
     4 |   - name: checkout
       |     ^
      help: say hash: xxh32, which all of them know
    "#);
    insta::assert_snapshot!(said(SERVICE, &["embedded", "nginx", "haproxy"]), @r#"
    4:5: warning: users of checkout are drawn apart: by murmur2 at embedded, nginx, by xxh32 at haproxy; one who calls at several of them may get another variation at each
     4 |   - name: checkout
       |     ^
      help: no function is known to all of them: release them apart if users call at several
    "#);
}

#[test]
fn routers_that_draw_users_alike_are_fine() {
    for kinds in [&["embedded", "nginx"][..], &["haproxy", "haproxy"], &["embedded"]] {
        assert_eq!(said(SERVICE, kinds), "");
    }
    let hashed = SERVICE.replace("    sticky", "    hash: xxh32\n    sticky");
    assert_eq!(said(&hashed, &["embedded", "haproxy"]), "");
    assert_ne!(said(&hashed, &["embedded", "nginx"]), "");
    let by_call = SERVICE.replace("    sticky: {cookie: cm}\n", "");
    assert_eq!(said(&by_call, &["embedded", "haproxy"]), "", "each call is drawn by itself anyway");
}
