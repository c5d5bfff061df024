use std::fs;

use language::functions::{
    ArchiveError, Limits, from_folder, from_upload, without_form_in_folder, without_form_in_zip,
};
use zip::CompressionMethod;

use super::{sound, strategy, zip_of};
use crate::{load, samples};

fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in sound() {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
    root
}

#[test]
fn a_folder_and_an_upload_of_it_are_the_same_archive() {
    let root = folder();
    fs::write(root.path().join("fns/sample_f1/.DS_Store"), "junk").unwrap();
    fs::create_dir(root.path().join("fns/sample_f1/nothing")).unwrap();
    let packed = from_folder(root.path(), &strategy(), &Limits::default()).unwrap();
    let zip = zip_of(&sound(), CompressionMethod::Stored);
    assert_eq!(packed, from_upload(&zip, &strategy(), &Limits::default()).unwrap());
    assert_eq!(packed, from_upload(&packed.bytes, &strategy(), &Limits::default()).unwrap());
}

#[test]
fn every_sample_finds_its_functions() {
    let root = crate::repository();
    for (file, text) in samples() {
        if let Err(error) = from_folder(root, &load(&text), &Limits::default()) {
            panic!("{file}: {error}");
        }
    }
}

#[test]
fn missing_and_empty_folders_are_named() {
    let root = folder();
    let f2 = root.path().join("fns/sample_f2");
    fs::remove_dir_all(&f2).unwrap();
    let missing = from_folder(root.path(), &strategy(), &Limits::default());
    assert!(
        matches!(&missing, Err(ArchiveError::Missing { path, .. }) if path == "fns/sample_f2"),
        "{missing:?}"
    );
    fs::write(&f2, "a file in its place").unwrap();
    assert!(matches!(
        from_folder(root.path(), &strategy(), &Limits::default()),
        Err(ArchiveError::Missing { .. })
    ));
    fs::remove_file(&f2).unwrap();
    fs::create_dir(&f2).unwrap();
    assert!(matches!(
        from_folder(root.path(), &strategy(), &Limits::default()),
        Err(ArchiveError::Empty { .. })
    ));
}

#[test]
fn folders_that_nothing_here_could_start_are_warned_of_with_what_to_do() {
    let root = folder();
    let checked = language::check(crate::REFERENCE);
    let warned = || -> Vec<String> {
        let strategy = checked.strategy.as_ref().unwrap();
        let in_folder = without_form_in_folder(root.path(), strategy, &checked.places);
        let packed = from_folder(root.path(), strategy, &Limits::default()).unwrap();
        assert_eq!(in_folder, without_form_in_zip(&packed.bytes, strategy, &checked.places));
        in_folder
            .into_iter()
            .map(|found| format!("{}: {}. {}", found.code, found.message, found.fix.unwrap()))
            .collect()
    };
    assert_eq!(warned(), [""; 0]);
    let f2 = root.path().join("fns/sample_f2");
    fs::rename(f2.join("index.js"), f2.join("main.js")).unwrap();
    fs::create_dir(f2.join("package.json")).unwrap();
    fs::write(f2.join("package.json/x"), "a folder of this name is no form").unwrap();
    let [warned] = &warned()[..] else { panic!("one folder") };
    let wanted = "no-form: nothing in the folder \"fns/sample_f2\" can be started as nodejs: it has no index.js or package.json. call what it \
                  starts with index.js or package.json, or name the runtime that the folder is for";
    assert_eq!(warned, wanted);
}

#[cfg(unix)]
#[test]
fn links_are_refused_wherever_they_are() {
    use std::os::unix::fs::symlink;
    let root = folder();
    let inside = root.path().join("fns/sample_f1/passwd");
    symlink("/etc/passwd", &inside).unwrap();
    let found = from_folder(root.path(), &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::Link { .. })), "{found:?}");
    fs::remove_file(inside).unwrap();
    let f2 = root.path().join("fns/sample_f2");
    fs::remove_dir_all(&f2).unwrap();
    symlink(root.path().join("fns/sample_f1"), f2).unwrap();
    let found = from_folder(root.path(), &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::Link { .. })), "{found:?}");
}

#[test]
fn limits_hold_for_folders_too() {
    let root = folder();
    let with = |limits: Limits| from_folder(root.path(), &strategy(), &limits).map(|_| ()).unwrap_err();
    let usual = Limits::default;
    assert!(matches!(with(Limits { entries: 2, ..usual() }), ArchiveError::TooManyEntries { .. }));
    assert!(matches!(with(Limits { file_bytes: 2, ..usual() }), ArchiveError::FileTooLarge { .. }));
    assert!(matches!(with(Limits { unpacked_bytes: 5, ..usual() }), ArchiveError::TooLarge { .. }));
}
