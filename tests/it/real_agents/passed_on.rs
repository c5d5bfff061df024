//! Events of workflows between the machines of agents.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{site::Site, wait::wait_until};
use crate::{
    store::place::{Place, stories},
    world::client,
};

/// What came of each instance, in the order in which it came: numbers.
pub fn numbers(log: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        // TIME from node_id … function_id … [#7]: HELLO WORLD FROM INSTANCE
        let Some((_, message)) = line.split_once(" [#") else { panic!("{line}") };
        let (number, rest) = message.split_once("]: ").unwrap();
        let instance = rest.rsplit(' ').next().unwrap().to_lowercase();
        all.entry(instance).or_default().push(number.parse().unwrap());
    }
    all
}

/// The chain of the documents: a function moves, machines and the manager are killed, and nothing is lost or doubled.
async fn the_log_goes_on_from_the_other_node_without_a_hole_or_a_repeat_whoever_is_killed(place: &Place) {
    let mut site = Site::on(&place.url, &["placement.keep_alive=1m".to_owned()]).await;
    let logs = site.folder().join("files");
    let logs_at = format!("node.logs={}", logs.display());
    let mut nodes = [
        site.node("first", &["node.placements=true"]).await,
        site.node("second", &["node.placements=true"]).await,
        site.node("third", &["node.placements=true", "node.resources=file-log", &logs_at]).await,
    ];
    let url = format!("{}/api/v1", site.manager.url());
    let http = client().build().unwrap();
    // Quicker than the sample, and its own file.
    let folder = copied_sample(site.folder());
    let workflow = fs::read_to_string(folder.join("workflow.json")).unwrap();
    fs::write(folder.join("workflow.json"), workflow.replace("period=1000", "period=10")).unwrap();
    wait_until("the nodes are known", async || {
        let plan = http.post(format!("{url}/workflows/plan")).body(workflow.clone()).send().await.unwrap();
        plan.json::<Value>().await.unwrap()["nodes"] == 3
    })
    .await;
    let manager = site.manager.url();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.args(arguments).env("CHOIRMASTER_URL", &manager).current_dir(&folder);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["workflow", "start", "workflow.json", "--name", "messages"]);
    let log = logs.join("my-local-file.log");
    let grown = async |what: &str, by: usize| {
        let count = || numbers(&log).values().map(Vec::len).sum::<usize>();
        let before = count();
        wait_until(what, async || count() >= before + by).await;
    };
    grown("messages come", 20).await;
    let shown = async || -> Value {
        let Ok(answer) = http.get(format!("{url}/workflows/messages")).send().await else {
            return Value::Null;
        };
        answer.json().await.unwrap_or_default()
    };
    let node_of = |shown: &Value, at: usize| {
        shown["functions"][at]["instance"]["node"]["name"].as_str().unwrap_or_default().to_owned()
    };
    let list: Value = http.get(format!("{url}/children")).send().await.unwrap().json().await.unwrap();
    let id_of = |name: &str| {
        let child = list["items"].as_array().unwrap().iter().find(|child| child["name"] == name).unwrap();
        child["id"].as_str().unwrap().to_owned()
    };
    let all_names = ["first", "second", "third"];
    for (function, killed) in [(0, 0), (1, 1), (0, 2)] {
        let name = ["generator", "shout"][function];
        let before = node_of(&shown().await, function);
        let to = all_names.iter().find(|name| **name != before).unwrap();
        run(&["workflow", "move", "messages", name, &id_of(to)]);
        wait_until("it has moved", async || {
            let now = shown().await;
            let part = &now["functions"][function];
            part["instance"]["phase"] == "running"
                && node_of(&now, function) == **to
                && part["next"].is_null()
        })
        .await;
        grown("messages go on", 20).await;
        // Whoever sends, takes and passes on is killed at once, and the manager.
        nodes[killed].kill();
        if killed != 1 {
            site.manager.kill();
            site.manager.come_back().await;
        }
        nodes[killed].come_back();
        grown("messages go on after a kill", 20).await;
    }
    run(&["workflow", "stop", "messages"]);
    wait_until("it is gone", async || {
        let answer = http.get(format!("{url}/workflows/messages")).send().await;
        answer.is_ok_and(|answer| answer.status() == 404)
    })
    .await;
    let numbers = numbers(&log);
    assert_eq!(
        numbers.len(),
        3,
        "the generator ran on three nodes, one after the other: {:?}",
        numbers.keys()
    );
    for (instance, numbers) in &numbers {
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{instance}: {numbers:?}");
    }
}

stories!(the_log_goes_on_from_the_other_node_without_a_hole_or_a_repeat_whoever_is_killed);

/// The sample, in a folder of its own.
pub fn copied_sample(site: &Path) -> PathBuf {
    copied(site, "messages")
}

/// A folder of samples, in a folder of its own.
pub fn copied(site: &Path, name: &str) -> PathBuf {
    let folder = site.join(name);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fns").join(name), &folder);
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            let _ = fs::copy(entry.path(), to).unwrap();
        }
    }
}
