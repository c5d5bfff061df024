//! `workflow.json`, as EDGELESS writes it today and as it did before.

use placement::{FunctionTypes, MAX_PARTS, Placed, Placer, Strategy, Workflow, place_all};
use serde_json::{Value, json};

use crate::{NoAreas, node};

const SAMPLE: &str = include_str!("workflow.json");

fn types() -> FunctionTypes {
    FunctionTypes([("RUST_WASM".to_owned(), "wasm".to_owned())].into())
}

fn read(text: &str) -> Result<(Workflow, String), String> {
    let listed = |faults: &[placement::WorkflowFault]| {
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    match Workflow::read(text.as_bytes(), &types()) {
        Ok((workflow, odd)) => Ok((workflow, listed(&odd))),
        Err(wrong) => Err(listed(&wrong)),
    }
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut sample: Value = serde_json::from_str(SAMPLE).unwrap();
    change(&mut sample);
    sample.to_string()
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    read(&changed(change)).unwrap_err()
}

#[test]
fn both_spellings_are_read_and_events_may_go_in_circles() {
    let (workflow, odd) = read(SAMPLE).unwrap();
    assert_eq!(odd, "");
    let [ping, pong] = &workflow.functions[..] else { panic!("two functions") };
    assert_eq!(
        (ping.requirements.runtime.as_deref(), pong.requirements.runtime.as_deref()),
        (Some("wasm"), Some("python"))
    );
    assert_eq!((ping.code.as_deref(), pong.code.as_deref()), (Some("./ping/pinger.wasm"), Some("./pong")));
    assert_eq!(
        pong.outputs,
        [("back".to_owned(), "ping".to_owned()), ("log".to_owned(), "my-log".to_owned())].into()
    );
    assert_eq!(ping.requirements.labels, ["tier=edge".to_owned()].into());
    assert_eq!(workflow.resources[0].requirements.resources, ["file-log".to_owned()].into());
    assert_eq!(workflow.neighbours()["ping"], ["pong"].into());
    assert_eq!(workflow.neighbours()["my-log"], ["pong"].into());
}

#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    let all = [
        refused(|all| all["functions"][0]["output_mapping"]["out"] = json!("pnog")),
        refused(|all| {
            all["functions"][1]["name"] = json!("ping");
            all["resources"][0]["name"] = json!("");
        }),
        refused(|all| all["functions"][1]["class_specification"]["function_type"] = json!("CONTAINER")),
        refused(|all| all["functions"][0]["annotations"]["tee"] = json!("yes")),
        refused(|all| {
            all["functions"][0]["annotations"]["area"] = json!("{\"type\":\"Point\",\"coordinates\":[1,2]}");
        }),
        refused(|all| all["resources"][0]["configurations"]["node_id_match_any"] = json!("my-node")),
        refused(|all| all["functions"][0]["annotations"]["tee"] = json!(true)),
        refused(|all| (all["functions"], all["resources"]) = (json!([]), json!([]))),
        refused(|all| {
            let one = all["resources"][0].clone();
            all["resources"] = vec![one; MAX_PARTS].into();
        }),
        read("functions: []").unwrap_err(),
        read("[[], [], {}]").unwrap_err(),
        refused(|all| all["resources"][0]["class_type"] = json!("")),
        refused(|all| all["functions"][0] = json!(7)),
        read(&SAMPLE.replacen("\"init-payload\"", "\"label_match_all\"", 1)).unwrap_err(),
        refused(|all| all["functions"][0]["annotations"]["x"] = json!("x".repeat(64 * 1024))),
        refused(|all| all["resources"][0]["configurations"]["x"] = json!("x".repeat(64 * 1024))),
    ];
    insta::assert_snapshot!(all.join("\n--\n"), @r#"
    functions[0].output_mapping.out: no part is called pnog; did you mean pong?
    --
    functions[0].output_mapping.out: no part is called pong; did you mean ping?
    functions[1].name: another part is called ping, too
    functions[1].output_mapping.log: no part is called my-log
    resources[0].name: it is empty
    --
    functions[1].class_specification.function_type: nothing here runs CONTAINER: placement.function_types of the manager's configuration says which runtime does
    --
    functions[0].annotations.tee: "yes" is not required or not-required
    --
    functions[0].annotations.area: an area is a Polygon or a MultiPolygon, not a Point
    --
    resources[0].configurations.node_id_match_any: "my-node" is not one or more ids of nodes, as UUIDs with commas between them
    --
    invalid type: boolean `true`, expected a string at line 1 column 116
    --
    it has neither functions nor resources
    --
    it has 10002 functions and resources, and may have 10000
    --
    it is no JSON object
    --
    it is no JSON object
    --
    resources[0].class_type: it has 1 to 256 bytes, none of them a control character
    --
    invalid type: integer `7`, expected a function at line 1 column 32
    --
    label_match_all is there twice at line 14 column 89
    --
    functions[0].annotations: it has 65584 bytes, and may have 65536
    --
    resources[0].configurations: it has 65568 bytes, and may have 65536
    "#);
}

