//! `validate`, `plan` and `submit` are one check: what one refuses or warns of, the others do.

use std::{fs, path::Path};

use choirmaster::cli::{source::SourceSpec, validate};
use serde_json::{Value, json};

use crate::world::{Answer, World, strategy};

/// Plans and submits the same text; both must say the same of it.
async fn both(world: &World, yaml: &str) -> Answer {
    let submitted = world.submit_to("/release?dry_run=true", yaml).await;
    let planned = world.submit_to("/api/v1/plan", yaml).await;
    assert_eq!(planned.status, submitted.status, "{} {}", planned.text(), submitted.text());
    let found = |answer: &Answer| match answer.status {
        200 => answer.json()["warnings"].clone(),
        _ => answer.json()["diagnostics"].clone(),
    };
    assert_eq!(found(&planned), found(&submitted));
    submitted
}

fn lines(found: &Value) -> String {
    let line = |d: &Value| {
        let text = |key: &str| d[key].as_str().unwrap_or_default().to_owned();
        format!(
            "{}:{} {} {} | {} => {}",
            d["line"],
            d["column"],
            text("severity"),
            text("message"),
            text("source_line").trim(),
            text("fix")
        )
    };
    found.as_array().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn folders_that_are_missing_are_all_named_where_the_strategy_names_them() {
    let world = World::start().await;
    let yaml = strategy("21").replace("fns/sieve_new", "fns/seive_new").replace("fns/sieve_base", "lib/x");
    let refused = both(&world, &yaml).await;
    assert!(refused.problem().starts_with("422 /problems/invalid-functions"), "{}", refused.text());
    insta::assert_snapshot!(lines(&refused.json()["diagnostics"]), @r#"
    10:13 error the folder "lib/x" is not in the manager's folder of functions | path: lib/x => put it there, or name where the functions are with --functions ZIP|DIR
    13:13 error the folder "fns/seive_new" is not in the manager's folder of functions | path: fns/seive_new => did you mean fns/sieve_new?
    "#);
    world.stop().await;
}

#[tokio::test]
async fn an_area_with_latitude_first_is_warned_of_where_the_children_show_it() {
    let world = World::start().await;
    world.child().await;
    let target = |ring: &str| {
        strategy("21") + &format!("\ntarget: {{area: {{type: Polygon, coordinates: [{ring}]}}}}\n")
    };
    let swapped = both(&world, &target("[[52, 13], [53, 13], [53, 14], [52, 14], [52, 13]]")).await.ok();
    insta::assert_snapshot!(lines(&swapped.json()["warnings"]), @"43:16 warning no child lies in this area; with latitude and longitude swapped 1 child lies in it | target: {area: {type: Polygon, coordinates: [[[52, 13], [53, 13], [53, 14], [52, 14], [52, 13]]]}} => GeoJSON has the longitude first, as in [13.4, 52.52] for Berlin: swap the two");
    // Where the area is simply elsewhere, or meets children as it is, nothing is said.
    for ring in ["[[2, 3], [3, 3], [3, 4], [2, 3]]", "[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]"] {
        assert_eq!(both(&world, &target(ring)).await.ok().json()["warnings"], json!([]), "{ring}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_runtime_that_no_child_has_is_warned_of_with_the_nearest_that_one_has() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
    let capabilities = json!({"runtimes": ["nodejs", "firecracker"]});
    let mut poll = json!({"id": "", "geographic_area": area, "number_of_children": 0, "kind": "agent", "capabilities": capabilities});
    let id = world.post("/poll", &poll).await.ok().json()["id"].clone();
    poll["id"] = id;
    world.post("/poll", &poll).await.ok();
    let warned = both(&world, &strategy("21").replacen("env: nodejs", "env: firecraker", 1)).await.ok();
    insta::assert_snapshot!(lines(&warned.json()["warnings"]), @r#"11:12 warning no child says that it has the runtime "firecraker" | env: firecraker => did you mean firecracker?"#);
    let warned = both(&world, &strategy("21").replacen("env: nodejs", "env: tinyos", 1)).await.ok();
    insta::assert_snapshot!(lines(&warned.json()["warnings"]), @r#"11:12 warning no child says that it has the runtime "tinyos" | env: tinyos => the children have firecracker, nodejs"#);
    assert_eq!(both(&world, &strategy("21")).await.ok().json()["warnings"], json!([]));
    world.stop().await;
}

#[tokio::test]
async fn a_start_that_is_over_is_warned_of() {
    let world = World::start().await;
    let warned = both(&world, &(strategy("21") + "\nrollout: {start: 2020-01-01T00:00:00Z}\n")).await.ok();
    insta::assert_snapshot!(lines(&warned.json()["warnings"]), @"43:18 warning this instant is over: the release starts at once | rollout: {start: 2020-01-01T00:00:00Z} => write one that is yet to come, or leave start out");
    world.stop().await;
}

/// As the program prints it, in a folder of its own.
fn validated(folder: &Path, named: &str) -> (u8, String) {
    let named = folder.join(named).display().to_string();
    let mut out = Vec::new();
    let args =
        validate::Args { files: vec![named], json: false, strategies: None, wanted: SourceSpec::default() };
    let code = validate::run(&args, &mut out);
    (code, String::from_utf8(out).unwrap().replace(&folder.display().to_string(), "DIR"))
}

#[test]
fn validate_looks_for_the_functions_where_submit_would_take_them_from() {
    let folder = tempfile::tempdir().unwrap();
    let release = folder.path().join("21");
    fs::create_dir_all(release.join("fns/sieve_base")).unwrap();
    fs::write(release.join("release.yml"), strategy("21")).unwrap();
    fs::write(release.join("fns/sieve_base/index.js"), "1").unwrap();
    let (code, text) = validated(folder.path(), "21");
    assert_eq!(code, 1);
    insta::assert_snapshot!(text, @r#"
    DIR/21/release.yml:13:13: error: the folder "fns/sieve_new" is not in DIR/21
     13 |       path: fns/sieve_new
        |             ^
      help: put it there, or name where the functions are with --functions ZIP|DIR

    1 file, 1 error, 0 warnings
    "#);
    fs::create_dir_all(release.join("fns/sieve_new")).unwrap();
    fs::write(release.join("fns/sieve_new/index.js"), "2").unwrap();
    assert_eq!(validated(folder.path(), "21"), (0, "1 file, 0 errors, 0 warnings\n".to_owned()));
    fs::write(release.join("fns.zip"), "no zip").unwrap();
    let (code, text) = validated(folder.path(), "21");
    assert_eq!(code, 2);
    insta::assert_snapshot!(text, @r"
    DIR/21: can't be read: the functions of DIR/21/release.yml could be DIR/21/fns.zip, or the folders in DIR/21: say which with --functions ZIP|DIR, or --functions-of-manager

    1 file, 0 errors, 0 warnings, 1 unreadable
    ");
}

#[tokio::test]
async fn a_plan_says_which_functions_each_child_runs_and_a_release_hands_out_those_alone() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
    let mut ids = Vec::new();
    for runtimes in [json!(["nodejs", "python"]), json!(["python"]), json!(["cobol"])] {
        let capabilities = json!({"runtimes": runtimes});
        let mut poll = json!({"id": "", "geographic_area": area, "number_of_children": 0, "kind": "agent", "capabilities": capabilities});
        let id = world.post("/poll", &poll).await.ok().json()["id"].clone();
        poll["id"] = id.clone();
        world.post("/poll", &poll).await.ok();
        ids.push((id.as_str().unwrap().to_owned(), poll));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("releases/two-functions.yml")).unwrap();
    let text =
        text.replace("path: fns/greet_base\n      env: nodejs", "path: fns/greet_base\n      env: python");
    let text =
        text.replace("path: fns/greet_new\n      env: nodejs", "path: fns/greet_new\n      env: python");
    let text = text + "\ntarget: {partial: allow}\n";
    let plan = world.submit_to("/api/v1/plan?children=all", &text).await.ok().json();
    assert_eq!((&plan["participants"]["children"], &plan["partial"]), (&json!(2), &json!(1)), "{plan:#}");
    let of = |at: usize| plan["children"][at].clone();
    assert_eq!((of(0)["functions"].clone(), of(1)["functions"].clone()), (Value::Null, json!(["greet"])));
    assert_eq!(of(2)["reason"], "lacks runtime nodejs");
    world.submit(&text).await.ok();
    let mut offers = Vec::new();
    for (_, poll) in &ids {
        offers.push(world.post("/poll", poll).await.ok().json()["new_release"].clone());
    }
    assert_eq!(offers, [json!("two-functions"), json!("two-functions.2"), json!("")]);
    // It is so after a restart, too, where nobody has acted yet.
    let world = world.restart().await;
    let offer = world.fetch(&ids[1].0, "two-functions.2").await.ok().text();
    assert!(offer.contains("func_name: \"greet\"") && !offer.contains("sieve"), "{offer}");
    let children = world.get("/api/v1/releases/two-functions/children").await.ok().json();
    let waits = children["items"][1]["waits_for"].as_str().unwrap();
    assert!(waits.starts_with("runs only greet: "), "{waits}");
    world.stop().await;
}
