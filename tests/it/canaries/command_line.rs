//! Manifests on the command line: what `release submit` says of them, and what other commands do.

use std::{fs, path::Path};

use choirmaster::cli::{source::SourceSpec, validate};

use super::{ADOPTED, DEPRECATED, canary, shop};
use crate::{ab::player::Player, cli::registry::said};

/// What commands say, one after the other.
async fn all(player: &Player, folder: &Path, lines: &[&str]) -> String {
    let mut seen = String::new();
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        seen += &format!("$ {line}\n{}", said(&player.world, folder, &args).await);
    }
    seen
}

/// A folder with the manifests.
fn manifests() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("shop.yml", shop(1, &[1, 2])),
        ("checkout-2.yml", canary(2, "")),
        ("adopted.yml", canary(2, ADOPTED)),
        ("deprecated.yml", canary(2, DEPRECATED)),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_kinds_are_submitted_and_what_became_of_them_is_told() {
    let (player, folder) = (Player::start().await, manifests());
    let seen = all(
        &player,
        folder.path(),
        &[
            "release submit checkout-2.yml",
            "release submit shop.yml --dry-run",
            "release submit shop.yml",
            "release submit shop.yml --wait",
            "release submit checkout-2.yml --no-start",
            "release submit checkout-2.yml --functions shop.yml",
            "release submit checkout-2.yml --dry-run",
            "release submit checkout-2.yml",
            "release submit checkout-2.yml",
            "plan checkout-2.yml",
        ],
    )
    .await;
    player.begins("checkout-2").await;
    let more = all(
        &player,
        folder.path(),
        &[
            "release submit adopted.yml --dry-run",
            "release submit adopted.yml --by ann",
            "release submit adopted.yml",
            "release submit deprecated.yml",
        ],
    )
    .await;
    insta::assert_snapshot!(seen + &more, @r#"
    $ release submit checkout-2.yml
    error: `spec.release`: there is no release "shop": register it with kind: Release
    (1)
    $ release submit shop.yml --dry-run
    shop (dry run): registered
    (0)
    $ release submit shop.yml
    shop: registered
    (0)
    $ release submit shop.yml --wait
    shop is registered already, with the same content
    (0)
    $ release submit checkout-2.yml --no-start
    error: a CanaryRelease or Release can't wait for its start: leave start=false out
    (1)
    $ release submit checkout-2.yml --functions shop.yml
    error: a CanaryRelease or Release has no functions: send the manifest alone
    (1)
    $ release submit checkout-2.yml --dry-run
    checkout-2 would be released: 1 child takes part
    (0)
    $ release submit checkout-2.yml
    checkout-2 is submitted: 1 child takes part
      choirmaster release watch checkout-2 shows how it goes
    (0)
    $ release submit checkout-2.yml
    checkout-2 is there already, with the same content: 1 child takes part
    (0)
    $ plan checkout-2.yml
    error: checkout-2.yml: kind: CanaryRelease is checked by `choirmaster release submit --dry-run`
    (1)
    $ release submit adopted.yml --dry-run
    checkout-2 (dry run): adopted
    (0)
    $ release submit adopted.yml --by ann
    checkout-2: adopted
      choirmaster release watch checkout-2 shows how it goes
    (0)
    $ release submit adopted.yml
    checkout-2 is there already, with the same content: 1 child takes part
    (0)
    $ release submit deprecated.yml
    checkout-2: deprecated
      choirmaster release watch checkout-2 shows how it goes
    (0)
    "#);
    player.world.stop().await;
}

#[test]
fn a_check_of_strategies_says_what_checks_a_manifest() {
    let folder = manifests();
    for (name, kind) in [("shop.yml", "Release"), ("checkout-2.yml", "CanaryRelease")] {
        let file = folder.path().join(name).display().to_string();
        let args = validate::Args {
            files: vec![file.clone()],
            json: false,
            strategies: None,
            wanted: SourceSpec::default(),
        };
        let mut out = Vec::new();
        assert_eq!(validate::run_with(&args, &mut &b""[..], &mut out), 2);
        let said = String::from_utf8(out).unwrap();
        let why = format!("kind: {kind} is checked by `choirmaster release submit --dry-run`");
        assert!(said.starts_with(&format!("{file}: can't be read: {why}\n")), "{said}");
    }
}
