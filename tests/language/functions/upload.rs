use std::io::{Cursor, Write};

use language::functions::{ArchiveError, Limits, from_upload};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{entries, sound, strategy, zip_of};

fn upload(files: &[(&str, &[u8])]) -> Result<language::functions::Archive, ArchiveError> {
    from_upload(&zip_of(files, CompressionMethod::Deflated), &strategy(), &Limits::default())
}

fn refusal(files: &[(&str, &[u8])]) -> String {
    upload(files).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn folders_come_before_their_files_and_modes_are_what_agents_need() {
    let archive = upload(&sound()).unwrap();
    let expected = [
        ("fns/", 0o40_755, ""),
        ("fns/sample_f1/", 0o40_755, ""),
        ("fns/sample_f1/index.js", 0o100_644, "one"),
        ("fns/sample_f2/", 0o40_755, ""),
        ("fns/sample_f2/index.js", 0o100_644, "two"),
        ("fns/sample_f2/lib/", 0o40_755, ""),
        ("fns/sample_f2/lib/x.js", 0o100_644, "x"),
    ]
    .map(|(name, mode, content)| (name.to_owned(), mode, content.to_owned()));
    assert_eq!(entries(&archive), expected);
}

#[test]
fn order_compression_and_litter_make_no_difference() {
    let plain = upload(&sound()).unwrap();
    let mut files = sound();
    files.reverse();
    let more: [(&str, &[u8]); 6] = [
        ("fns/", b""),
        ("fns/sample_f1/", b""),
        ("__MACOSX/fns/._sample_f1", b"junk"),
        ("fns/sample_f1/.DS_Store", b"junk"),
        ("fns/sample_f10/index.js", b"of another strategy"),
        ("README.md", b"hello"),
    ];
    files.extend(more);
    let other = zip_of(&files, CompressionMethod::Stored);
    assert_eq!(from_upload(&other, &strategy(), &Limits::default()).unwrap(), plain);
}

#[test]
fn another_path_or_content_is_another_archive() {
    let digest = |files: &[(&str, &[u8])]| upload(files).unwrap().digest;
    let plain = digest(&sound());
    let mut other = sound();
    other[0].1 = b"One";
    assert_ne!(digest(&other), plain);
    other[0] = ("fns/sample_f1/index.mjs", b"one");
    assert_ne!(digest(&other), plain);
}

#[test]
fn folders_that_are_missing_or_empty_are_named() {
    let mut text = refusal(&sound()[..1]);
    text += "\n";
    text += &refusal(&[("fns/sample_f1/index.js", b"one"), ("fns/sample_f2/", b"")]);
    text += "\n";
    text += &refusal(&[("fns/sample_f1/index.js", b"one"), ("fns/sample_f2/.DS_Store", b"x")]);
    insta::assert_snapshot!(text, @r#"
    the folder "fns/sample_f2", the new_version of function "sieve", is nowhere to be found
    the folder "fns/sample_f2", the new_version of function "sieve", is empty
    the folder "fns/sample_f2", the new_version of function "sieve", is nowhere to be found
    "#);
}

#[test]
fn names_that_could_leave_the_folder_are_refused_even_in_what_is_dropped() {
    let mut text = String::new();
    for name in [
        "../evil",
        "fns/sample_f1/../../../evil",
        "/etc/passwd",
        "C:/evil",
        "fns\\sample_f1\\x",
        "fns/sample_f1/a\nb",
        "fns/sample_f1/a\0b",
        "fns//x",
        "fns/./x",
    ] {
        let mut files = sound();
        files.push((name, b"x"));
        text += &refusal(&files);
        text += "\n";
    }
    insta::assert_snapshot!(text, @r#"
    the name "../evil" leaves its folder: use relative names with forward slashes
    the name "fns/sample_f1/../../../evil" leaves its folder: use relative names with forward slashes
    the name "/etc/passwd" is absolute: use relative names with forward slashes
    the name "C:/evil" has a drive letter: use relative names with forward slashes
    the name "fns\\sample_f1\\x" has a backslash: use relative names with forward slashes
    the name "fns/sample_f1/a\nb" has a control character: use relative names with forward slashes
    the name "fns/sample_f1/a\0b" has a control character: use relative names with forward slashes
    the name "fns//x" has an empty part: use relative names with forward slashes
    the name "fns/./x" has an empty part: use relative names with forward slashes
    "#);
}

#[test]
fn what_systems_can_not_keep_apart_is_refused() {
    let mut files = sound();
    files.push(("fns/sample_f1/INDEX.js", b"x"));
    assert!(matches!(upload(&files), Err(ArchiveError::Case { .. })));
    let mut files = sound();
    files.push(("./fns/sample_f1/index.js", b"x"));
    assert!(matches!(upload(&files), Err(ArchiveError::Duplicate { .. })));
    let mut files = sound();
    files.push(("fns/sample_f1/index.js/x", b"x"));
    assert!(matches!(upload(&files), Err(ArchiveError::FileAndFolder { .. })));
}

#[test]
fn the_same_name_twice_is_refused() {
    let mut bytes =
        zip_of(&[sound()[0], sound()[1], ("fns/sample_f2/index.jS", b"x")], CompressionMethod::Stored);
    // The writer refuses such a zip, so one is made by hand.
    let name = b"fns/sample_f2/index.jS";
    while let Some(at) = bytes.windows(name.len()).position(|w| w == name) {
        bytes[at + name.len() - 1] = b's';
    }
    let found = from_upload(&bytes, &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::DuplicateNames)), "{found:?}");
}

#[test]
fn links_and_special_files_are_refused() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("fns/sample_f1/index.js", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let found = from_upload(&bytes, &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::Link { .. })), "{found:?}");
    // The file type of a Unix mode is in the upper half of the external attributes of the central record.
    let mut bytes = zip_of(&sound(), CompressionMethod::Stored);
    let record = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    bytes[record + 41] = 0o010_000_u32.to_be_bytes()[2] | (bytes[record + 41] & 0x0f);
    let found = from_upload(&bytes, &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::Special { .. })), "{found:?}");
}

