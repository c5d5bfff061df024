//! Releases from the command line, against a manager that is a process of its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use super::{PROGRAM, Served, code, err, out, program, repository, run};

/// Simulated children that run ten times as fast; killed at the end of the test.
pub struct Fleet(Child);

impl Fleet {
    fn of(folder: &Path, url: &str, kind: &str) -> Self {
        let args = [
            "fleet",
            "--url",
            url,
            "--agents",
            "3",
            "--pace",
            "0.05",
            "--errors",
            "0",
            "--bad-path",
            "broken",
        ];
        let process = program(folder)
            .args(args)
            .args([
                "--kind",
                kind,
                "--calls-per-second",
                "200",
                "--bad-errors",
                "80%",
                "--exit-after-rollback",
                "0",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(process)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A manager with three children that have registered.
pub fn world(folder: &Path) -> (Served, Fleet) {
    world_of(folder, "deployed")
}

fn world_of(folder: &Path, kind: &str) -> (Served, Fleet) {
    let served = Served::start(folder, &["--listen", "127.0.0.1:0"]);
    let fleet = Fleet::of(folder, &served.url, kind);
    loop {
        let list = run(folder, ["children", "list", "--json", "--url", &served.url]);
        assert_eq!(code(&list), 0, "{}", err(&list));
        let children: Vec<serde_json::Value> = serde_json::from_str(&out(&list)).unwrap();
        if children.len() == 3 {
            return (served, fleet);
        }
    }
}

fn sample(name: &str) -> String {
    repository().join("releases").join(name).display().to_string()
}

/// Lines without their times.
fn without_times(text: &str) -> String {
    let shown: Vec<&str> =
        text.lines().map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest)).collect();
    shown.join("\n")
}

#[test]
fn a_release_is_submitted_and_waited_for_and_the_exit_code_tells_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (served, _fleet) = world(folder.path());
    let url = served.url.as_str();

    let dry = run(folder.path(), ["release", "submit", &sample("canary.yml"), "--dry-run", "--url", url]);
    assert_eq!(
        (code(&dry), out(&dry).as_str()),
        (0, "canary would be released: 3 children take part\n  functions: those of the manager\n")
    );

    let good = run(folder.path(), ["release", "submit", &sample("canary.yml"), "--wait", "--url", url]);
    assert_eq!(code(&good), 0, "{}{}", out(&good), err(&good));
    let watched = run(folder.path(), ["release", "watch", "canary", "--url", url]);
    assert_eq!(code(&watched), 0);
    insta::assert_snapshot!(without_times(&out(&watched)), @"canary Done: 3 of 3 children over; 3 succeeded");
    let shown = out(&run(folder.path(), ["release", "show", "canary", "--url", url]));
    assert!(
        shown.contains("\n  errorRate 0 %") && shown.contains(", allowed <2 %"),
        "of a good one there are numbers, too: {shown}"
    );

    let held =
        run(folder.path(), ["release", "submit", &sample("two-stage.yml"), "--no-start", "--url", url]);
    assert!(out(&held).contains("it is not started: choirmaster release resume two-stage"), "{}", out(&held));
    let child = run(folder.path(), ["children", "list", "--json", "--url", url]);
    let child: serde_json::Value = serde_json::from_str(&out(&child)).unwrap();
    let child = child[0]["id"].as_str().unwrap().to_owned();
    let offer = run(folder.path(), ["release", "show", "two-stage", "--offer", &child, "--url", url]);
    assert!(out(&offer).starts_with("id: \"two-stage\"\nname: "), "{}{}", out(&offer), err(&offer));
    let over = run(folder.path(), ["release", "show", "canary", "--offer", &child, "--url", url]);
    assert_eq!((code(&over), err(&over).as_str()), (1, "error: release canary is over\n"));
    let aborted = run(folder.path(), ["release", "abort", "two-stage", "--url", url]);
    assert_eq!(code(&aborted), 0, "{}", err(&aborted));

    let bad = run(folder.path(), ["release", "submit", &sample("bad.yml"), "--wait", "--url", url]);
    assert_eq!(code(&bad), 3, "{}{}", out(&bad), err(&bad));
    let watched = run(folder.path(), ["release", "watch", "bad", "--url", url]);
    assert_eq!(code(&watched), 3);
    // Which of the three, and what it measured, is chance.
    let line = without_times(&out(&watched));
    assert!(
        line.starts_with("bad DoneWithFailures (")
            && line.contains(" failed in stage Canary 10 Percent with fns/sieve_broken (errorRate ")
            && line.contains(", allowed <5 %")
    );
    assert!(line.ends_with("): 3 of 3 children over; 3 failed"), "{line}");
    let shown = out(&run(folder.path(), ["release", "show", "bad", "--url", url]));
    assert!(
        shown.contains("  cause        children\n")
            && shown.contains("  stage        Canary 10 Percent\n")
            && shown.contains("  version      fns/sieve_broken\n")
            && shown.contains("  numbers      errorRate "),
        "{shown}"
    );
    let json = out(&run(folder.path(), ["release", "show", "bad", "--json", "--url", url]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["release"]["why"]["stage"], "Canary 10 Percent", "{json:#}");

    let logs = out(&run(folder.path(), ["release", "logs", "bad", "--url", url]));
    assert!(logs.starts_with("agents keep their logs to themselves; where they run:\n"), "{logs}");
    assert_eq!(logs.matches(": choirmaster agent logs --release bad\n").count(), 3, "{logs}");
    let logs = out(&run(folder.path(), ["release", "logs", "canary", "--url", url]));
    assert_eq!(logs, "no child failed in release canary\n");

    let again = run(folder.path(), ["release", "submit", &sample("canary.yml"), "--url", url]);
    assert_eq!((code(&again), out(&again).contains("is there already")), (0, true), "{}", out(&again));

    let deployed = run(folder.path(), ["deployments", "--json", "--url", url]);
    let deployed: Vec<serde_json::Value> = serde_json::from_str(&out(&deployed)).unwrap();
    assert_eq!(deployed.len(), 3);
    assert!(deployed.iter().all(|d| d["variant"] == "base" && d["release"] == "bad"), "{deployed:?}");

    let audit = run(folder.path(), ["audit", "--release", "bad", "--url", url]);
    assert!(out(&audit).contains("operator:tester bad release_submitted"), "{}", out(&audit));

    let diff = run(folder.path(), ["release", "diff", "canary", &sample("canary.yml"), "--url", url]);
    assert!(out(&diff).ends_with("say the same\n"), "{}{}", out(&diff), err(&diff));
    let differs = run(folder.path(), ["release", "diff", "canary", "bad", "--exit-code", "--url", url]);
    assert_eq!(code(&differs), 3, "{}", err(&differs));
}

#[test]
fn a_watcher_sees_the_verdict_and_who_looks_closer_the_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (served, _fleet) = world_of(folder.path(), "modern");
    let url = served.url.as_str();
    let text = std::fs::read_to_string(sample("canary.yml")).unwrap();
    let even = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    let even =
        even.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"200\"", "\"500\"");
    let block = "    analysis: {duration: 1s, interval: 1s, inconclusive: pass, metrics: [{name: times, provider: children, \
        metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 100%}]}\n    end_action:";
    std::fs::write(folder.path().join("judged.yml"), even.replace("    end_action:", block)).unwrap();
    let file = folder.path().join("judged.yml").display().to_string();
    let submitted = run(folder.path(), ["release", "submit", &file, "--wait", "--url", url]);
    assert_eq!(code(&submitted), 0, "{}{}", out(&submitted), err(&submitted));
    let watched = out(&run(folder.path(), ["release", "watch", "canary", "--url", url]));
    assert!(
        watched.contains("canary analysis of stage Canary 5 Percent: pass: times: the canary took"),
        "{watched}"
    );
    let json = out(&run(folder.path(), ["release", "watch", "canary", "--json", "--url", url]));
    let json: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&json["state"], &json["analyses"][0]["verdict"]),
        (&"Done".into(), &"pass".into()),
        "{json:#}"
    );
    let shown = out(&run(folder.path(), ["release", "show", "canary", "--url", url]));
    assert!(shown.contains("; alpha 0.05 of 0.05 spent"), "{shown}");
    let audit = out(&run(folder.path(), ["audit", "--release", "canary", "--json", "--url", url]));
    assert!(audit.contains("alphaSpent"), "{audit}");
}

