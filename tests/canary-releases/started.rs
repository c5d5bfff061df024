//! Canaries that agents start: the strategy that one becomes, and what is rendered for it.

use std::collections::BTreeMap;

use canary_releases::{MAX_RENDERED_BYTES, RunFolder, Translated, is_of, render, translate};
use language::functions::Unpacked;
use protocol::canary_releases::{ReleaseRun, ReleaseSpec};
use serde_json::{Map, Value, json};

use crate::{
    canary, checkout_2, release, running,
    status::{both_2, two_services},
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

/// The release `shop` with a version that is started and serves, and with these resources.
fn serving(resources: Value) -> Value {
    with(with(running(), "/spec/version", json!(2)), "/spec/resources", resources)
}

/// A canary of its version 3, which says nothing of resources.
fn checkout_3() -> Value {
    with(checkout_2(10), "/spec/version", json!(3))
}

#[test]
fn what_a_release_says_of_resources_holds_for_all_that_is_started_of_it() {
    let of = serving(json!({"limits": {"memory": "0.125Gi", "cpu": 0.5}}));
    let stable = r#"- {"name":"stable","run":{"path":"checkout-stable","env":"program","limits":{"cpu":"500m","memory":"128Mi"}}}"#;
    let canary = |limits: &str| {
        format!(r#"- {{"name":"canary","run":{{"path":"checkout-canary","env":"image"{limits}}}}}"#)
    };
    // Who says nothing of it has what its release has, and who says something has nothing of that.
    let own = |resources: Value| with(checkout_3(), "/spec/resources", resources);
    let rows = [
        (checkout_3(), r#","limits":{"cpu":"500m","memory":"128Mi"}"#, release(&of).resources),
        (own(json!({})), r#","limits":{"cpu":"500m","memory":"128Mi"}"#, release(&of).resources),
        (
            own(json!({"limits": {"cpu": 2}})),
            r#","limits":{"cpu":"2000m"}"#,
            limits_of(json!({"cpu": "2000m"})),
        ),
        (own(json!({"limits": {}})), "", Map::new()),
    ];
    for (asked, limits, adopted) in rows {
        let Translated { text, adopted: found, .. } = translated(&asked, &of);
        assert_eq!(variations(&text), [stable, canary(limits).as_str()], "{asked}");
        // What ran as the canary is what the release says of it then, and nothing else of the release has changed.
        let before = release(&of);
        assert_eq!((found.version, found.config.as_str()), (3, "greeting: hello\n"));
        assert_eq!(
            found,
            ReleaseSpec { version: 3, config: found.config.clone(), resources: adopted, ..before }
        );
    }
    // What has targets runs already, whoever serves.
    let of_targets = with(of, "/spec/version", json!(1));
    let Translated { text, adopted, .. } = translated(&checkout_2(10), &of_targets);
    assert_eq!(variations(&text)[0], r#"- {"name":"stable","targets":["127.0.0.1:9101"]}"#);
    assert_eq!(adopted.resources, release(&of_targets).resources);
}

fn limits_of(limits: Value) -> Map<String, Value> {
    Map::from_iter([("limits".to_owned(), limits)])
}

#[test]
fn a_canary_is_of_the_resources_that_its_release_had() {
    let of = serving(json!({"limits": {"cpu": "500m"}}));
    for of in [of.clone(), with(of, "/spec/version", json!(1))] {
        let Translated { text, adopted, .. } = translated(&checkout_3(), &of);
        let strategy = checked(&text);
        let is = |resources: Value| {
            is_of(&strategy, &adopted, &release(&with(of.clone(), "/spec/resources", resources)))
        };
        assert!(is(json!({"limits": {"cpu": "500m"}})));
        assert!(is(json!({"limits": {"cpu": 0.5}})), "in other units it is the same");
        for other in [json!({}), json!({"limits": {"cpu": 1}}), json!({"limits": {"memory": "128Mi"}})] {
            assert!(!is(other.clone()), "{other}");
        }
    }
}

#[test]
fn a_release_without_anything_to_start_becomes_the_strategy_that_it_became() {
    let text = translated(&checkout_2(10), &crate::shop()).text;
    assert!(!text.contains("canary-base") && !text.contains("run"), "{text}");
}

/// Digests of what is kept of these are stored.
#[test]
fn where_nothing_is_said_of_resources_what_is_kept_is_what_it_always_was() {
    let of = release(&crate::shop());
    let kept = r#"{"routers":{"env":"prod"},"services":[{"name":"checkout","path":"/","ports":[{"port":8080,"protocol":"HTTP"}]}],"versions":[{"version":1,"targets":{"checkout":["127.0.0.1:9101"]}},{"version":2,"targets":{"checkout":["127.0.0.1:9111"]}}],"version":1,"config":"greeting: hi\n","name":"shop"}"#;
    assert_eq!(serde_json::to_string(&of).unwrap(), kept);
    let Translated { text, adopted, .. } = translated(&checkout_3(), &serving(json!({})));
    let base = "\"canary-base\":\"022aba12fd8d5fcf51d8155ae62cba63248ebbaf4affc6b680dbb66400ff8410\"";
    assert!(text.contains(base), "{text}");
    assert!(!serde_json::to_string(&adopted).unwrap().contains("resources"));
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

/// Two services, of whose versions 2 and 3 that of `checkout`, at two ports, is started. This version serves.
fn both(serving: i32) -> Value {
    let version = |number: i32| {
        let targets = json!({"pay": [format!("127.0.0.1:920{number}")]});
        json!({"version": number, "targets": targets, "run": {"checkout": {"path": format!("shop/v{number}")}}})
    };
    let of = with(with(two_services(), "/spec/versions/1", version(2)), "/spec/versions/2", version(3));
    with(of, "/spec/version", json!(serving))
}

#[test]
fn one_service_is_started_and_another_one_has_targets() {
    let limited = json!({"limits": {"memory": "128Mi"}});
    let asked = with(both_2([10, 30, 5]), "/spec/resources", limited);
    let Translated { text, folders, .. } = translated(&asked, &both(1));
    let stable = r#"- {"name":"stable","targets":["127.0.0.1:9101"]}"#;
    let canary =
        r#"- {"name":"canary","run":{"path":"checkout-canary","env":"program","limits":{"memory":"128Mi"}}}"#;
    let pay = [
        r#"- {"name":"stable","targets":["127.0.0.1:9201"]}"#,
        r#"- {"name":"canary","targets":["127.0.0.1:9202"]}"#,
    ];
    assert_eq!(variations(&text), [stable, canary, stable, canary, pay[0], pay[1]], "each port has its own");
    let strategy = checked(&text);
    let runs: Vec<_> = strategy.services.iter().map(|part| (part.name(), part.runs.len())).collect();
    assert_eq!(runs, [("checkout.8080", 1), ("checkout.8443", 1), ("pay", 0)]);
    let named = |folders: &[RunFolder]| -> Vec<(String, String)> {
        folders.iter().map(|of| (of.name.clone(), of.run.path.clone())).collect()
    };
    let folder = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    assert_eq!(named(&folders), [folder("checkout-canary", "shop/v2")], "one for all ports");

    let next = with(both_2([10, 30, 5]), "/spec/version", json!(3));
    let folders = translated(&next, &both(2)).folders;
    assert_eq!(named(&folders), [folder("checkout-stable", "shop/v2"), folder("checkout-canary", "shop/v3")]);
}

#[test]
fn a_canary_of_several_is_of_what_served_all_of_them_when_it_was_made() {
    let next = with(both_2([10, 30, 5]), "/spec/version", json!(3));
    let started = |path: &str| {
        let version = json!({"version": 2, "run": {"checkout": {"path": path}, "pay": {"path": "pay/v2"}}});
        with(both(2), "/spec/versions/1", version)
    };
    for serving in [both(2), started("shop/v2")] {
        let Translated { text, adopted, .. } = translated(&next, &serving);
        let strategy = checked(&text);
        let is = |now: &Value| {
            let now = release(now);
            let adopted = ReleaseSpec { versions: now.versions.clone(), ..adopted.clone() };
            is_of(&strategy, &adopted, &now)
        };
        assert!(is(&serving));
        let changed = [
            ("/spec/version", json!(1)),
            ("/spec/config", json!("greeting: bye\n")),
            ("/spec/versions/1/run/checkout/path", json!("shop/other")),
        ];
        for (place, value) in changed {
            assert!(!is(&with(serving.clone(), place, value)), "{place}");
        }
    }
    // What served one service is another thing, though the other one is what it was.
    let (of_targets, of_started) = (translated(&next, &both(2)), translated(&next, &started("shop/v2")));
    let is = |made: &Translated, now: &Value| {
        let now = release(now);
        let adopted = ReleaseSpec { versions: now.versions.clone(), ..made.adopted.clone() };
        is_of(&checked(&made.text), &adopted, &now)
    };
    assert!(is(&of_targets, &both(2)) && !is(&of_targets, &started("shop/v2")));
    assert!(is(&of_started, &started("shop/v2")) && !is(&of_started, &both(2)));
    let moved = with(started("shop/v2"), "/spec/versions/1/run/pay/path", json!("pay/other"));
    assert!(!is(&of_started, &moved));
}

#[test]
fn a_service_of_several_that_would_stay_what_it_is_is_named() {
    let asked = |version: i32, config: &str| {
        with(with(both_2([10, 30, 5]), "/spec/version", json!(version)), "/spec/config", json!(config))
    };
    // The same folder, rendered otherwise, is something else; the same targets are the same.
    let why = "`spec.services[1].service`: version 2 of pay has the targets of version 2, which serves: leave it out";
    assert_eq!(refused(&asked(2, "greeting: bye\n"), &both(2)), why);
    let same = with(both(2), "/spec/versions/2/run/checkout/path", json!("shop/v2"));
    assert_eq!(
        refused(&asked(3, "greeting: hi\n"), &same),
        "`spec.services[0].service`: version 3 of checkout is started from the same folder with the same configuration as version 2, which \
         serves: leave it out"
    );
    assert_eq!(
        refused(&asked(2, "greeting: hi\n"), &both(2)),
        "`spec.version`: version 2 of shop is what serves already, the same folder with the same configuration: change one of the two"
    );
    let limited = with(both_2([10, 30, 5]), "/spec/resources", json!({"limits": {"memory": "128Mi"}}));
    assert_eq!(
        refused(&limited, &two_services()),
        "`spec.resources`: the targets of version 2 run already, so nothing here limits them: leave it out"
    );
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
