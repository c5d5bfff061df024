//! `choirmaster analyse` and scipy say the same of the same data: U, p, estimates and intervals.

use std::{path::Path, process::Command};

use super::PROGRAM;

/// A Python with scipy; `tests/run` gets it and sets this.
fn python() -> String {
    std::env::var("CHOIRMASTER_TEST_SCIPY").unwrap_or_else(|_| {
        panic!("CHOIRMASTER_TEST_SCIPY is not set: run the tests with tests/run, which gets scipy for them")
    })
}

#[test]
fn what_analyse_says_is_what_scipy_says() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/scipy/compare.py");
    let ran = Command::new(python()).arg(script).arg(PROGRAM).arg(folder.path()).output();
    let ran = ran.unwrap_or_else(|error| panic!("Python does not run: {error}"));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("40 data sets, 0 differences\n"), "{said}");
}