#[test]
fn a_watcher_outlives_a_restart_of_the_manager_and_an_abort_is_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let (url, address) = (served.url.clone(), served.url.strip_prefix("http://").unwrap().to_owned());
    // A child that has registered and never calls again keeps the release open.
    let poll = r#"{"id":"","geographic_area":{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.4]]]},"number_of_children":0}"#;
    post(&address, "/poll", poll);
    let submitted = run(folder.path(), ["release", "submit", &sample("canary.yml"), "--url", &url]);
    assert_eq!(code(&submitted), 0, "{}", err(&submitted));
    let mut watcher = program(folder.path())
        .args(["release", "watch", "canary", "--url", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut complaints = BufReader::new(watcher.stderr.take().unwrap());
    let mut lines = BufReader::new(watcher.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("canary Running: 0 of 1 child has ended"), "{line}");
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
    line.clear();
    complaints.read_line(&mut line).unwrap();
    assert_eq!(line, "the manager does not answer at the moment; waiting for it\n");
    let served = Served::start(folder.path(), &["--listen", &address]);
    assert_eq!(served.url, url);
    let aborted = run(folder.path(), ["release", "abort", "canary", "--note", "enough", "--url", &url]);
    assert_eq!(code(&aborted), 0, "{}", err(&aborted));
    assert_eq!(watcher.wait().unwrap().code(), Some(4));
    let last = lines.lines().last().unwrap().unwrap();
    assert!(last.contains("canary Aborted"), "{last}");
}

/// A call of a child, with nothing but a socket.
fn post(address: &str, path: &str, body: &str) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A sample under another id, with the manager in charge.
fn led(folder: &Path, name: &str, rollout: &str) -> String {
    let text = std::fs::read_to_string(sample(&format!("{name}.yml"))).unwrap();
    let text = text.replace(&format!("id: {name}\n"), "id: led\n");
    let file = folder.join("led.yml");
    std::fs::write(&file, format!("{text}rollout: {{{rollout}}}\n")).unwrap();
    file.display().to_string()
}

/// Looks until a release is in this state; answers its children.
fn children_at(folder: &Path, url: &str, state: &str) -> Vec<serde_json::Value> {
    loop {
        let shown = run(folder, ["release", "show", "led", "--json", "--url", url]);
        assert_eq!(code(&shown), 0, "{}", err(&shown));
        let shown: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
        if shown["release"]["state"] == state {
            return shown["children"].as_array().unwrap().clone();
        }
    }
}

#[test]
fn a_release_that_is_led_is_steered_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (served, _fleet) = world(folder.path());
    let url = served.url.as_str();
    let steer = |args: &[&str]| {
        let output = run(folder.path(), ["release"].iter().chain(args).chain(&["--url", url]));
        format!("{}{}", out(&output), err(&output))
    };
    let file = led(folder.path(), "canary", "order: waves, waves: [1, 100%], approval: before_each_wave");
    steer(&["submit", &file]);
    let children = children_at(folder.path(), url, "AwaitingApproval");
    let watched = run(folder.path(), ["release", "watch", "led", "--until", "paused,approval", "--url", url]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    assert!(out(&watched).contains("led AwaitingApproval: "), "{}", out(&watched));
    assert_eq!(
        err(&watched),
        "choirmaster release approve led lets it go on, choirmaster release abort led rolls it back\n"
    );
    let waits = children.iter().find(|child| child["status"] == "Todo").unwrap();
    let child = waits["child"].as_str().unwrap();
    let mut said = steer(&["skip", "led", child, "--note", "in repair"]);
    said += &steer(&["retry", "led", "--child", child]);
    said += &steer(&["extend", "led"]);
    said += &steer(&["skip-stage", "led", "Canary"]);
    said += &steer(&["skip-stage", "led", "Canary 5 Percent"]);
    said += &steer(&["promote", "led", "--to-gate", "--note", "seen enough"]);
    said += &steer(&["promote", "led", "--full"]);
    insta::assert_snapshot!(said.replace(child, "CHILD"), @r#"
    led: CHILD is taken out; it is AwaitingApproval (wave 2 of 2) now
    led: CHILD gets another attempt; it is AwaitingApproval (wave 2 of 2) now
    led: extended; it is AwaitingApproval (wave 2 of 2) now
    error: led has no stage "Canary"
    led: stage "Canary 5 Percent" is skipped; it is AwaitingApproval (wave 2 of 2) now
    led: what came next is open; it is Running now
    led: everything is open; it is Running now
    "#);
    assert_eq!(code(&run(folder.path(), ["release", "watch", "led", "--url", url])), 0);
    insta::assert_snapshot!(steer(&["promote", "led"]), @"error: release led is Done: only a release that runs can be promoted");
    insta::assert_snapshot!(steer(&["approve", "led"]), @"error: release led is Done: it does not wait for an approval");
}

#[test]
fn a_release_that_is_over_is_rolled_back_and_its_file_runs_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let (served, _fleet) = world(folder.path());
    let url = served.url.as_str();
    let release = |args: &[&str]| run(folder.path(), ["release"].iter().chain(args).chain(&["--url", url]));
    let file = sample("canary.yml");
    let good = release(&["submit", &file, "--wait"]);
    assert_eq!(code(&good), 0, "{}{}", out(&good), err(&good));

    // Without a terminal nobody is asked, and nothing happens.
    let shown = release(&["rollback", "canary"]);
    assert_eq!(
        (code(&shown), err(&shown).as_str()),
        (1, "error: nothing was submitted: without a terminal nobody can be asked; add --yes\n")
    );
    insta::assert_snapshot!(out(&shown), @r"
    canary-rollback would put back what ran before canary: 3 children take part
      sieve: fns/sieve_new → fns/sieve_base
      at once, each child by itself
    ");
    let dry = release(&["undo", "canary", "--dry-run"]);
    assert_eq!((code(&dry), out(&dry)), (0, out(&shown)));
    let staged = release(&["rollback", "canary", "--dry-run", "--like", "canary", "--json"]);
    let staged: serde_json::Value = serde_json::from_str(&out(&staged)).unwrap();
    assert_eq!((&staged["staged"], &staged["dry_run"]), (&true.into(), &true.into()), "{staged:#}");
    let other = release(&["rollback", "canary", "--dry-run", "--like", "bad"]);
    assert_eq!(
        (code(&other), err(&other).as_str()),
        (1, "error: --like goes through the stages of canary, and not of bad\n")
    );
    assert_eq!(code(&release(&["show", "canary-rollback"])), 1);

    let done = release(&["rollback", "canary", "--yes", "--wait"]);
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    assert!(
        out(&done)
            .starts_with("canary-rollback is submitted, and puts back what ran before canary: 3 children"),
        "{}",
        out(&done)
    );
    let deployed = run(folder.path(), ["deployments", "--json", "--url", url]);
    let deployed: Vec<serde_json::Value> = serde_json::from_str(&out(&deployed)).unwrap();
    let is_back =
        |one: &serde_json::Value| one["path"] == "fns/sieve_base" && one["release"] == "canary-rollback";
    assert!(deployed.len() == 3 && deployed.iter().all(is_back), "{deployed:?}");
    let twice = release(&["rollback", "canary", "--yes"]);
    assert_eq!(
        (code(&twice), err(&twice).as_str()),
        (1, "error: release canary was rolled back already, by release canary-rollback\n")
    );

    // The file runs once more under an id that is free; how, its refusal says, too.
    let known = release(&["submit", &file]);
    assert!(out(&known).contains("\n  --again submits it once more, under another id\n"), "{}", out(&known));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(folder.path().join("changed.yml"), text.replace("\"<0.02\"", "\"<0.03\"")).unwrap();
    let taken = release(&["submit", "changed.yml"]);
    assert!(
        code(&taken) == 1 && err(&taken).contains("--again") && err(&taken).contains("--id NEW"),
        "{}",
        err(&taken)
    );
    let again = release(&["submit", &file, "--again", "--wait"]);
    assert_eq!(code(&again), 0, "{}{}", out(&again), err(&again));
    assert!(out(&again).starts_with("canary-2 is submitted: 3 children take part\n"), "{}", out(&again));
    let next = release(&["submit", &file, "--again", "--dry-run"]);
    assert!(out(&next).starts_with("canary-3 would be released: "), "{}", out(&next));
    let named = release(&["submit", "changed.yml", "--id", "mine", "--dry-run"]);
    assert!(out(&named).starts_with("mine would be released: "), "{}{}", out(&named), err(&named));
    let stored = out(&release(&["show", "canary-2", "--json"]));
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let comment = "# yaml-language-server: ";
    assert!(stored["release"]["strategy"].as_str().unwrap().starts_with(comment), "{stored:#}");
    for wrong in
        [&["submit", file.as_str(), "--id", "a b"][..], &["submit", file.as_str(), "--id", "a", "--again"]]
    {
        assert_eq!(code(&release(wrong)), 1, "{wrong:?}");
    }
}

#[test]
fn errors_say_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let url = served.url.clone();
    let url = url.as_str();
    let unknown = run(folder.path(), ["release", "watch", "nonsense", "--url", url]);
    assert_eq!(code(&unknown), 1, "{}", err(&unknown));
    assert!(err(&unknown).contains("nonsense"), "{}", err(&unknown));

    std::fs::write(folder.path().join("faulty.yml"), "id: 1\nname: x\nstages: []\n").unwrap();
    let faulty = run(folder.path(), ["release", "submit", "faulty.yml", "--url", url]);
    assert_eq!(code(&faulty), 1);
    assert!(err(&faulty).contains("faulty.yml:"), "{}", err(&faulty));

    let missing = run(folder.path(), ["release", "submit", "missing.yml", "--url", url]);
    assert_eq!((code(&missing), err(&missing).contains("missing.yml can't be read")), (1, true));

    drop(served);
    let nobody = run(folder.path(), ["release", "list", "--url", url]);
    assert_eq!(code(&nobody), 2);
    assert!(err(&nobody).contains("choirmaster serve"), "{}", err(&nobody));
    let wrong = run(folder.path(), ["release", "list", "--url", "127.0.0.1"]);
    assert_eq!(code(&wrong), 1, "{PROGRAM}: {}", err(&wrong));
}

#[test]
fn children_are_cordoned_labelled_and_forgotten_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (served, fleet) = world(folder.path());
    drop(fleet);
    let url = served.url.as_str();
    let list = |args: &[&str]| {
        let mut all = vec!["children", "list", "--json", "--url", url];
        all.extend(args);
        let output = run(folder.path(), all);
        assert_eq!(code(&output), 0, "{}", err(&output));
        serde_json::from_str::<Vec<serde_json::Value>>(&out(&output)).unwrap()
    };
    let id = list(&[])[0]["id"].as_str().unwrap().to_owned();
    let act = |args: &[&str]| {
        let output = run(folder.path(), ["children"].iter().chain(args).chain(&["--url", url]));
        assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
    };
    act(&["cordon", &id]);
    assert_eq!(list(&["--cordon", "cordoned"]).len(), 1);
    act(&["uncordon", &id]);
    assert_eq!(list(&["--cordon", "cordoned"]).len(), 0);
    act(&["label", &id, "tier=edge", "rack=7"]);
    assert_eq!(list(&["--label", "tier:edge"])[0]["id"], id.as_str());
    act(&["label", &id, "tier-"]);
    assert_eq!(list(&["--label", "tier:edge"]).len(), 0);
    act(&["show", &id]);
    act(&["forget", &id]);
    assert!(list(&[]).iter().all(|child| child["id"] != id.as_str()));
}
