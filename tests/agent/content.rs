//! The content of versions.

use std::{
    collections::BTreeSet,
    fs,
    io::{Cursor, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use agent::{
    content::{Content, ContentError, Limits, VersionFolder},
    runtime::VersionId,
};
use language::functions::ArchiveError;
use zip::{ZipWriter, write::SimpleFileOptions};

/// An archive and a place for content.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("state/content")
    }

    fn open(&self) -> Content {
        Content::open(&self.root()).unwrap()
    }

    /// Writes an archive of these files, which have these modes.
    fn zip(&self, files: &[(&str, &str, u32)]) -> PathBuf {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text, mode) in files {
            zip.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        self.write(&zip.finish().unwrap().into_inner())
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join("fns.zip");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Everything that lies at the root, of versions and of anything else.
    fn left(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.root()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn wanted(function: &str, path: &str) -> VersionFolder {
    VersionFolder { function: function.to_owned(), path: path.to_owned(), runner: "python3".to_owned() }
}

fn add(content: &Content, zip: &Path, all: &[VersionFolder]) -> Result<Vec<VersionId>, ContentError> {
    content.add_archive(zip, all, &Limits::default())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn the_same_content_is_one_version_for_a_function_and_another_one_for_each_service() {
    let world = World::new();
    let zip = world.zip(&[("a/run", "#!/bin/sh\n", 0o755), ("b/run", "#!/bin/sh\n", 0o755)]);
    let all = [
        wanted("shop", "a"),
        wanted("service/shop", "a"),
        wanted("service/shop", "b"),
        wanted("service/basket", "a"),
    ];
    let found = add(&world.open(), &zip, &all).unwrap();
    assert_eq!(found[1], found[2], "where it lies makes no difference");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 3);
}

const SAMPLE: [(&str, &str, u32); 4] = [
    ("fns/old/fn.py", "def fn(input): return 1", 0o644),
    ("fns/old/lib/deep/x.txt", "x", 0o644),
    ("fns/new/fn.sh", "echo 2", 0o755),
    ("fns/unnamed/fn.py", "nobody wants this", 0o644),
];

#[test]
fn each_wanted_folder_of_an_archive_becomes_a_version_in_order() {
    let world = World::new();
    let content = world.open();
    let zip = world.zip(&SAMPLE);
    let made = add(&content, &zip, &[wanted("f", "fns/new"), wanted("f", "fns/old")]).unwrap();
    let [new, old] = <[VersionId; 2]>::try_from(made).unwrap();
    assert!(content.has(&new) && content.has(&old) && new != old);
    let mut both = vec![new.clone(), old.clone()];
    both.sort();
    assert_eq!(content.list().unwrap(), both);
    assert_eq!(fs::read_to_string(content.folder(&old).join("fn.py")).unwrap(), "def fn(input): return 1");
    assert_eq!(fs::read_to_string(content.folder(&old).join("lib/deep/x.txt")).unwrap(), "x");
    assert_eq!(fs::read_to_string(content.folder(&new).join("fn.sh")).unwrap(), "echo 2");
    // Nobody else on the machine reads or changes it, and programs stay programs.
    let modes = [
        (world.root(), 0o700),
        (content.folder(&old), 0o700),
        (content.folder(&old).join("lib/deep"), 0o700),
        (content.folder(&old).join("fn.py"), 0o600),
        (content.folder(&new).join("fn.sh"), 0o700),
    ];
    for (path, expected) in modes {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(world.left().len(), 2);
}

#[test]
fn a_version_is_named_by_its_function_its_form_and_its_files_alone() {
    let world = World::new();
    let content = world.open();
    let of = |files: &[(&str, &str, u32)], one: VersionFolder| {
        add(&content, &world.zip(files), &[one]).unwrap().remove(0)
    };
    let plain = of(&[("a/fn.py", "1", 0o644)], wanted("f", "a"));
    assert_eq!(plain.as_str().len(), 64);
    // Elsewhere, in another archive, packed otherwise: the same.
    assert_eq!(of(&[("b/c/fn.py", "1", 0o600), ("d", "2", 0o644)], wanted("f", "./b/c/")), plain);
    // Archives of managers don't say which files are programs.
    assert_eq!(of(&[("a/fn.py", "1", 0o755)], wanted("f", "a")), plain);
    let others = [
        of(&[("a/fn.py", "2", 0o644)], wanted("f", "a")),
        of(&[("a/gn.py", "1", 0o644)], wanted("f", "a")),
        of(&[("a/fn.py", "1", 0o644), ("a/x", "", 0o644)], wanted("f", "a")),
        of(&[("a/fn.py", "1", 0o644)], wanted("g", "a")),
        of(&[("a/fn.py", "1", 0o644)], VersionFolder { runner: "python".to_owned(), ..wanted("f", "a") }),
    ];
    let different: BTreeSet<&VersionId> = others.iter().chain([&plain]).collect();
    assert_eq!(different.len(), 6);
}

#[test]
fn scripts_and_binaries_become_executable_without_archive_mode() {
    let world = World::new();
    let content = world.open();
    let files =
        [("a/run", "#!/bin/sh\nexec ./x\n", 0o644), ("a/x", "\x7fELF", 0o644), ("a/y", "echo", 0o644)];
    let version = add(&content, &world.zip(&files), &[wanted("f", "a")]).unwrap().remove(0);
    let modes = ["run", "x", "y"].map(|file| mode(&content.folder(&version).join(file)));
    assert_eq!(modes, [0o700, 0o700, 0o600]);
}

#[test]
fn a_folder_of_the_machine_is_the_same_version_as_in_an_archive() {
    let world = World::new();
    let content = world.open();
    let source = world.folder.path().join("source");
    fs::create_dir_all(source.join("lib")).unwrap();
    fs::write(source.join("fn.sh"), "echo 1").unwrap();
    fs::set_permissions(source.join("fn.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(source.join("lib/x"), "x").unwrap();
    fs::write(source.join(".DS_Store"), "litter").unwrap();
    let limits = Limits::default();
    let here = content.add_folder(&source, "f", "binary", &limits).unwrap();
    let zip = world.zip(&[("fns/f/fn.sh", "echo 1", 0o755), ("fns/f/lib/x", "x", 0o644)]);
    let there = VersionFolder { runner: "binary".to_owned(), ..wanted("f", "fns/f") };
    assert_eq!(add(&content, &zip, &[there]).unwrap()[0], here);
    assert!(!content.folder(&here).join(".DS_Store").exists());

    symlink("/etc/passwd", source.join("lib/link")).unwrap();
    let error = content.add_folder(&source, "f", "binary", &limits).unwrap_err();
    assert!(matches!(error, ContentError::Archive(ArchiveError::Link { .. })), "{error}");
    fs::remove_file(source.join("lib/link")).unwrap();
    let error = content.add_folder(&source, "f", "binary", &Limits { file_bytes: 5, ..limits.clone() });
    assert!(matches!(error, Err(ContentError::Archive(ArchiveError::FileTooLarge { .. }))));
    let empty = world.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = content.add_folder(&empty, "f", "binary", &limits).unwrap_err();
    assert!(matches!(error, ContentError::Empty(_)), "{error}");
    content.add_folder(Path::new("/nowhere/at/all"), "f", "binary", &limits).unwrap_err();
    assert_eq!(content.list().unwrap(), [here]);
}

#[test]
fn what_is_there_is_not_written_again_and_what_was_removed_comes_back() {
    let world = World::new();
    let content = world.open();
    let zip = world.zip(&SAMPLE);
    let version = add(&content, &zip, &[wanted("f", "fns/old")]).unwrap().remove(0);
    let file = content.folder(&version).join("fn.py");
    let written = file.metadata().unwrap().modified().unwrap();
    assert_eq!(add(&content, &zip, &[wanted("f", "fns/old")]).unwrap()[0], version);
    assert_eq!(file.metadata().unwrap().modified().unwrap(), written);
    content.remove(&version).unwrap();
    content.remove(&version).unwrap();
    assert!(!content.has(&version) && content.list().unwrap().is_empty() && world.left().is_empty());
    add(&content, &zip, &[wanted("f", "fns/old")]).unwrap();
    assert!(content.has(&version));
}

#[test]
fn what_was_left_half_done_is_cleared_away_and_all_else_stays() {
    let world = World::new();
    let version = add(&world.open(), &world.zip(&SAMPLE), &[wanted("f", "fns/old")]).unwrap().remove(0);
    for half in [".new-0011", ".gone-0011"] {
        fs::create_dir_all(world.root().join(half).join("lib")).unwrap();
        fs::write(world.root().join(half).join("lib/fn.py"), "half").unwrap();
    }
    fs::create_dir(world.root().join("of-somebody-else")).unwrap();
    fs::set_permissions(world.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let content = world.open();
    assert_eq!(content.list().unwrap(), std::slice::from_ref(&version));
    assert_eq!(world.left(), BTreeSet::from([version.to_string(), "of-somebody-else".to_owned()]));
    assert_eq!(mode(&world.root()), 0o700);
}

#[test]
fn archives_that_want_out_or_too_much_add_nothing() {
    let world = World::new();
    let content = world.open();
    let refused = |files: &[(&str, &str, u32)], limits: Limits, text: &str| {
        let error = content.add_archive(&world.zip(files), &[wanted("f", "fns")], &limits).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(world.left().is_empty());
    };
    let usual = Limits::default;
    refused(&[("fns/fn.py", "", 0o644), ("fns/../../out", "", 0o644)], usual(), "leaves its folder");
    refused(&[("/fns/fn.py", "", 0o644)], usual(), "is absolute");
    refused(&[("fns/fn.py", "", 0o644), ("fns/FN.py", "", 0o644)], usual(), "upper and lower case");
    refused(&[("fns/a", "", 0o644), ("fns/a/b", "", 0o644)], usual(), "is a file and also a folder");
    refused(&[("other/fn.py", "", 0o644)], usual(), "is not in the archive");
    refused(
        &[("fns/a", "", 0o644), ("fns/b", "", 0o644)],
        Limits { entries: 1, ..usual() },
        "2 entries, at most 1",
    );
    refused(&[("fns/a", "12345", 0o644)], Limits { file_bytes: 4, ..usual() }, "more than 4 bytes");
    refused(
        &[("fns/a", "123", 0o644), ("fns/b", "45", 0o644)],
        Limits { unpacked_bytes: 4, ..usual() },
        "more than 4 bytes together",
    );
    refused(&[("fns/a", "1", 0o644)], Limits { upload_bytes: 10, ..usual() }, "at most 10 are accepted");
    let bomb = "0".repeat(4 << 20);
    refused(&[("fns/a", &bomb, 0o644)], Limits { ratio: 2, ..usual() }, "more than 2 times its size");

    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("fns/fn.py", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let zip = world.write(&zip.finish().unwrap().into_inner());
    let error = add(&content, &zip, &[wanted("f", "fns")]).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    let error = add(&content, &world.write(b"PK no zip"), &[wanted("f", "fns")]).unwrap_err();
    assert!(error.to_string().contains("not a readable zip"), "{error}");
    for path in ["../fns", "/fns", "fns/../..", ""] {
        let error = add(&content, &world.zip(&SAMPLE), &[wanted("f", path)]).unwrap_err();
        assert!(matches!(error, ContentError::Archive(ArchiveError::Name { .. })), "{path:?}: {error}");
    }
    assert!(world.left().is_empty());
}

#[test]
fn whoever_adds_the_same_at_the_same_time_gets_the_same() {
    let world = World::new();
    let (content, zip) = (world.open(), world.zip(&SAMPLE));
    let (content, zip) = (&content, &zip);
    let made: BTreeSet<Vec<VersionId>> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..8).map(|_| scope.spawn(|| add(content, zip, &[wanted("f", "fns/old")]).unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(made.len(), 1);
    assert_eq!(world.left().len(), 1);
}
