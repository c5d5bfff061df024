//! The files that run it as a service and in a container, and what the documents say of running it: what they name is there.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use super::{PROGRAM, code, err, program, repository};

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The values of a key of a unit.
fn values<'t>(unit: &'t str, key: &str) -> Vec<&'t str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// Runs it with these arguments until it listens, then ends it as a supervisor does. Answers its exit code.
fn serves(folder: &Path, args: &[String], variables: &[(&str, &str)]) -> Option<i32> {
    let mut command = program(folder);
    command.args(args).envs(variables.iter().copied()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on http"), "{args:?} said {line:?}");
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    process.wait().unwrap().code()
}

#[test]
fn the_unit_starts_the_program_with_flags_and_a_configuration_that_it_takes() {
    let unit = read("config/choirmaster.service");
    let [start] = values(&unit, "ExecStart")[..] else { panic!("one command") };
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/local/bin/choirmaster");
    let installed = "#   install -m 755 target/release/choirmaster /usr/local/bin/\n";
    assert!(unit.contains(installed), "the head says how it comes there");

    // What systemd puts in place of %d and %S.
    let (credentials, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [credential] = values(&unit, "LoadCredential")[..] else { panic!("one credential") };
    let (name, source) = credential.split_once(':').unwrap();
    assert!(
        unit.contains(&format!("config/choirmaster.yml {source}\n")),
        "the head says where it is installed"
    );
    std::fs::copy(repository().join("config/choirmaster.yml"), credentials.path().join(name)).unwrap();
    let [directory] = values(&unit, "StateDirectory")[..] else { panic!("one state directory") };
    let own = state.path().join(directory);
    std::fs::create_dir(&own).unwrap();
    let put = |word: &str| {
        word.replace("%d", &credentials.path().display().to_string())
            .replace("%S", &state.path().display().to_string())
    };
    let [working] = values(&unit, "WorkingDirectory")[..] else { panic!("one working directory") };
    assert_eq!(Path::new(&put(working)), own);
    let args: Vec<String> = words[1..].iter().map(|word| put(word)).collect();
    let ended = serves(&own, &args, &[("CHOIRMASTER_LISTEN", "127.0.0.1:0")]);
    assert_eq!(ended, Some(0), "Restart=on-failure leaves it stopped where somebody stops it");
    assert!(own.join("choirmaster.db").exists());
}

#[test]
fn systemd_takes_the_unit_where_there_is_one_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choirmaster.service");
    std::fs::write(&path, read("config/choirmaster.service").replace("/usr/local/bin/choirmaster", PROGRAM))
        .unwrap();
    let Ok(asked) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() else {
        return;
    };
    let said = err(&asked);
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("choirmaster.service")).collect();
    assert!(asked.status.success() && of_ours.is_empty(), "{said}");
}

/// The words of an instruction that is a JSON array.
fn array(containerfile: &str, instruction: &str) -> Vec<String> {
    let [one] = values_of(containerfile, instruction)[..] else { panic!("one {instruction}") };
    serde_json::from_str(one).unwrap()
}

fn values_of<'t>(containerfile: &'t str, instruction: &str) -> Vec<&'t str> {
    let own = |line: &'t str| line.strip_prefix(instruction)?.strip_prefix(' ');
    containerfile.lines().filter_map(own).collect()
}

#[test]
fn the_container_listens_for_others_and_so_wants_a_token() {
    let containerfile = read("config/Containerfile");
    assert_eq!(array(&containerfile, "ENTRYPOINT"), ["choirmaster"]);
    let data = tempfile::tempdir().unwrap();
    let [volume] = values_of(&containerfile, "VOLUME")[..] else { panic!("one volume") };
    assert_eq!(values_of(&containerfile, "WORKDIR").last(), Some(&volume), "fns/ is looked for there");
    let args = array(&containerfile, "CMD");
    assert!(args.contains(&volume.to_owned()), "{args:?}");
    let args: Vec<String> =
        args.iter().map(|word| word.replace(volume, &data.path().display().to_string())).collect();
    let [variable] = values_of(&containerfile, "ENV")[..] else { panic!("one variable") };
    let (name, listen) = variable.split_once('=').unwrap();
    let [port] = values_of(&containerfile, "EXPOSE")[..] else { panic!("one port") };
    assert_eq!(listen, format!("0.0.0.0:{port}"));
    assert!(containerfile.contains(&format!("-p 127.0.0.1:{port}:{port}")));

    let mut without = program(data.path());
    let refused = without.args(&args).env(name, listen).output().unwrap();
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(err(&refused).contains("token"), "{}", err(&refused));
    let token = "CHOIRMASTER_AUTH_OPERATOR_TOKEN";
    assert!(containerfile.contains(&format!("-e {token}=")), "the head says so");
    let free = listen.replace(port, "0");
    let ended = serves(data.path(), &args, &[(name, &free), (token, "a-token-of-an-operator-of-this-test")]);
    assert_eq!(ended, Some(0));
}

