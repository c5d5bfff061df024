//! The watched folder of manifests: what is done by what changes in it, and what isn't.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use ab_releases::DEFAULT_TENANT;
use choirmaster::{app::Options, config::Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    ADOPTED, DEPRECATED, canary, canary_of,
    life::{goes_back, registered, serves_alone, state, stored, trail},
    release, shop,
};
use crate::{ab::player::Player, deadline::until, world::World};

const SHOWN: &str = "/api/v1/canary-releases/folder?limit=1000";

/// A manager with a router, and the folder that it watches.
struct Watched {
    player: Player,
    around: TempDir,
}

fn folder_in(around: &TempDir) -> PathBuf {
    around.path().join("canaries")
}

impl Watched {
    /// With an empty folder.
    async fn empty() -> Self {
        Self::with(&[]).await
    }

    async fn with(files: &[(&str, &str)]) -> Self {
        let around = tempfile::tempdir().unwrap();
        let folder = folder_in(&around);
        fs::create_dir(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
        let player = Player::with(|options| options.canary_folder = Some(folder)).await;
        Self { player, around }
    }

    /// With the release `shop`, and a canary of its second version that is under way and in `checkout-2.yml`.
    async fn under_way() -> Self {
        let watched = Self::empty().await;
        watched.puts("shop.yml", &shop(1, &[1, 2])).await;
        watched.puts("checkout-2.yml", &canary(2, "")).await;
        watched.player.begins("checkout-2").await;
        watched
    }

    /// The same after another start of the manager, before which this happened.
    async fn restart(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self { player: Player { world, router, capabilities }, around } = self;
        let folder = folder_in(&around);
        let change = |options: &mut Options| {
            meanwhile(&folder);
            options.canary_folder = Some(folder);
        };
        Self { player: Player { world: world.restart_with(change).await, router, capabilities }, around }
    }

    /// The same with a second canary, in `basket-4.yml`, which waits for the router.
    async fn two() -> Self {
        let watched = Self::under_way().await;
        let of_basket = |text: String| text.replace("checkout", "basket").replace("8080", "8081");
        watched.puts("far.yml", &of_basket(release("far", 3, &[3, 4]))).await;
        watched.puts("basket-4.yml", &of_basket(canary_of("far", "basket-4", 4, ""))).await;
        watched
    }

    /// Waits until the second canary has ended: what was missed with it would have ended, too.
    async fn basket_ends(&self) {
        let has_ended = |state: &String| ["Aborted", "RollingBack"].contains(&state.as_str());
        until("basket-4", async || state(&self.player, "basket-4").await, has_ended).await;
        assert!(trail(self.world(), "basket-4").await.contains("its file basket-4.yml is gone"));
    }

    fn path(&self, file: &str) -> PathBuf {
        folder_in(&self.around).join(file)
    }

    fn world(&self) -> &World {
        &self.player.world
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    /// Puts a file there as a whole.
    fn place(&self, file: &str, text: &str) {
        fs::write(self.path("placed.tmp"), text).unwrap();
        fs::rename(self.path("placed.tmp"), self.path(file)).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }

    /// Writes a file, which is applied.
    async fn puts(&self, file: &str, text: &str) {
        self.write(file, text);
        self.is_applied(file).await;
    }

    async fn is_applied(&self, file: &str) {
        self.shows(file, |shown| shown["state"] == "applied" && shown["fault"].is_null()).await;
    }

    /// Why a file isn't applied, once it is so.
    async fn fault(&self, file: &str, state: &str) -> String {
        let shown = self.shows(file, |shown| shown["state"] == state && !shown["fault"].is_null()).await;
        shown["fault"].as_str().unwrap().to_owned()
    }

    /// Waits until a file is shown so.
    async fn shows(&self, file: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let all = self.world().until(SHOWN, |all| of_file(all, file).is_some_and(&is_so)).await;
        of_file(&all, file).unwrap().clone()
    }

    /// Waits until the folder has a fault.
    async fn folder_fault(&self) -> String {
        let shown = self.world().until(SHOWN, |all| !all["fault"].is_null()).await;
        shown["fault"].as_str().unwrap().to_owned()
    }

    async fn has_no_fault(&self) {
        self.world().until(SHOWN, |all| all["fault"].is_null()).await;
    }

    /// Waits until a release is in this state.
    async fn is(&self, release: &str, wanted: &str) {
        until(release, async || state(&self.player, release).await, |state| state == wanted).await;
    }

    async fn trail(&self) -> String {
        trail(self.world(), "checkout-2").await
    }

    async fn stop(self) {
        self.player.world.stop().await;
    }
}

fn of_file<'a>(all: &'a Value, file: &str) -> Option<&'a Value> {
    all["files"].as_array()?.iter().find(|shown| shown["file"] == file)
}

