//! Downloads, from a server that breaks off and lies.

use std::{fs, path::Path, process::Command};

use agent::{
    content::{Content, ContentError, Limits},
    link::{LinkError, Manager},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use crate::{
    link::manager,
    scripted::{Asked, Reply, Server},
};

/// Bytes of a download that no two places of which are alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at) as u8).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

/// How a manager answers a question for functions: whole, or what is missing.
fn served(asked: &Asked, bytes: &[u8], tag: &str) -> Reply {
    let from = asked.header("range").map(|range| -> usize {
        range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap()
    });
    let reply = match from.filter(|_| asked.header("if-range") == Some(tag)) {
        None => Reply::new(200, bytes),
        Some(from) if from >= bytes.len() => {
            return Reply::new(416, "").with("content-range", format!("bytes */{}", bytes.len()));
        }
        Some(from) => Reply::new(206, &bytes[from..])
            .with("content-range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len())),
    };
    reply.with("etag", tag).with("repr-digest", digest(bytes)).with("content-type", "application/zip")
}

async fn download(manager: &Manager, folder: &Path) -> Result<Vec<u8>, LinkError> {
    let into = folder.join("fns.zip");
    manager.functions("child", "R.1", &into).await?;
    Ok(fs::read(into).unwrap())
}

/// Names of the files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_download_goes_on_where_it_was_broken_off_also_after_a_restart() {
    let whole = bytes(700_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let reply = served(asked, &sent, "\"one\"");
        match nth {
            0 => reply.breaking_after(300_000),
            1 => reply.breaking_after(100_000),
            _ => reply,
        }
    });
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        // Each time another process.
        let error = download(&manager(&server, None), folder.path()).await.unwrap_err();
        assert!(matches!(error, LinkError::Unreachable(_)), "{error}");
        assert!(!folder.path().join("fns.zip").exists());
    }
    assert_eq!(download(&manager(&server, None), folder.path()).await.unwrap(), whole);
    assert_eq!(files(folder.path()), ["fns.zip"]);
    let asked = server.asked();
    assert_eq!(asked[0].target, "/release/functions/R.1?childID=child");
    let ranges: Vec<Option<&str>> = asked.iter().map(|asked| asked.header("range")).collect();
    assert_eq!(ranges, [None, Some("bytes=300000-"), Some("bytes=400000-")]);
    assert_eq!(asked[1].header("if-range"), Some("\"one\""));
}

#[tokio::test]
async fn a_download_that_has_changed_since_begins_anew() {
    let (old, new) = (bytes(50_000), bytes(40_000).into_iter().rev().collect::<Vec<u8>>());
    let sent = new.clone();
    let server = Server::start(move |nth, asked| match nth {
        0 => served(asked, &old, "\"old\"").breaking_after(30_000),
        _ => served(asked, &sent, "\"new\""),
    });
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), new);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_part_that_does_not_go_with_the_rest_is_thrown_away_once() {
    let whole = bytes(10_000);
    // What a wrong server may answer to who has 4,000 bytes.
    let wrong: [fn(&[u8]) -> Reply; 5] = [
        |all| Reply::new(206, &all[4_000..]).with("content-range", "bytes 5000-9999/10000"),
        |all| Reply::new(206, &all[4_000..8_000]).with("content-range", "bytes 4000-7999/10000"),
        |all| Reply::new(206, &all[4_000..]),
        |all| {
            Reply::new(206, &all[4_000..])
                .with("content-range", "bytes 4000-9999/10000")
                .with("etag", "\"another\"")
        },
        |_| Reply::new(416, "").with("content-range", "bytes */3000"),
    ];
    for rest in wrong {
        let sent = whole.clone();
        let server = Server::start(move |nth, asked| match nth {
            0 => served(asked, &sent, "\"one\"").breaking_after(4_000),
            1 => rest(&sent),
            _ => served(asked, &sent, "\"one\""),
        });
        let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
        download(&manager, folder.path()).await.unwrap_err();
        assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
        let asked = server.asked();
        assert_eq!(asked[1].header("range"), Some("bytes=4000-"));
        assert_eq!(asked[2].header("range"), None);
    }
}

#[tokio::test]
async fn a_wrong_digest_is_tried_once_more_and_then_told() {
    let whole = bytes(9_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let mut damaged = sent.clone();
        damaged[4_444] ^= 1;
        let of = if matches!(nth, 0 | 2 | 3) { &damaged } else { &sent };
        Reply { body: of.clone(), ..served(asked, &sent, "\"one\"") }
    });
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked().len(), 2);
    fs::remove_file(folder.path().join("fns.zip")).unwrap();
    let error = download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "it answered nonsense: functions whose bytes don't have the digest that it names, twice"
    );
    assert_eq!(server.asked().len(), 4);
    // Nothing wrong is left to be taken for the functions.
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn a_damaged_part_is_found_by_the_digest_of_the_whole() {
    let whole = bytes(9_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let reply = served(asked, &sent, "\"one\"");
        if nth == 0 { reply.breaking_after(5_000) } else { reply }
    });
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    let part = folder.path().join("fns.zip.part");
    let mut kept = fs::read(&part).unwrap();
    kept[17] ^= 1;
    fs::write(&part, kept).unwrap();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    let ranges: Vec<bool> = server.asked().iter().map(|asked| asked.header("range").is_some()).collect();
    assert_eq!(ranges, [false, true, false]);
}