#[test]
fn what_is_odd_is_told_and_no_fault() {
    let odd = |change: fn(&mut Value)| read(&changed(change)).unwrap().1;
    let all = [
        odd(|all| all["functions"][0]["output_mapping"]["outt"] = json!("pong")),
        odd(|all| all["functions"][0]["annotations"]["label_match_any"] = json!("tier=edge")),
        odd(|all| {
            all["functions"][0]["annotations"] =
                json!({"Tee": "required", "tpm ": "required", "memory": "5", "init-payload": "x"});
        }),
        odd(|all| all["functions"][0]["annotatons"] = json!({"tee": "required"})),
        odd(|all| all["resources"][0]["annotations"] = json!({"tee": "required"})),
        odd(|all| all["annotations"]["tee"] = json!("required")),
    ];
    insta::assert_snapshot!(all.join("\n--\n"), @r#"
    functions[0].output_mapping.outt: pinger has no output outt; it has out
    --
    functions[0].annotations.label_match_any: it is no requirement; did you mean label_match_all?
    --
    functions[0].annotations.Tee: it is no requirement; did you mean tee?
    functions[0].annotations.memory: it is no requirement; did you mean memory_mib?
    functions[0].annotations.tpm : it is no requirement; did you mean tpm?
    --
    functions[0].annotatons: nobody reads it; did you mean annotations?
    --
    resources[0].annotations: nobody reads it; did you mean configurations?
    --
    annotations.tee: it is required of no node here: each function says it in its own annotations
    "#);
}

/// As many faults as there may be take no longer than some.
#[test]
fn of_many_faults_the_first_are_told_and_what_was_meant_of_a_few() {
    let faults = refused(|all| {
        let outputs = (0..1_000).map(|at| (format!("out{at}"), json!(format!("pnog{at}"))));
        all["functions"][0]["output_mapping"] = outputs.collect::<serde_json::Map<_, _>>().into();
        all["functions"][1]["output_callback_definitions"] = (0..1_001)
            .map(|at| (format!("out{at}"), json!("pong")))
            .collect::<serde_json::Map<_, _>>()
            .into();
    });
    assert_eq!(faults.lines().count(), 100, "{faults}");
    let faults = refused(|all| {
        all["functions"][1]["annotations"] =
            (0..1_001).map(|at| (format!("a{at}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    });
    assert_eq!(faults, "functions[1].annotations: it has 1001 entries, and may have 1000");
}

#[test]
fn a_workflow_is_placed_whole_or_says_which_part_comes_nowhere() {
    let (workflow, _) = read(SAMPLE).unwrap();
    let mut nodes: Vec<_> = (0..3).map(node).collect();
    nodes[1].runtimes.insert("wasm".to_owned());
    nodes[1].labels.insert("tier=edge".to_owned());
    nodes[2].runtimes.insert("python".to_owned());
    let place = |nodes: &[placement::Node]| {
        place_all(&workflow, &mut Placer::new(nodes, &NoAreas, Strategy::Random, None), || 0.5)
    };
    assert_eq!(place(&nodes), (vec![Placed::Nowhere], vec![Placed::At(1), Placed::At(2)]));
    nodes[0].resources.insert("file-log".to_owned());
    assert_eq!(place(&nodes), (vec![Placed::At(0)], vec![Placed::At(1), Placed::At(2)]));
}
