//! The scripts that come with EDGELESS do their work here as they are. What follows runs the same commands, in words of our own: a dump of
//! all that stands in the database, and an intent.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    filled::{Filled, PAYLOAD, parts},
    server::Redis,
};
use crate::deadline::until;

/// Each key with what the scripts make of it. That of 2024 gets every key, and passes over those for which Redis says that they have the
/// wrong type. That of today asks for the type, and shows lists and texts. Both show a text as JSON if it is.
const DUMP: &str = r#"
ask() { redis-cli -p "$REDIS_PORT" "$@"; }
for key in $(ask --scan --pattern '*' | sort); do
    type=$(ask type "$key")
    form=none
    shown=
    case $type in
    list) shown=$(ask --raw lrange "$key" 0 -1) ;;
    string)
        form=text
        shown=$(ask get "$key")
        if json=$(printf '%s\n' "$shown" | python3 -m json.tool); then form=json shown=$json; fi
        ;;
    esac
    if ask get "$key" | grep WRONG >/dev/null; then of_2024=passed; else of_2024=shown; fi
    printf '%s %s %s %s %s\n' "$key" "$type" "$form" "$of_2024" "$(printf '%s' "$shown" | tr '\n' ' ')"
done
"#;

/// A function or a resource is to move. The script puts its key before all others.
const MIGRATE: &str = r#"
redis-cli -p "$REDIS_PORT" set "intent:migrate:$FID" "$NODE"
redis-cli -p "$REDIS_PORT" lpush intents "intent:migrate:$FID"
"#;

/// Texts that the scripts show as they are. All others are JSON, also numbers.
const TEXTS: [&str; 3] = ["choirmaster:measured", "choirmaster:owner", "domain_info:domain_id"];

/// What a script prints.
fn run(redis: &Redis, script: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("REDIS_PORT", redis.address.port().to_string());
    shell.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the dumps make of a key.
#[derive(Debug)]
struct Dumped {
    of_type: String,
    /// Of a text: `json` or `text`.
    form: String,
    of_2024: String,
    /// In one line.
    shown: String,
}

fn dump(redis: &Redis) -> BTreeMap<String, Dumped> {
    let text = run(redis, DUMP, &[]);
    let read = |line: &str| {
        let words: Vec<String> = line.splitn(5, ' ').map(str::to_owned).collect();
        let [key, of_type, form, of_2024, shown]: [String; 5] = words.try_into().unwrap();
        (key, Dumped { of_type, form, of_2024, shown })
    };
    text.lines().map(read).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_of_edgeless_show_all_and_move_a_function_and_a_resource() {
    let filled = Filled::start().await;
    let Filled { redis, world, nodes, .. } = &filled;
    let before = parts(world).await;
    let dumped = dump(redis);
    for (key, found) in &dumped {
        let is_text = found.of_type == "string";
        assert_eq!(found.of_2024, if is_text { "shown" } else { "passed" }, "{key}: {found:?}");
        assert!(!is_text || found.form == "json" || TEXTS.contains(&&**key), "{key}: {found:?}");
    }
    let of_type = |of_type: &str| -> BTreeSet<String> {
        let all = dumped.iter().filter(|(_, found)| found.of_type == of_type);
        all.map(|(key, _)| key.clone()).collect()
    };
    assert!(TEXTS.iter().all(|key| of_type("string").contains(*key) && !dumped[*key].shown.is_empty()));
    // No dump shows what is kept by time.
    let measured = ["first", "second"].map(|name| &before[name].instance).into_iter().flat_map(|instance| {
        ["execution", "transfer"].map(|what| format!("performance:{instance}:function_{what}_time"))
    });
    let health = nodes.iter().map(|node| format!("node:health:{node}"));
    assert_eq!(of_type("zset"), measured.chain(health).collect::<BTreeSet<_>>());
    let of_function = format!("function:{}:samples", before["first"].logical);
    assert_eq!(of_type("list"), BTreeSet::from([of_function, "workflow:wf_chain:samples".to_owned()]));
    assert_eq!(of_type("string").len() + of_type("list").len() + of_type("zset").len(), dumped.len());
    assert_eq!(dumped["workflow:wf_chain:samples"].shown, "849,1718287852.177 958,1718287851.007");

    // The documents find a function in the dump by what it is told at its start.
    let mut found = dumped.iter().filter(|(_, found)| found.shown.contains("hello world"));
    let (key, shown) = found.next().unwrap();
    assert!(found.next().is_none());
    let shown: Value = serde_json::from_str(&shown.shown).unwrap();
    assert_eq!(shown["Function"][0]["annotations"]["init-payload"], PAYLOAD);
    let second = key.strip_prefix("instance:").unwrap();
    assert_eq!(second, before["second"].logical);
    for (logical, name) in [(second, "second"), (before["log"].logical.as_str(), "log")] {
        let from = &before[name].node;
        let to = nodes.iter().find(|node| *node != from).unwrap();
        assert_eq!(run(redis, MIGRATE, &[("FID", logical), ("NODE", to.as_str())]), "OK\n1\n");
        let key = format!("intent:answer:migrate:{logical}");
        let answers = async || redis.cli(&["lrange", &key, "0", "-1"]);
        let answers = until("it is answered", answers, |answers| !answers.is_empty()).await;
        let answer: Value = serde_json::from_str(&answers).unwrap();
        assert_eq!((&answer["accepted"], &answer["value"]), (&json!(true), &json!(to)), "{answer}");
        // It begins there, and then ends where it was.
        for node in nodes.iter().chain(nodes) {
            world.run_placed(node).await;
        }
        let shown = async || redis.cli(&["get", &format!("instance:{logical}")]);
        let is_there = format!("InstanceId(node_id: {to}, ");
        until("it is on the other node", shown, |shown| shown.contains(&is_there)).await;
        assert_eq!(redis.cli(&["exists", &format!("intent:migrate:{logical}")]), "0");
    }
    let after = parts(world).await;
    for name in ["second", "log"] {
        assert_eq!(after[name].logical, before[name].logical);
        assert_ne!(after[name].node, before[name].node);
    }
    filled.world.stop().await;
}