#[tokio::test]
async fn a_download_that_was_whole_before_a_crash_is_not_asked_for_again() {
    let whole = bytes(5_000);
    let sent = whole.clone();
    let server = Server::start(move |_, asked| served(asked, &sent, "\"one\"").breaking_after(4_999));
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    fs::write(folder.path().join("fns.zip.part"), &whole).unwrap();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn the_functions_of_a_manager_that_tells_no_digest_are_taken_whole() {
    let whole = bytes(8_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, _| {
        let reply = Reply::new(200, sent.clone()).with("etag", "W/\"weak\"");
        if nth == 0 { reply.breaking_after(4_000) } else { reply }
    });
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked()[1].header("range"), None);
}

#[tokio::test]
async fn functions_that_are_too_large_a_page_or_refused_leave_nothing() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, "").with("content-length", "134217729").breaking_after(0),
        1 => Reply::new(200, "<html>").with("content-type", "text/html"),
        2 => Reply::new(204, ""),
        3 => Reply::new(503, ""),
        _ => Reply::new(404, "there is no release R.1"),
    });
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    let texts = [
        "it has functions of more than 134217728 bytes, which is the most that is taken here",
        "it answered nonsense: a page to be looked at (200)",
        "it answered nonsense: functions with the status 204",
        "it answered 503",
        "it answered 404: there is no release R.1",
    ];
    for text in texts {
        let error = download(&manager, folder.path()).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(files(folder.path()).is_empty());
    }
}

#[tokio::test]
async fn a_place_that_takes_nothing_is_told_as_such() {
    let server = Server::start(|_, asked| served(asked, &bytes(1_000_000), "\"one\""));
    let manager = manager(&server, None);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("missing/fns.zip");
    let error = manager.functions("child", "R.1", &into).await.unwrap_err();
    assert!(matches!(error, LinkError::Disk(_)), "{error}");
    assert!(error.to_string().starts_with("keeping the download /"), "{error}");
}

/// Names the folder of a small disk to the test that needs one.
const SMALL_DISK: &str = "CHOIRMASTER_TEST_SMALL_DISK";

/// Runs the next test on a disk of 512 KiB, where this machine lets a process have one of its own.
#[test]
fn a_full_disk_keeps_what_has_come_and_is_told_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = "mount -t tmpfs -o size=512k none \"$0\" || exit 77; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--user", "--map-root-user", "sh", "-c", mounted])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "download::on_a_small_disk", "--include-ignored"])
        .env(SMALL_DISK, folder.path())
        .output();
    let Ok(output) = output else { return println!("there is no unshare here") };
    let told = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) || told.is_empty() {
        return println!("nothing can be mounted here: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
#[ignore = "it is run on a disk of its own by the test before"]
async fn on_a_small_disk() {
    let folder = std::env::var(SMALL_DISK).unwrap();
    let folder = Path::new(&folder);
    let whole = bytes(400_000);
    let sent = whole.clone();
    let server = Server::start(move |_, asked| served(asked, &sent, "\"one\""));
    fs::write(folder.join("in-the-way"), vec![0; 300_000]).unwrap();
    let error = download(&manager(&server, None), folder).await.unwrap_err();
    let hint = ": the disk is full; what has come is kept, make room for the rest";
    assert!(matches!(&error, LinkError::Disk(text) if text.ends_with(hint)), "{error}");
    fs::remove_file(folder.join("in-the-way")).unwrap();
    assert_eq!(download(&manager(&server, None), folder).await.unwrap(), whole);
    let from = server.asked()[1].header("range").map(str::to_owned).expect("what has come is gone on with");
    assert!(from.starts_with("bytes="), "{from}");

    // The content of a version that has no room leaves nothing.
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("fn.py"), &whole).unwrap();
    let content = Content::open(&folder.join("content")).unwrap();
    let error = content.add_folder(source.path(), "f", "python", &Limits::default()).unwrap_err();
    assert!(matches!(&error, ContentError::Io { .. }), "{error}");
    assert!(error.to_string().ends_with(": make room for the content of functions"), "{error}");
    assert!(content.list().unwrap().is_empty());
    assert!(files(&folder.join("content")).is_empty());
}
