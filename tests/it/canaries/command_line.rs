//! Manifests on the command line: what `release submit` says of them, and what other commands do.

use std::{fs, path::Path};

use choirmaster::cli::{source::SourceSpec, validate};
use serde_json::{Value, json};

use super::{ADOPTED, DEPRECATED, canary, shop, told_by_router, with_weight};
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
        ("heavier.yml", with_weight(&canary(2, ""), 30)),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_listed_and_shown() {
    let (player, folder) = (Player::start().await, manifests());
    let submitted =
        ["canary list", "release submit shop.yml --by ann", "release submit checkout-2.yml --by ann"];
    let first = all(&player, folder.path(), &submitted).await;
    assert!(first.starts_with("$ canary list\nno canaries\n(0)\n"), "{first}");
    player.begins("checkout-2").await;
    player.world.post("/traffic", &told_by_router(&player.router, "checkout-2", 1_000)).await.ok();
    let asked = ["canary list", "canary list --release mall", "canary show checkout-2", "canary show none"];
    insta::assert_snapshot!(all(&player, folder.path(), &asked).await, @r"
    $ canary list
    NAME        RELEASE  VERSION  PHASE   WEIGHT  CREATED
    checkout-2  shop     2        Canary  10 %    0s ago
    (0)
    $ canary list --release mall
    no canaries
    (0)
    $ canary show checkout-2
    checkout-2
      release    shop, version 2
      service    checkout at 8080 HTTP
      phase      Canary
      weight     10 %
      created    0s ago
      by         ann

    CONDITION      STATUS   REASON     SINCE   MESSAGE
    Accepted       True     Submitted  0s ago  it was submitted
    WeightInForce  True     InForce    0s ago  the canary gets 10 % of the calls at 1 router
    Healthy        Unknown  NotJudged  0s ago  nothing judges it; 1 of its 90 calls failed
    Adopted        False    NotAsked   0s ago  nobody has adopted it
    Deprecated     False    NotAsked   0s ago  nobody has deprecated it
    (0)
    $ canary show none
    error: there is no canary release none
    (1)
    ");
    for (line, path) in [
        (&["canary", "list", "--json"][..], "/api/v1/canary-releases"),
        (&["canary", "show", "checkout-2", "--json"][..], "/api/v1/canary-releases/checkout-2"),
    ] {
        let printed = said(&player.world, folder.path(), line).await;
        let printed: Value = serde_json::from_str(printed.rsplit_once("\n(").unwrap().0).unwrap();
        let answered = player.world.get(path).await.ok().json();
        assert_eq!(printed, answered.get("items").unwrap_or(&answered).clone(), "{path}");
    }
    // What a router does is said where it isn't what is wanted.
    player.world.post("/traffic", &told_by_router(&player.router, "checkout-2", 0)).await.ok();
    let listed = all(&player, folder.path(), &["canary list"]).await;
    assert!(listed.contains("  Canary  10 %, gets 0 %  "), "{listed}");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_canary_begins_with_is_planned() {
    let (player, folder) = (Player::start().await, manifests());
    let lines = ["plan checkout-2.yml", "plan shop.yml", "release submit shop.yml", "plan checkout-2.yml"];
    let seen = all(&player, folder.path(), &lines).await;
    for said in [
        "$ plan checkout-2.yml\nerror: `spec.release`: there is no release \"shop\": register it with kind: Release\n(1)\n",
        "$ plan shop.yml\nerror: kind: Release is registered, and releases nothing: ",
        "$ plan checkout-2.yml\ncheckout-2: 1 child takes part, 1 agent, ",
        "\ncanary  service checkout  canary 10 %, stable 90 %  10 %\n",
    ] {
        assert!(seen.contains(said), "{said}\n{seen}");
    }
    assert!(seen.ends_with("(0)\n"), "{seen}");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_becomes_of_another_weight_is_told() {
    let (mut player, folder) = (Player::start().await, manifests());
    player.capabilities["features"] = json!(["shares"]);
    player.polls().await;
    for file in ["shop.yml", "checkout-2.yml"] {
        all(&player, folder.path(), &[&format!("release submit {file}")]).await;
    }
    player.begins("checkout-2").await;
    let heavier = "release submit heavier.yml";
    let dry = "release submit heavier.yml --dry-run";
    let lines =
        ["plan heavier.yml", dry, heavier, heavier, "plan heavier.yml", "plan adopted.yml", "plan other.yml"];
    let other = canary(2, "").replace("colour: 2", "colour: 3");
    fs::write(folder.path().join("other.yml"), other).unwrap();
    let seen = all(&player, folder.path(), &lines).await;
    insta::assert_snapshot!(seen, @r"
    $ plan heavier.yml
    checkout-2 is there already, and would be changed: weight 30
      calls to checkout: 10 % now, 30 % then
      1 router is told at once
    (0)
    $ release submit heavier.yml --dry-run
    checkout-2 (dry run): weight 30
    (0)
    $ release submit heavier.yml
    checkout-2: weight 30
      choirmaster release watch checkout-2 shows how it goes
    (0)
    $ release submit heavier.yml
    checkout-2 is there already, with the same content: 1 child takes part
    (0)
    $ plan heavier.yml
    checkout-2 is there already, and nothing would change
    (0)
    $ plan adopted.yml
    checkout-2 is there already, and would be changed: adopted
      calls to checkout: 30 % now, 100 % then
      1 router is told at once
      its routers ask the canary once more, and give it all calls
      when all have, version 2 is that of release shop, with the canary's config
    (0)
    $ plan other.yml
    error: canary release checkout-2 is there with another release, version, path, config, services or resources: only weights and transition change
    (1)
    ");
    player.world.stop().await;
}

#[test]
fn manifests_are_checked_without_a_manager() {
    let folder = manifests();
    fs::write(folder.path().join("heavy.yml"), canary(2, "").replace("weight: 10", "weight: 101")).unwrap();
    fs::write(folder.path().join("odd.yml"), canary(2, "  colour: blue\n")).unwrap();
    let checked = |name: &str| {
        let file = folder.path().join(name).display().to_string();
        let args = validate::Args {
            files: vec![file.clone()],
            json: false,
            strategies: None,
            wanted: SourceSpec::default(),
        };
        let mut out = Vec::new();
        let code = validate::run_with(&args, &mut &b""[..], &mut out);
        (code, String::from_utf8(out).unwrap().replace(&file, name))
    };
    assert_eq!(checked("shop.yml"), (0, "1 file, 0 errors, 0 warnings\n".to_owned()));
    let (code, said) = checked("checkout-2.yml");
    let note = "checkout-2.yml: note: whether release shop is registered, and has version 2 ";
    assert!(said.starts_with(note) && said.ends_with("\n1 file, 0 errors, 0 warnings\n"), "{said}");
    assert_eq!(code, 0);
    let (code, said) = checked("heavy.yml");
    let fault = "heavy.yml:1:1: error: `spec.services[0].ports[0].config.weight`: 101 is no weight: it is from 0 to 100\n";
    assert_eq!((code, said), (1, format!("{fault}\n1 file, 1 error, 0 warnings\n")));
    let (code, said) = checked("odd.yml");
    assert!(code == 1 && said.contains("colour"), "{code} {said}");
}
