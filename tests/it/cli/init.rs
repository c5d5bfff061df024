//! `choirmaster init …`: what is written is taken by the program's own loaders, and works.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use choirmaster::{
    cli::{agent::settings::Settings, settings::Configured as _},
    config::Config,
};

use super::{code, err, out, run};
use crate::{
    real_agents::{site::Site, wait::wait_until},
    world::client,
};

fn init(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, [&["init"], args].concat());
    assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
    out(&output)
}

/// All that is written in a folder, by its path in there.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(one) = open.pop() {
        for entry in fs::read_dir(one).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_function_of_each_runner_has_two_versions_and_a_release_without_a_warning() {
    for (runner, file) in [("nodejs", "index.js"), ("python", "fn.py"), ("binary", "fn.sh")] {
        let folder = tempfile::tempdir().unwrap();
        let said = init(folder.path(), &["function", "greet", "--runner", runner]);
        let next = "choirmaster agent functions add greet greet/fns/greet_v1";
        assert!(said.contains("wrote greet/release.yml\n") && said.contains(next), "{said}");
        let written = files(folder.path());
        let versions = [1, 2].map(|number| format!("greet/fns/greet_v{number}/{file}"));
        let names: Vec<&str> = written.keys().map(String::as_str).collect();
        assert_eq!(names, [versions[0].as_str(), &versions[1], "greet/release.yml"]);
        assert_ne!(written[&versions[0]], written[&versions[1]]);
        assert!(written.values().all(|text| !text.contains('@')), "{runner}: a name stands nowhere yet");
        for version in ["greet_v1", "greet_v2"] {
            let version = folder.path().join("greet/fns").join(version);
            assert_eq!(agent::runtime::process::form_of(&version).unwrap(), runner);
        }
        let validated = run(folder.path(), ["validate", "greet"]);
        assert_eq!(
            (code(&validated), out(&validated).as_str()),
            (0, "1 file, 0 errors, 0 warnings\n"),
            "{runner}"
        );
    }
}

#[test]
fn without_a_name_and_a_runner_there_is_a_function_that_this_machine_runs() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["function"]);
    let version = folder.path().join("hello/fns/hello_v1");
    let form = agent::runtime::process::form_of(&version).unwrap();
    let program = match form {
        "nodejs" => Some("node"),
        "python" => Some("python3"),
        _ => None,
    };
    assert!(program.is_none_or(|program| agent::runtime::process::on_path(program).is_some()), "{form}");
    let validated = run(folder.path(), ["validate", "hello"]);
    assert_eq!(code(&validated), 0, "{}", out(&validated));
}

#[test]
fn a_function_of_the_shell_answers_with_and_without_a_body() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["function", "greet", "--runner", "binary", "--out", "deep/in"]);
    for (version, body, answer) in [
        ("greet_v1", "", "Hello, world!\n"),
        ("greet_v1", "Ada", "Hello, Ada!\n"),
        ("greet_v2", "Ada\n", "Hello, Ada! This is version 2.\n"),
    ] {
        let mut call = Command::new("sh");
        call.arg("fn.sh").current_dir(folder.path().join("deep/in/fns").join(version));
        let mut call = call.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        call.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let answered = call.wait_with_output().unwrap();
        assert_eq!(
            (out(&answered).as_str(), answered.status.code()),
            (answer, Some(0)),
            "{version} {body:?}"
        );
    }
}