#[test]
fn what_the_container_copies_is_all_that_a_build_reads() {
    let containerfile = read("config/Containerfile");
    let folder = tempfile::tempdir().unwrap();
    for copied in values_of(&containerfile, "COPY").iter().filter(|copied| !copied.starts_with("--from")) {
        let words: Vec<&str> = copied.split_whitespace().collect();
        let (to, from) = words.split_last().unwrap();
        for from in from {
            assert!(to == from || *to == "./", "{copied}");
            let link = folder.path().join(from);
            std::os::unix::fs::symlink(repository().join(from), link).unwrap();
        }
    }
    // Every target that the manifest names is there.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version=1"]);
    let told = cargo.current_dir(folder.path()).output().unwrap();
    assert!(told.status.success(), "{}", err(&told));
    // And every file that the program takes in.
    let mut taken = 0;
    for source in sources(&repository().join("src")) {
        let text = std::fs::read_to_string(&source).unwrap();
        for included in ["include_str!(\"", "include_bytes!(\""] {
            for rest in text.split(included).skip(1) {
                let path =
                    source.parent().unwrap().join(rest.split('"').next().unwrap()).canonicalize().unwrap();
                let within = path.strip_prefix(repository().canonicalize().unwrap()).unwrap();
                assert!(
                    folder.path().join(within).exists(),
                    "{} takes in {}",
                    source.display(),
                    within.display()
                );
                taken += 1;
            }
        }
    }
    assert!(taken > 5, "{taken}");
}

fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// What stands between single backticks, outside of blocks.
fn inline_code(text: &str) -> Vec<String> {
    let outside: Vec<&str> = text.split("```").step_by(2).collect();
    // A line that ends within a command goes on with the next one.
    let outside = outside.join(" ").replace('\n', " ");
    outside
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// The first cells of the rows that a page has under this heading.
fn first_cells(page: &str, heading: &str) -> Vec<String> {
    let text = read(page);
    let section =
        text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("{page} has no {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.split('|').nth(1).unwrap().to_owned()).collect()
}

/// The names of metrics in the table of alerts of a page, without what they begin with.
fn alerts(page: &str) -> Vec<String> {
    let is_name = |code: &String| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let cells = first_cells(page, "What to alert on");
    cells.iter().flat_map(|cell| inline_code(cell)).filter(is_name).collect()
}

#[test]
fn every_alert_of_a_manager_is_about_a_metric_that_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let parent = format!("http://{}", nobody.local_addr().unwrap());
    let manager = super::Served::start(folder.path(), &["--listen", "127.0.0.1:0", "--parent", &parent]);
    let metrics = super::words::get(&manager.url, "/metrics");
    let named = alerts("docs/operating.md");
    for name in &named {
        let of_family = |line: &str| line.starts_with(&format!("# TYPE choirmaster_{name} "));
        assert!(metrics.lines().any(of_family), "{name} is no metric:\n{metrics}");
    }
    assert!(named.len() >= 12, "{named:?}");
}

#[test]
fn every_alert_of_an_agent_or_a_proxy_is_about_a_name_that_there_is() {
    for (page, source, at_least) in
        [("docs/agent.md", "src/agent/control/metrics.rs", 8), ("docs/proxy.md", "src/proxy/metrics.rs", 5)]
    {
        let (named, source) = (alerts(page), read(source));
        for name in &named {
            assert!(source.contains(&format!("\"{name}\"")), "{page}: {name} is no metric");
        }
        assert!(named.len() >= at_least, "{page}: {named:?}");
    }
}

/// The program's source, in which texts that go on in the next line are put together.
fn program_texts() -> String {
    let mut texts = String::new();
    for path in sources(&repository().join("src")) {
        let source = std::fs::read_to_string(path).unwrap();
        let mut parts = source.split("\\\n");
        texts.extend(parts.next());
        texts.extend(parts.map(str::trim_start));
    }
    texts
}

/// Somebody who searches the runbook for what is on the screen has to find it.
#[test]
fn every_text_that_the_runbook_quotes_is_one_of_the_program() {
    let (runbook, texts) = (read("docs/runbook.md"), program_texts());
    let mut in_table = false;
    let mut quoted = Vec::new();
    for line in runbook.lines() {
        in_table = line.starts_with("| you read |") || (in_table && line.starts_with('|'));
        if in_table && !line.starts_with("|---") {
            quoted.extend(inline_code(line.split('|').nth(1).unwrap()));
        }
    }
    for text in &quoted {
        assert!(texts.contains(text), "no text of the program has `{text}`");
    }
    assert!(quoted.len() > 40, "{quoted:?}");
}
