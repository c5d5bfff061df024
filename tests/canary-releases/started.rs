//! Canaries that agents start: the strategy that one becomes, and what is rendered for it.

use std::collections::BTreeMap;

use canary_releases::{MAX_RENDERED_BYTES, RunFolder, Translated, is_of, render, translate};
use language::functions::Unpacked;
use protocol::canary_releases::{ReleaseRun, ReleaseSpec};
use serde_json::{Value, json};

use crate::{
    canary, checkout_2, release, running,
    strategy::{checked, translated},
    with,
};

fn limited() -> Value {
    with(checkout_2(10), "/spec/resources", json!({"limits": {"cpu": "500m", "memory": "128Mi"}}))
}

/// The lines of the variations of a strategy's text.
fn variations(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("      - {\"name\"")).map(str::trim_start).collect()
}

fn refused(document: &Value, of: &Value) -> String {
    translate(&canary(document), &release(of), 48).unwrap_err().to_string()
}

#[test]
fn what_is_started_stands_in_the_strategy_under_a_name_of_its_own() {
    let Translated { text, folders, .. } = translated(&limited(), &running());
    let canary = r#"- {"name":"canary","run":{"path":"checkout-canary","env":"program","limits":{"cpu":"500m","memory":"128Mi"}}}"#;
    assert_eq!(variations(&text), [r#"- {"name":"stable","targets":["127.0.0.1:9101"]}"#, canary]);
    let run = ReleaseRun { archive: None, path: "shop/v2".to_owned(), env: None };
    let (name, config) = ("checkout-canary".to_owned(), "greeting: hello\n".to_owned());
    assert_eq!(folders, [RunFolder { name, run, config, is_canary: true }]);
    let service = &checked(&text).services[0];
    assert_eq!(service.runs["canary"].limits.cpu, Some(50));

    // What was adopted is what serves then, with its configuration.
    let adopted =
        with(with(running(), "/spec/version", json!(2)), "/spec/config", json!("greeting: hello\n"));
    let next = with(checkout_2(10), "/spec/version", json!(3));
    let Translated { text, folders, .. } = translated(&next, &adopted);
    assert_eq!(
        variations(&text),
        [
            r#"- {"name":"stable","run":{"path":"checkout-stable","env":"program"}}"#,
            r#"- {"name":"canary","run":{"path":"checkout-canary","env":"image"}}"#,
        ]
    );
    let told: Vec<_> =
        folders.iter().map(|of| (&*of.name, &*of.run.path, &*of.config, of.is_canary)).collect();
    let hello = "greeting: hello\n";
    assert_eq!(told, [("checkout-stable", "shop/v2", hello, false), ("checkout-canary", "v3", hello, true)]);
}

#[test]
fn a_release_without_anything_to_start_becomes_the_strategy_that_it_became() {
    let text = translated(&checkout_2(10), &crate::shop()).text;
    assert!(!text.contains("canary-base") && !text.contains("run"), "{text}");
}

#[test]
fn what_can_not_be_started_is_named() {
    assert_eq!(
        refused(&limited(), &crate::shop()),
        "`spec.resources`: the targets of version 2 run already, so nothing here limits them: leave it out"
    );
    // The same once more is nothing to try, but another configuration of it is.
    let serving =
        with(with(running(), "/spec/version", json!(2)), "/spec/config", json!("greeting: hello\n"));
    assert_eq!(
        refused(&checkout_2(10), &serving),
        "`spec.version`: version 2 of shop is what serves already, the same folder with the same configuration: change one of the two"
    );
    let other = with(checkout_2(10), "/spec/config", json!("greeting: bye\n"));
    assert_eq!(translated(&other, &serving).folders.len(), 2);
}

#[test]
fn a_canary_is_of_what_served_when_it_was_made() {
    let serving = with(running(), "/spec/version", json!(2));
    let next = with(checkout_2(10), "/spec/version", json!(3));
    let Translated { text, adopted, .. } = translated(&next, &serving);
    let strategy = checked(&text);
    let is = |now: &Value| is_of(&strategy, &adopted, &release(now));
    assert!(is(&serving));
    assert!(!is(&with(serving.clone(), "/spec/version", json!(1))), "another version serves");
    assert!(
        !is(&with(serving.clone(), "/spec/config", json!("greeting: bye\n"))),
        "with another configuration"
    );
    let moved = with(serving, "/spec/versions/1/run/checkout/path", json!("shop/other"));
    let adopted_now = ReleaseSpec { versions: release(&moved).versions, ..adopted.clone() };
    assert!(!is_of(&strategy, &adopted_now, &release(&moved)), "of another folder");
    // Nor is one whose base had targets one whose base is started.
    let of_targets = translated(&checkout_2(10), &running());
    let now = with(running(), "/spec/version", json!(3));
    assert!(!is_of(&checked(&of_targets.text), &of_targets.adopted, &release(&now)));
}

fn folder(files: &[(&str, &str)]) -> Unpacked {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    Unpacked { files: files.collect(), ..Unpacked::default() }
}

fn rendered(files: &[(&str, &str)], config: &str) -> Result<BTreeMap<String, String>, String> {
    let rendered = render(folder(files), config, "spec.config", true).map_err(|fault| fault.to_string())?;
    let text = |(path, bytes): (String, Vec<u8>)| (path, String::from_utf8(bytes).unwrap());
    Ok(rendered.files.into_iter().map(text).collect())
}

#[test]
fn templates_are_rendered_with_what_the_configuration_says() {
    let config = "colour: blue\nshop: {limit: 12, open: true, name: \"a {{ b }}\"}\n";
    let files = [
        ("run.tmpl", "#!/bin/sh\nexec serve {{colour}} {{ shop.limit }}/{{ shop.open }} # {{ shop.name }}\n"),
        ("static/{{ colour }}.txt", "{{ colour }}"),
        ("empty.tmpl", ""),
    ];
    let found = rendered(&files, config).unwrap();
    let expected = [
        ("empty", ""),
        ("run", "#!/bin/sh\nexec serve blue 12/true # a {{ b }}\n"),
        ("static/{{ colour }}.txt", "{{ colour }}"),
    ];
    let expected: BTreeMap<String, String> =
        expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert_eq!(found, expected);
    assert_eq!(
        rendered(&files, r#"{"colour": "red", "shop": {"limit": 1.5, "open": false, "name": ""}}"#).unwrap()
            ["run"],
        "#!/bin/sh\nexec serve red 1.5/false # \n"
    );
    // What may be executed may be afterwards.
    let mut programs = folder(&[("run.tmpl", "x"), ("other", "y")]);
    programs.programs = ["run.tmpl".to_owned(), "other".to_owned()].into();
    let programs = render(programs, "", "spec.config", true).unwrap().programs;
    assert_eq!(programs.into_iter().collect::<Vec<_>>(), ["other", "run"]);
    // Without templates and configuration all is as it was.
    assert_eq!(
        render(folder(&[("run", "{{ a }}")]), " \n", "x", true).unwrap(),
        folder(&[("run", "{{ a }}")])
    );
    // What serves was made from a configuration that nobody has to read.
    assert_eq!(render(folder(&[("run", "x")]), "colour: blue", "x", false).unwrap(), folder(&[("run", "x")]));
}

#[test]
fn what_can_not_be_rendered_is_refused_by_file_line_and_name() {
    let one = |text: &str, config: &str| rendered(&[("app.ini.tmpl", text)], config).unwrap_err();
    let config = "colour: blue\nshop: {name: a}\nnone:\nall: [1]\n";
    let rows = [
        (
            "a\n{{ color }}\n",
            "`spec.config`: line 2 of \"app.ini.tmpl\": \"color\" is not in the configuration; did you mean colour?",
        ),
        (
            "{{ shop.colour }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"shop.colour\" is not in the configuration",
        ),
        (
            "{{ colour.name }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"colour.name\" is not in the configuration",
        ),
        (
            "{{ none }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"none\" has no value: give it one, or \"\"",
        ),
        (
            "{{ shop }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"shop\" is not one value, but several: name one of them",
        ),
        (
            "{{ all }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"all\" is not one value, but several: name one of them",
        ),
        (
            "{{ if colour }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"if colour\" is no name of a value, as in colour or shop.colour",
        ),
        (
            "{{ .Values.colour }}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \".Values.colour\" is no name of a value, as in colour or shop.colour",
        ),
        (
            "{{}}",
            "`spec.config`: line 1 of \"app.ini.tmpl\": \"\" is no name of a value, as in colour or shop.colour",
        ),
        ("{{ colour\n}}", "`spec.config`: line 1 of \"app.ini.tmpl\": {{ is not closed by }} on its line"),
    ];
    for (text, why) in rows {
        assert_eq!(one(text, config), why);
    }
    assert_eq!(
        one("x", "blue"),
        "`spec.config`: templates name values in it, so it is a mapping, as in colour: blue"
    );
    let unread = one("x", "a: [");
    assert!(unread.starts_with("`spec.config`: templates need it, and it can't be read: "), "{unread}");
    assert_eq!(
        rendered(&[("run", "x")], "colour: blue").unwrap_err(),
        "`spec.config`: nothing would read it: no file of what is started has a name that ends in .tmpl; leave it out, or add one"
    );
    assert_eq!(
        rendered(&[("run", "x"), ("run.tmpl", "y")], "").unwrap_err(),
        "`spec.config`: \"run\" and \"run.tmpl\" are both there: keep one of the two"
    );
    let mut binary = folder(&[("a.tmpl", "")]);
    binary.files.insert("a.tmpl".to_owned(), vec![0xff]);
    let why = render(binary, "", "spec.config", true).unwrap_err().to_string();
    assert_eq!(why, "`spec.config`: \"a.tmpl\": a template is a text in UTF-8");
}

#[test]
fn what_a_configuration_repeats_is_bounded() {
    let config = format!("a: {}\n", "x".repeat(16 * 1024));
    let why = rendered(&[("a.tmpl", &"{{ a }}".repeat(100))], &config).unwrap_err();
    assert!(why.ends_with(&format!("all templates become more than {MAX_RENDERED_BYTES} bytes")), "{why}");
    let large = "x".repeat(canary_releases::MAX_TEMPLATE_BYTES + 1);
    let why = rendered(&[("a.tmpl", &large)], "").unwrap_err();
    assert!(why.contains("a template has at most 65536 bytes, this one has 65537"), "{why}");
}