#[test]
fn a_service_has_a_release_without_a_warning_also_with_what_may_be_added() {
    let folder = tempfile::tempdir().unwrap();
    let said = init(folder.path(), &["service", "check-out"]);
    assert!(said.contains("choirmaster release submit check-out.yml --wait"), "{said}");
    let file = folder.path().join("check-out.yml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains('@'), "{text}");
    let all = text.replace("    #routers", "    routers").replace("    #sticky", "    sticky");
    assert_eq!(all.len() + 2, text.len(), "two lines may be added");
    for text in [text, all] {
        fs::write(&file, &text).unwrap();
        let validated = run(folder.path(), ["validate", "check-out.yml"]);
        let said = out(&validated);
        assert_eq!((code(&validated), said.as_str()), (0, "1 file, 0 errors, 0 warnings\n"), "{text}");
    }
}

#[test]
fn the_configuration_of_an_agent_is_the_default_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["agent"]);
    let load = |file: &str| Settings::load(Some(&folder.path().join(file)), [], &[]).unwrap();
    assert_eq!(load("config/agent.yml"), Settings::default());
    init(folder.path(), &["agent", "edge: \"7\"", "--out", "named.yml"]);
    let mut named = load("named.yml");
    assert_eq!(std::mem::take(&mut named.agent.name), "edge: \"7\"");
    assert_eq!(named, Settings::default());
}

#[test]
fn the_configuration_of_a_manager_is_the_default_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["manager"]);
    init(folder.path(), &["manager", "berlin", "--out", "named.yml"]);
    let keys = |file: &str| {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        Config::from_text(&text, file).unwrap().keys()
    };
    let mut expected = Config::default().keys();
    assert_eq!(keys("config/choirmaster.yml"), expected);
    let (_, name) = expected.iter_mut().find(|(key, _)| key == "parent.name").unwrap();
    "berlin".clone_into(name);
    assert_eq!(keys("named.yml"), expected);
}

#[test]
fn nothing_is_replaced_and_a_name_that_can_not_be_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("greet/fns/greet_v2")).unwrap();
    for own in ["greet/fns/greet_v2/fn.sh", "shop.yml", "agent.yml"] {
        fs::write(folder.path().join(own), "my own").unwrap();
    }
    std::os::unix::fs::symlink("nowhere", folder.path().join("link.yml")).unwrap();
    let before = files(&folder.path().join("greet"));
    let long = "a".repeat(41);
    for (args, parts) in [
        (&["function", "greet", "--runner", "binary"][..], &["greet_v2/fn.sh is there already", "--out"][..]),
        (&["service"], &["shop.yml is there already"]),
        (&["agent", "--out", "agent.yml"], &["agent.yml is there already"]),
        (&["manager", "--out", "link.yml"], &["link.yml is there already"]),
        (&["function", "a b"], &["\"a b\" can't be the name of a function", "begins with a letter"]),
        (&["function", "../up"], &["can't be the name"]),
        (&["function", "two-parts"], &["letters and digits"]),
        (&["function", &long], &["at most 40"]),
        (&["service", "null"], &["\"null\" can't be the name of it"]),
        (&["service", "new", "--out", "shop.yml/in.yml"], &["can't be written"]),
    ] {
        let refused = run(folder.path(), [&["init"], args].concat());
        assert_eq!((code(&refused), out(&refused)), (1, String::new()), "{args:?}");
        for part in parts {
            assert!(err(&refused).contains(part), "{args:?}: {}", err(&refused));
        }
    }
    assert_eq!(files(&folder.path().join("greet")), before, "all of it or nothing");
    for own in ["shop.yml", "agent.yml"] {
        assert_eq!(fs::read_to_string(folder.path().join(own)).unwrap(), "my own");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_served_and_released_as_it_was_written() {
    let site = Site::start().await;
    let node = site.node("edge", &[]).await;
    let manager = site.manager.url();
    site.manager.knows(1).await;
    for args in [
        &["init", "function", "greet", "--runner", "binary"][..],
        &["agent", "functions", "add", "greet", "greet/fns/greet_v1"],
        &["release", "submit", "greet", "--url", &manager],
    ] {
        let output = node.run(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
    }
    let (http, at) = (client().build().unwrap(), format!("http://{}/greet", node.at));
    let call = async || http.get(&at).send().await.unwrap().text().await.unwrap();
    wait_until("the release is over", async || {
        assert!(call().await.starts_with("Hello, world!"));
        site.manager.is_over("greet-1").await
    })
    .await;
    assert_eq!(site.manager.state("greet-1").await.as_deref(), Some("Done"));
    assert_eq!(call().await, "Hello, world! This is version 2.\n");
}