/// A zip with a field of its first entry changed, in both headers.
fn patched(local: usize, central: usize, value: u8) -> Vec<u8> {
    let mut bytes = zip_of(&sound(), CompressionMethod::Stored);
    let record = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    bytes[local] = value;
    bytes[record + central] = value;
    bytes
}

#[test]
fn encrypted_entries_and_unknown_compression_are_refused() {
    let encrypted = from_upload(&patched(6, 8, 1), &strategy(), &Limits::default());
    assert!(matches!(encrypted, Err(ArchiveError::Encrypted { .. })), "{encrypted:?}");
    let unknown = from_upload(&patched(8, 10, 97), &strategy(), &Limits::default());
    assert!(matches!(unknown, Err(ArchiveError::Compression { .. })), "{unknown:?}");
}

#[test]
fn content_that_does_not_match_its_checksum_is_refused() {
    let mut bytes = zip_of(&sound(), CompressionMethod::Stored);
    let at = bytes.windows(3).position(|w| w == b"one").unwrap();
    bytes[at] = b'O';
    let found = from_upload(&bytes, &strategy(), &Limits::default());
    assert!(matches!(found, Err(ArchiveError::Damaged { .. })), "{found:?}");
}

#[test]
fn bombs_are_refused_by_what_comes_out() {
    let zeros = vec![0_u8; 4 * 1024 * 1024];
    let mut files = sound();
    files.push(("fns/sample_f1/zeros", &zeros));
    assert!(matches!(upload(&files), Err(ArchiveError::Ratio { .. })));
    // Outside the named folders nothing is unpacked, so nothing is spent.
    files[3].0 = "fns/other/zeros";
    assert!(upload(&files).is_ok());
}

#[test]
fn each_limit_holds() {
    let strategy = strategy();
    let bytes = zip_of(&sound(), CompressionMethod::Deflated);
    let with = |limits: Limits| from_upload(&bytes, &strategy, &limits).map(|_| ()).unwrap_err();
    let usual = Limits::default;
    assert!(matches!(with(Limits { upload_bytes: 10, ..usual() }), ArchiveError::UploadTooLarge { .. }));
    assert!(matches!(with(Limits { entries: 2, ..usual() }), ArchiveError::TooManyEntries { .. }));
    assert!(matches!(with(Limits { file_bytes: 2, ..usual() }), ArchiveError::FileTooLarge { .. }));
    assert!(matches!(with(Limits { unpacked_bytes: 5, ..usual() }), ArchiveError::TooLarge { .. }));
    assert!(
        from_upload(&bytes, &strategy, &Limits { entries: 3, unpacked_bytes: 7, file_bytes: 3, ..usual() })
            .is_ok()
    );
}

#[test]
fn what_is_no_zip_is_refused() {
    for bytes in [&b""[..], b"PK", b"hello, this is text"] {
        let found = from_upload(bytes, &strategy(), &Limits::default());
        assert!(matches!(found, Err(ArchiveError::NotAZip(_))), "{found:?}");
    }
    let mut cut = zip_of(&sound(), CompressionMethod::Deflated);
    cut.truncate(cut.len() / 2);
    let mut file = Vec::new();
    file.write_all(&cut).unwrap();
    assert!(from_upload(&file, &strategy(), &Limits::default()).is_err());
}