fn files(all: &Value) -> Vec<&str> {
    all["files"].as_array().unwrap().iter().map(|shown| shown["file"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_created_and_adopted_by_its_file() {
    let watched = Watched::under_way().await;
    let shown = watched.world().get(SHOWN).await.ok().json();
    let expected = json!([
        {"file": "checkout-2.yml", "kind": "CanaryRelease", "id": "checkout-2", "state": "applied", "fault": null},
        {"file": "shop.yml", "kind": "Release", "id": "shop", "state": "applied", "fault": null},
    ]);
    assert_eq!(shown["files"], expected, "{shown:#}");
    assert_eq!(shown["folder"], folder_in(&watched.around).display().to_string());
    let text = watched.world().get("/api/v1/releases/checkout-2/strategy").await.ok().text();
    assert!(text.contains(r#""canary-file":"checkout-2.yml""#), "{text}");
    let told = watched.trail().await;
    assert!(told.contains("operator:folder") && told.contains("so says the file checkout-2.yml"), "{told}");
    let page = watched.world().get("/api/v1/canary-releases/folder?limit=1").await.ok().json();
    assert_eq!((files(&page), &page["next"]), (vec!["checkout-2.yml"], &json!("checkout-2.yml")));
    let rest = "/api/v1/canary-releases/folder?limit=1&after=checkout-2.yml";
    let rest = watched.world().get(rest).await.ok().json();
    assert_eq!((files(&rest), &rest["next"]), (vec!["shop.yml"], &Value::Null));

    watched.write("checkout-2.yml", &canary(2, ADOPTED));
    let is_adopted = |told: &String| told.contains("\"everything\"");
    until("all gates are open", async || watched.trail().await, is_adopted).await;
    serves_alone(&watched.player, "checkout-2").await;
    assert_eq!(state(&watched.player, "checkout-2").await, "Done");
    assert_eq!(registered(&watched.player).await["version"], 2);

    // Nothing follows from files that are older than what has become of them.
    let before = watched.trail().await;
    let watched = watched.restart(|_| ()).await;
    watched.is_applied("checkout-2.yml").await;
    let why = watched.fault("shop.yml", "faulty").await;
    assert!(why.starts_with("release shop was registered by somebody else since, or a canary"), "{why}");
    assert_eq!(registered(&watched.player).await["version"], 2);
    watched.puts("shop.yml", &shop(2, &[1, 2])).await;
    watched.remove("checkout-2.yml");
    watched.world().until(SHOWN, |all| files(all) == ["shop.yml"]).await;
    assert_eq!(watched.trail().await, before);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn written_slowly() {
    let watched = Watched::empty().await;
    // What is there so far could be taken for all of it.
    let mut file = fs::File::create(watched.path("mall.yml")).unwrap();
    file.write_all(release("mall", 1, &[1, 2]).as_bytes()).unwrap();
    // Whatever is written later is at rest as long as a file has to be.
    watched.puts("shop.yml", &shop(1, &[1, 2])).await;
    let shown = watched.shows("mall.yml", |_| true).await;
    assert_eq!(shown["id"], Value::Null, "it isn't read yet: {shown}");
    file.write_all(b"  config: all of it\n").unwrap();
    drop(file);
    watched.is_applied("mall.yml").await;
    let kept = stored(watched.world(), DEFAULT_TENANT, "mall").await.0;
    assert!(kept.contains("all of it"), "{kept}");
    let told = watched.world().get("/api/v1/audit?limit=1000").await.ok().text();
    assert_eq!(told.matches("\"mall\"").count(), 1, "it is registered once: {told}");

    // What is renamed to its name is there as a whole.
    watched.place("checkout-2.yml", &canary(2, ""));
    watched.is_applied("checkout-2.yml").await;
    watched.player.begins("checkout-2").await;
    // As editors do it: the old file gets out of the way first.
    fs::write(watched.path("new.tmp"), canary(2, DEPRECATED)).unwrap();
    fs::rename(watched.path("checkout-2.yml"), watched.path("checkout-2.yml~")).unwrap();
    fs::rename(watched.path("new.tmp"), watched.path("checkout-2.yml")).unwrap();
    watched.is("checkout-2", "RollingBack").await;
    let told = watched.trail().await;
    assert!(!told.contains("is gone"), "{told}");
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renamed() {
    let watched = Watched::two().await;
    let before = watched.trail().await;
    let others = ["basket-4.yml", "far.yml", "shop.yml"];
    let with = |file: &'static str| [&[file][..], &others[..]].concat();
    fs::rename(watched.path("checkout-2.yml"), watched.path("a.yml")).unwrap();
    watched.world().until(SHOWN, |all| files(all) == with("a.yml")).await;
    watched.is_applied("a.yml").await;
    // Moved into another file, which says more.
    watched.write("b.yaml", &format!("# moved\n{}", canary(2, "")));
    watched.remove("a.yml");
    watched.world().until(SHOWN, |all| files(all) == with("b.yaml")).await;
    watched.is_applied("b.yaml").await;
    assert_eq!(watched.trail().await, before);
    // While nobody looks.
    let meanwhile = |folder: &Path| {
        fs::rename(folder.join("b.yaml"), folder.join("z.json")).unwrap();
        fs::remove_file(folder.join("basket-4.yml")).unwrap();
    };
    let watched = watched.restart(meanwhile).await;
    watched.is_applied("z.json").await;
    watched.basket_ends().await;
    assert_eq!(watched.trail().await, before);
    watched.remove("z.json");
    watched.is("checkout-2", "RollingBack").await;
    let told = watched.trail().await;
    assert!(told.contains("its file z.json is gone"), "{told}");
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_while_away() {
    let watched = Watched::under_way().await;
    let watched = watched.restart(|folder| fs::remove_file(folder.join("checkout-2.yml")).unwrap()).await;
    watched.is("checkout-2", "RollingBack").await;
    assert!(watched.trail().await.contains("its file checkout-2.yml is gone"));
    goes_back(&watched.player, "checkout-2").await;
    assert_eq!(state(&watched.player, "checkout-2").await, "Aborted");

    // What somebody submitted by hand doesn't end with a file that says the same.
    let by_hand = canary_of("shop", "by-hand", 2, "");
    watched.world().submit(&by_hand).await.ok();
    watched.puts("by-hand.yml", &by_hand).await;
    let before = trail(watched.world(), "by-hand").await;
    watched.remove("by-hand.yml");
    watched.world().until(SHOWN, |all| files(all) == ["shop.yml"]).await;
    assert_eq!(trail(watched.world(), "by-hand").await, before);
    watched.stop().await;
}

/// So looks a folder that isn't mounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_folder_removes_nothing() {
    let watched = Watched::under_way().await;
    let before = watched.trail().await;
    let empties = |folder: &Path| {
        fs::rename(folder, folder.with_file_name("mounted")).unwrap();
        fs::create_dir(folder).unwrap();
    };
    let watched = watched.restart(empties).await;
    let why = watched.folder_fault().await;
    assert!(
        why.contains("has no manifest, though checkout-2 came from checkout-2.yml in it: so looks a folder"),
        "{why}"
    );
    let folder = folder_in(&watched.around);
    fs::remove_dir(&folder).unwrap();
    fs::rename(folder.with_file_name("mounted"), &folder).unwrap();
    watched.is_applied("checkout-2.yml").await;
    watched.has_no_fault().await;
    assert_eq!(watched.trail().await, before);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_folder_removes_nothing() {
    let watched = Watched::under_way().await;
    let before = watched.trail().await;
    let folder = folder_in(&watched.around);
    let away = folder.with_file_name("away");
    fs::rename(&folder, &away).unwrap();
    let why = watched.folder_fault().await;
    assert!(why.contains("can't be watched, and nothing in it is done meanwhile"), "{why}");
    // What happens to it there is nothing to this manager.
    fs::remove_file(away.join("checkout-2.yml")).unwrap();
    fs::write(&folder, "no folder").unwrap();
    watched
        .world()
        .until(SHOWN, |all| all["fault"].as_str().is_some_and(|why| why.contains("Not a directory")))
        .await;
    let watched = watched.restart(|_| ()).await;
    watched.folder_fault().await;
    assert_eq!(
        (watched.trail().await, state(&watched.player, "checkout-2").await),
        (before, "Running".to_owned())
    );
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    // Now it can be read, and has another file.
    watched.is("checkout-2", "RollingBack").await;
    watched.has_no_fault().await;
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_name_twice() {
    let watched = Watched::under_way().await;
    watched.write("copy.yml", &canary(2, DEPRECATED));
    assert_eq!(
        watched.fault("copy.yml", "faulty").await,
        "CanaryRelease checkout-2 stands in checkout-2.yml, too, and that counts: remove one of the two"
    );
    watched.is_applied("checkout-2.yml").await;
    assert_eq!(state(&watched.player, "checkout-2").await, "Running");
    watched.remove("checkout-2.yml");
    watched.is("checkout-2", "RollingBack").await;
    watched.is_applied("copy.yml").await;
    assert!(watched.trail().await.contains("so says the file copy.yml"));
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_parsing_deprecates_nobody() {
    let watched = Watched::two().await;
    let before = watched.trail().await;
    let limited = canary(2, "  resources: {requests: {cpu: 1}}\n");
    let large = format!("{}# {}\n", canary(2, DEPRECATED), "x".repeat(canary_releases::MAX_DOCUMENT_BYTES));
    let too_large = format!("a manifest has at most 65536 bytes, this one has {}", large.len());
    for (text, why) in [
        ("kind: CanaryRelease\nmetadata: {name: checkout-2}\nspec: {", "`CanaryRelease`: "),
        ("id: x\nname: x\n", "`kind`: it is CanaryRelease or Release"),
        ("", "it is empty"),
        (limited.as_str(), "`spec.resources.requests`: "),
        (large.as_str(), too_large.as_str()),
    ] {
        watched.write("checkout-2.yml", text);
        let is_so = |fault: &str| fault.starts_with(why);
        watched.shows("checkout-2.yml", |shown| shown["fault"].as_str().is_some_and(is_so)).await;
    }
    // Nor does a link that leads nowhere, whoever looks.
    symlink("nowhere", watched.path("link.tmp")).unwrap();
    fs::rename(watched.path("link.tmp"), watched.path("checkout-2.yml")).unwrap();
    let is_so = |fault: &str| fault.contains("a link that leads nowhere");
    watched.shows("checkout-2.yml", |shown| shown["fault"].as_str().is_some_and(is_so)).await;
    let watched = watched.restart(|folder| fs::remove_file(folder.join("basket-4.yml")).unwrap()).await;
    watched.fault("checkout-2.yml", "faulty").await;
    watched.basket_ends().await;
    watched.place("checkout-2.yml", &canary(2, ""));
    watched.is_applied("checkout-2.yml").await;
    assert_eq!(watched.trail().await, before);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_manifest_is_passed_over() {
    let watched = Watched::empty().await;
    let text = canary(2, "");
    for file in [".checkout-2.yml", "checkout-2.yml~", ".checkout-2.yml.swp", "checkout-2.yml.tmp", "README"]
    {
        watched.write(file, &text);
    }
    fs::create_dir(watched.path("old.yml")).unwrap();
    fs::write(watched.path("old.yml/checkout-2.yml"), &text).unwrap();
    watched.place("shop.yml", &shop(1, &[1, 2]));
    watched.is_applied("shop.yml").await;
    let shown = watched.world().until(SHOWN, |all| files(all) == ["shop.yml"]).await;
    assert_eq!(shown["filesRead"], 1);
    watched.stop().await;
}

/// All of its files lead through one link, which is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mounted_config_map_is_followed() {
    let watched = Watched::empty().await;
    let holds = |version: &str, of_canary: &str| {
        let folder = watched.path(version);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("shop.yml"), shop(1, &[1, 2])).unwrap();
        fs::write(folder.join("checkout-2.yml"), of_canary).unwrap();
        symlink(version, watched.path("..data_tmp")).unwrap();
        fs::rename(watched.path("..data_tmp"), watched.path("..data")).unwrap();
    };
    holds("..1", &canary(2, ""));
    for file in ["shop.yml", "checkout-2.yml"] {
        symlink(Path::new("..data").join(file), watched.path(file)).unwrap();
    }
    watched.is_applied("checkout-2.yml").await;
    watched.player.begins("checkout-2").await;
    holds("..2", &canary(2, DEPRECATED));
    fs::remove_dir_all(watched.path("..1")).unwrap();
    watched.is("checkout-2", "RollingBack").await;
    assert!(watched.trail().await.contains("so says the file checkout-2.yml"));
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_has_aborted_is_not_submitted_again() {
    let watched = Watched::under_way().await;
    watched.world().call("POST", "/api/v1/releases/checkout-2/abort").await.ok();
    goes_back(&watched.player, "checkout-2").await;
    let before = watched.trail().await;
    let why = "canary release checkout-2 was deprecated: create another one under another name";
    watched.write("checkout-2.yml", &canary(2, "").replace("weight: 10", "weight: 20"));
    assert_eq!(watched.fault("checkout-2.yml", "faulty").await, why);
    let watched = watched.restart(|_| ()).await;
    assert_eq!(watched.fault("checkout-2.yml", "faulty").await, why);
    // Another one of the release may be created, and what is over ends with no file.
    watched.puts("again.yml", &canary_of("shop", "again", 2, "")).await;
    watched.remove("checkout-2.yml");
    watched.world().until(SHOWN, |all| files(all) == ["again.yml", "shop.yml"]).await;
    assert_eq!(watched.trail().await, before);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_possible_yet_waits() {
    // No router is there when the folder is read first.
    let (second, third) = (canary(2, ""), canary(3, ""));
    let watched =
        Watched::with(&[("checkout-2.yml", second.as_str()), ("checkout-3.yml", third.as_str())]).await;
    assert!(watched.fault("checkout-2.yml", "waiting").await.contains("there is no release \"shop\""));
    watched.puts("shop.yml", &shop(1, &[1, 2, 3])).await;
    watched.is_applied("checkout-2.yml").await;
    let is_second = |shown: &Value| {
        shown["state"] == "waiting"
            && shown["fault"].as_str().is_some_and(|why| why.contains("checkout-2 of shop is under way"))
    };
    watched.shows("checkout-3.yml", is_second).await;
    watched.player.begins("checkout-2").await;
    watched.remove("checkout-2.yml");
    watched.is("checkout-2", "RollingBack").await;
    goes_back(&watched.player, "checkout-2").await;
    watched.is_applied("checkout-3.yml").await;

    // Nobody has the labels of this one's release yet.
    let far = release("far", 3, &[3, 4]).replace("spec:\n", "spec:\n  routers: {env: far}\n");
    let far = far.replace("checkout", "basket").replace("8080", "8081");
    watched.puts("far.yml", &far).await;
    let basket = canary_of("far", "basket-4", 4, "").replace("checkout", "basket").replace("8080", "8081");
    watched.write("basket-4.yml", &basket);
    let why = watched.fault("basket-4.yml", "waiting").await;
    assert!(why.starts_with("nobody could take part in basket-4"), "{why}");
    assert_eq!(watched.world().get("/api/v1/releases/basket-4").await.status, 404);
    let label = format!("/api/v1/children/{}/labels/env", watched.player.router);
    watched.world().send_json("PUT", &label, &json!({"value": "far"})).await.ok();
    watched.is_applied("basket-4.yml").await;
    watched.world().get("/api/v1/releases/basket-4").await.ok();
    watched.stop().await;
}

/// Whoever has paused a canary has a reason that an older file doesn't know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_resumes_nobody() {
    let watched = Watched::under_way().await;
    watched.world().call("POST", "/api/v1/releases/checkout-2/pause").await.ok();
    let adopts = |folder: &Path| fs::write(folder.join("checkout-2.yml"), canary(2, ADOPTED)).unwrap();
    let watched = watched.restart(adopts).await;
    let why = watched.fault("checkout-2.yml", "waiting").await;
    assert!(why.starts_with("canary release checkout-2 is paused"), "{why}");
    assert_eq!(state(&watched.player, "checkout-2").await, "Paused");
    watched.world().call("POST", "/api/v1/releases/checkout-2/resume").await.ok();
    watched.is_applied("checkout-2.yml").await;
    serves_alone(&watched.player, "checkout-2").await;
    assert_eq!(state(&watched.player, "checkout-2").await, "Done");
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_files() {
    let named =
        |at: usize, current: u8| (format!("r{at:03}.yml"), release(&format!("r{at:03}"), current, &[1, 2]));
    let all: Vec<(String, String)> = (0..1_000).map(|at| named(at, 1)).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let watched = Watched::with(&all).await;
    let are_applied = |all: &Value| {
        let files = all["files"].as_array().unwrap();
        files.len() == 1_000 && files.iter().all(|file| file["state"] == "applied")
    };
    let before = watched.world().until(SHOWN, are_applied).await;
    assert_eq!(before["filesRead"], 1_000);
    let (file, text) = named(500, 2);
    watched.write(&file, &text);
    let after = watched.world().until(SHOWN, |all| all["filesRead"] == 1_001).await;
    assert!(are_applied(&after), "{:#}", of_file(&after, &file).unwrap());
    let kept: Value = serde_json::from_str(&stored(watched.world(), DEFAULT_TENANT, "r500").await.0).unwrap();
    assert_eq!(kept["version"], 2);

    // Another start reads them all, and changes nothing.
    let newest = "/api/v1/audit?told=true&limit=1";
    let before = watched.world().get(newest).await.ok().json();
    let watched = watched.restart(|_| ()).await;
    assert_eq!(watched.world().until(SHOWN, are_applied).await["filesRead"], 1_000);
    assert_eq!(watched.world().get(newest).await.ok().json()["items"], before["items"]);
    watched.stop().await;
}

#[tokio::test]
async fn without_a_folder_none_is_shown() {
    let world = World::start().await;
    let shown = world.get(SHOWN).await.ok().json();
    assert_eq!(shown, json!({"folder": null, "fault": null, "filesRead": 0, "files": [], "next": null}));
    world.stop().await;
}

#[test]
fn a_folder_that_cant_be_read_is_refused_at_the_start() {
    let around = tempfile::tempdir().unwrap();
    let watched = |path: &Path| {
        let text = format!("canaries:\n  folder: {}\n", path.display());
        Config::from_text(&text, "c.yml").unwrap().canaries.watched()
    };
    assert_eq!(watched(around.path()).unwrap().as_deref(), Some(around.path()));
    let fault = watched(&around.path().join("none")).unwrap_err();
    assert_eq!(fault.place, "canaries.folder");
    assert!(
        fault.message.contains("none can't be read: No such file")
            && fault.message.contains("make the folder"),
        "{fault:?}"
    );
    assert_eq!(Config::default().canaries.watched().unwrap(), None);
}
