//! Releases of the original release manager, from its folders to their end; and where functions are taken from.
//!
//! The files in `original/` are written in its form: numeric ids, comments, stages that are commented out, no final
//! newline, several functions.

use std::{
    fs,
    io::{Cursor, Write as _},
    path::Path,
};

use serde_json::Value;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{Served, code, err, out, release::world, repository, run};

/// A zip as the original has them: the folders of this repository under the names that the strategies give them.
fn zip_of(folders: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, of) in folders {
        for entry in fs::read_dir(repository().join("fns").join(of)).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap().to_owned();
            zip.start_file(format!("fns/{name}/{file}"), SimpleFileOptions::default()).unwrap();
            zip.write_all(&fs::read(&path).unwrap()).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

const SIEVE: [(&str, &str); 2] = [("sample_f1", "sieve_base"), ("sample_f2", "sieve_new")];

const ALL: [(&str, &str); 4] = [SIEVE[0], SIEVE[1], ("greet_f1", "sieve_base"), ("greet_f2", "sieve_new")];

/// The original's folder, with the functions of those releases that are named.
fn original(place: &Path, with_functions: &[&str]) {
    for id in ["11", "21", "22", "23"] {
        let folder = place.join("releases").join(id);
        fs::create_dir_all(&folder).unwrap();
        let from = repository().join("tests/it/cli/original/releases").join(id).join("release.yml");
        fs::copy(from, folder.join("release.yml")).unwrap();
        if with_functions.contains(&id) {
            fs::write(folder.join("fns.zip"), zip_of(&ALL)).unwrap();
        }
    }
    // Beside the folders lies what is no release.
    fs::write(place.join("releases/release.yml"), "name: old\n").unwrap();
}

fn releases(folder: &Path, url: &str) -> Vec<Value> {
    let list = run(folder, ["release", "list", "--json", "--url", url]);
    serde_json::from_str(&out(&list)).unwrap()
}

#[test]
fn releases_of_the_original_come_from_their_folders_to_done() {
    let folder = tempfile::tempdir().unwrap();
    original(folder.path(), &["11", "21", "22", "23"]);
    let (served, _fleet) = world(folder.path());
    let url = served.url.as_str();

    let dry = run(folder.path(), ["release", "import", ".", "--url", url]);
    assert_eq!(code(&dry), 0, "{}{}", out(&dry), err(&dry));
    insta::assert_snapshot!(out(&dry), @r"
    FOLDER  RELEASE  FUNCTIONS
    11      11       fns.zip    would be submitted: 3 children take part; line 33: no way leads to rollout: every child ends on its base version
    21      21       fns.zip    would be submitted: 3 children take part
    22      22       fns.zip    would be submitted: 3 children take part
    23      23       fns.zip    would be submitted: 3 children take part

    4 releases would be submitted, and not started; --submit does it
    ");
    assert_eq!(releases(folder.path(), url), Vec::<Value>::new(), "a dry run submits nothing");

    let real = run(folder.path(), ["release", "import", "releases", "--submit", "--url", url]);
    assert_eq!(code(&real), 0, "{}{}", out(&real), err(&real));
    insta::assert_snapshot!(out(&real), @r"
    FOLDER  RELEASE  FUNCTIONS
    11      11       fns.zip    submitted: 3 children take part; line 33: no way leads to rollout: every child ends on its base version
    21      21       fns.zip    submitted: 3 children take part
    22      22       fns.zip    submitted: 3 children take part
    23      23       fns.zip    submitted: 3 children take part

    4 releases submitted, none of them started: choirmaster release resume ID
    ");
    let states: Vec<Value> = releases(folder.path(), url);
    assert_eq!(states.len(), 4);
    for release in &states {
        assert_eq!(release["state"], "Planned", "{release}");
        assert!(release["waits_for"].as_str().unwrap().contains("not started"), "{release}");
    }
    let again = run(folder.path(), ["release", "import", "releases", "--submit", "--url", url]);
    assert!(out(&again).contains("is there already"), "{}", out(&again));

    // In another order than that of their submission: none holds another up before it is started.
    for id in ["22", "11", "23", "21"] {
        let resumed = run(folder.path(), ["release", "resume", id, "--url", url]);
        assert_eq!(code(&resumed), 0, "{}", err(&resumed));
        let watched = run(folder.path(), ["release", "watch", id, "--url", url]);
        assert_eq!(code(&watched), 0, "{id}: {}{}", out(&watched), err(&watched));
        let shown = run(folder.path(), ["release", "show", id, "--json", "--url", url]);
        let shown: Value = serde_json::from_str(&out(&shown)).unwrap();
        assert_eq!(shown["release"]["state"], "Done", "{id}");
        assert_eq!(shown["release"]["counts"]["succeeded"], 3, "{id}");
    }
}

#[test]
fn releases_without_functions_are_listed_and_none_is_submitted() {
    let folder = tempfile::tempdir().unwrap();
    original(folder.path(), &["22"]);
    fs::write(folder.path().join("releases/21/release.yml"), "id: 21\nname: x\n").unwrap();
    let served = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let url = served.url.as_str();
    let import = run(folder.path(), ["release", "import", ".", "--submit", "--url", url]);
    assert_eq!(code(&import), 1);
    insta::assert_snapshot!(out(&import), @r"
    FOLDER  RELEASE  FUNCTIONS
    11      -        missing    can't be submitted, see above
    21      -        -          can't be submitted, see above
    22      22       fns.zip    would be submitted: 0 children take part
    23      -        missing    can't be submitted, see above

    without functions: 11, 23

    1 release can be submitted, 3 can not; nothing was submitted: mend that, or name some with --only
    ");
    insta::assert_snapshot!(err(&import), @r"
    ./releases/11/release.yml: ./releases/11 has no fns.zip: put it there, name the functions with --functions ZIP|DIR, or take those of the manager with --functions-of-manager

    ./releases/21/release.yml: the strategy has 2 faults; the first: the strategy lacks functions

    ./releases/21/release.yml:1:1: error: the strategy lacks functions
     1 | id: 21
      help: write functions: and a list below it

    ./releases/21/release.yml:1:1: error: the strategy lacks stages
     1 | id: 21
      help: write stages: and a list below it

    ./releases/23/release.yml: ./releases/23 has no fns.zip: put it there, name the functions with --functions ZIP|DIR, or take those of the manager with --functions-of-manager
    ");
    assert_eq!(releases(folder.path(), url), Vec::<Value>::new());

    let all = folder.path().join("all.zip");
    fs::write(&all, zip_of(&ALL)).unwrap();
    let some = [".", "--submit", "--only", "11", "--only", "22", "--functions", "all.zip"];
    let some = run(folder.path(), ["release", "import"].into_iter().chain(some).chain(["--url", url]));
    assert_eq!(code(&some), 0, "{}{}", out(&some), err(&some));
    insta::assert_snapshot!(out(&some), @r"
    FOLDER  RELEASE  FUNCTIONS
    11      11       all.zip    submitted: 0 children take part; line 33: no way leads to rollout: every child ends on its base version
    22      22       fns.zip    submitted: 0 children take part

    2 releases submitted, none of them started: choirmaster release resume ID
    ");
    assert_eq!(releases(folder.path(), url).len(), 2);
    let unknown = run(folder.path(), ["release", "import", ".", "--only", "9", "--url", url]);
    assert_eq!(
        (code(&unknown), err(&unknown).as_str()),
        (1, "error: there is no release in 9; there are 11, 21, 22, 23\n")
    );
}

/// The digest of the functions that a release has.
fn functions_of(folder: &Path, url: &str, id: &str) -> Value {
    let shown = run(folder, ["release", "show", id, "--json", "--url", url]);
    let shown: Value = serde_json::from_str(&out(&shown)).unwrap();
    shown["release"]["functions_digest"].clone()
}

#[test]
fn what_lies_beside_a_strategy_is_what_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let served = Served::start(place, &["--listen", "127.0.0.1:0"]);
    let url = served.url.as_str();
    // The manager has functions of its own by these names, and other code.
    let text = fs::read_to_string(repository().join("releases/canary.yml")).unwrap();
    let submit = |id: &str, at: &str, more: &[&str]| {
        let file = place.join(at);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text.replace("id: canary\n", &format!("id: {id}\n"))).unwrap();
        let named = if at.ends_with("release.yml") { file.parent().unwrap() } else { file.as_path() };
        let args = ["release", "submit", named.to_str().unwrap()];
        run(place, args.into_iter().chain(more.iter().copied()).chain(["--url", url]))
    };
    let other_code = [("sieve_base", "greet_base"), ("sieve_new", "greet_new")];
    let manager = submit("of-manager", "a/canary.yml", &[]);
    insta::assert_snapshot!(out(&manager), @r"
    of-manager is submitted: 0 children take part
      functions: those of the manager
      choirmaster release watch of-manager shows how it goes
    ");

    fs::create_dir_all(place.join("b")).unwrap();
    fs::write(place.join("b/fns.zip"), zip_of(&other_code)).unwrap();
    let zip = submit("zip", "b/canary.yml", &[]);
    assert!(out(&zip).contains("b/fns.zip"), "{}{}", out(&zip), err(&zip));
    let whole = submit("folder", "b/release.yml", &[]);
    assert!(out(&whole).contains("b/fns.zip"), "{}{}", out(&whole), err(&whole));
    let asked = submit("asked", "b/canary.yml", &["--functions-of-manager"]);
    assert_eq!(code(&asked), 0, "{}", err(&asked));
    let digest = |id| functions_of(place, url, id);
    assert_ne!(digest("zip"), digest("of-manager"));
    assert_eq!((digest("folder"), digest("asked")), (digest("zip"), digest("of-manager")));

    // A zip of another name counts if it holds what the strategy names.
    fs::create_dir_all(place.join("c")).unwrap();
    fs::write(place.join("c/holiday.zip"), zip_of(&[("elsewhere", "greet_base")])).unwrap();
    assert!(out(&submit("c1", "c/canary.yml", &[])).contains("those of the manager"));
    fs::write(place.join("c/build.zip"), zip_of(&other_code)).unwrap();
    assert!(out(&submit("c2", "c/canary.yml", &[])).contains("c/build.zip"));

    // Folders count like a zip, and where there is more than one it is for a person to say.
    fs::create_dir_all(place.join("d/fns/sieve_base")).unwrap();
    fs::create_dir_all(place.join("d/fns/sieve_new")).unwrap();
    fs::write(place.join("d/fns/sieve_base/index.js"), "1").unwrap();
    fs::write(place.join("d/fns/sieve_new/index.js"), "2").unwrap();
    let folders = submit("d1", "d/canary.yml", &[]);
    assert!(out(&folders).contains("the folders in "), "{}", out(&folders));
    fs::write(place.join("d/fns.zip"), zip_of(&other_code)).unwrap();
    let both = submit("d2", "d/canary.yml", &[]);
    assert_eq!(code(&both), 1);
    insta::assert_snapshot!(err(&both).replace(&place.display().to_string(), "PLACE"), @"error: the functions of PLACE/d/canary.yml could be PLACE/d/fns.zip, or the folders in PLACE/d: say which with --functions ZIP|DIR, or --functions-of-manager");
    let chosen = submit("d3", "d/canary.yml", &["--functions", place.join("d/fns.zip").to_str().unwrap()]);
    assert_eq!(code(&chosen), 0, "{}", err(&chosen));

    let bare = submit("bare", "e/release.yml", &[]);
    assert_eq!(code(&bare), 1);
    insta::assert_snapshot!(err(&bare).replace(&place.display().to_string(), "PLACE"), @"error: PLACE/e has no fns.zip: put it there, name the functions with --functions ZIP|DIR, or take those of the manager with --functions-of-manager");
    let none = run(place, ["release", "submit", place.to_str().unwrap(), "--url", url]);
    insta::assert_snapshot!(err(&none).replace(&place.display().to_string(), "PLACE"), @"error: PLACE has no release.yml; name the file of the strategy, or, for a folder of releases, use `choirmaster release import PLACE`");
}
