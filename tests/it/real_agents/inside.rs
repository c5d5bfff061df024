//! Routers that a manager leads by itself, without an agent beside them.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, process::Command, sync::atomic::Ordering};

use agent::control::{client::Client, form::Status};
use proxy::control::{client::Client as ProxyClient, form::Status as ProxyStatus};
use serde_json::Value;

use super::{
    canaries::{canary, shop},
    routers::{strategy, two_stages},
    site::Site,
    users::{Backend, USERS, Users},
    wait::wait_until,
};
use crate::ports::free_port;

/// A manager that leads two routers, each of which takes calls at a port of its own address.
struct World {
    site: Site,
    routers: Vec<SocketAddr>,
    a: Backend,
    b: Backend,
}

const NAMES: [&str; 2] = ["edge-1", "edge-2"];

impl World {
    async fn start() -> Self {
        let port = free_port();
        let routers: Vec<SocketAddr> = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], port))).into();
        let site = Site::prepared(|folder| {
            let named = folder.join("routers");
            std::fs::create_dir_all(&named).unwrap();
            for (name, at) in NAMES.iter().zip(&routers) {
                let text =
                    format!("agent:\n  at: 52.52,13.405\n  labels: env=prod\nproxy:\n  listen: {at}\n");
                std::fs::write(named.join(format!("{name}.yml")), text).unwrap();
            }
            let data = folder.join("manager/data");
            vec![format!("routers.folder={}", named.display()), format!("serve.data={}", data.display())]
        });
        let site = site.await;
        site.manager.knows(2).await;
        Self { site, routers, a: Backend::start('A'), b: Backend::start('B') }
    }

    fn release(&self, id: &str, duration: &str) -> String {
        let port = self.routers[0].port();
        strategy(id, port, [("A", self.a.at), ("B", self.b.at)], &two_stages(duration))
    }

    fn folder(&self) -> std::path::PathBuf {
        self.site.folder().join("manager/data/routers")
    }

    async fn shares(&self, wanted: [u16; 2]) {
        for name in NAMES {
            let client = Client::new(self.folder().join(format!("{name}.sock")));
            wait_until(&format!("{name} shares {wanted:?}"), async || {
                let status: Option<Status> = client.get("/status").await.ok();
                let service = status.and_then(|status| status.services.into_iter().next());
                let shares: Option<Vec<u16>> =
                    service.map(|service| service.variations.iter().map(|one| one.share).collect());
                shares.is_some_and(|shares| shares == wanted)
            })
            .await;
            let proxy = ProxyClient::new(self.folder().join(format!("{name}-proxy.sock")));
            wait_until("its table is in force", async || {
                let status: Option<ProxyStatus> = proxy.get("/status").await.ok();
                status.is_some_and(|status| status.table.generation > 0)
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_in_the_managers_own_configuration_are_led_as_those_of_agents_are() {
    let mut world = World::start().await;
    let listed = world.site.manager.get("/api/v1/children").await.unwrap();
    let names: BTreeMap<&str, &str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| (child["id"].as_str().unwrap(), child["name"].as_str().unwrap()))
        .collect();
    assert_eq!(names, NAMES.map(|name| (name, name)).into(), "{listed:#}");

    world.site.manager.submit(&world.release("r", "600s")).await;
    world.shares([9_000, 1_000]).await;
    let users = Users::call(&world.routers);
    users.round().await;
    let before = users.of(0, 'B');
    assert_eq!(before, users.of(1, 'B'), "a user gets the same at either router");
    // What it led goes on without it, and it goes on with that.
    world.site.manager.kill();
    users.round().await;
    world.site.manager.come_back().await;
    world.shares([9_000, 1_000]).await;
    users.round().await;
    assert_eq!((&users.of(0, 'B'), &users.of(1, 'B')), (&before, &before), "nobody moves");
    world.site.manager.act("r", "abort").await;
    let ended = world.site.manager.ended("r").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    world.shares([10_000, 0]).await;

    world.site.manager.submit(&world.release("again", "500ms")).await;
    let ended = world.site.manager.ended("again").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.shares([0, 10_000]).await;
    users.round().await;
    let alone = world.a.calls.load(Ordering::Relaxed);
    users.round().await;
    assert_eq!(world.a.calls.load(Ordering::Relaxed), alone, "what was replaced gets no call");
    users.end().await;

    let shown = asked(&world.folder().join("edge-1.sock"));
    assert!(shown.contains("checkout") && shown.contains("edge-1"), "{shown}");
}

/// What a proxy was told of a service; `None`: it leads none of this name.
async fn told_of(proxy: &ProxyClient, service: &str) -> Option<String> {
    let table: Value = proxy.get("/table").await.unwrap();
    let services = table["services"].as_array().unwrap();
    Some(services.iter().find(|one| one["name"] == service)?.to_string())
}

/// Waits until a proxy gives the canary of a service so much, in units of 0.01 %.
async fn gives(proxy: &ProxyClient, service: &str, canary: u16) {
    wait_until(&format!("the canary of {service} gets {canary}"), async || {
        let status: Option<ProxyStatus> = proxy.get("/status").await.ok();
        let services = status.iter().flat_map(|status| &status.services);
        let mut variations = services.filter(|one| one.name == service).flat_map(|one| &one.variations);
        variations.find(|one| one.name == "canary").is_some_and(|one| one.share == canary)
    })
    .await;
}

/// Two that lead one proxy, each for the canaries of one release: otherwise the second of them would wait until the first is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_of_two_releases_go_on_next_to_each_other_at_one_proxy() {
    let ports = [free_port(), free_port()];
    let at = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let site = Site::prepared(|folder| {
        let named = folder.join("routers");
        std::fs::create_dir_all(&named).unwrap();
        let lead = |lane: &str, rest: String| {
            let control = folder.join("proxy.sock");
            let text = format!(
                "agent:\n  at: 52.52,13.405\n  labels: lane={lane}\nproxy:\n  control: {}\n{rest}",
                control.display()
            );
            std::fs::write(named.join(format!("{lane}.yml")), text).unwrap();
        };
        lead("one", format!("  listen: {}, {}\n", at[0], at[1]));
        lead("two", "  start: false\n".to_owned());
        let data = folder.join("manager/data");
        vec![format!("routers.folder={}", named.display()), format!("serve.data={}", data.display())]
    });
    let mut site = site.await;
    site.manager.knows(2).await;
    let (a, b) = (Backend::start('A'), Backend::start('B'));
    let first = |text: String| text.replace("env: prod", "lane: one");
    let second = |text: String| {
        text.replace("env: prod", "lane: two").replace("shop", "stall").replace("checkout", "till")
    };
    let proxy = ProxyClient::new(site.folder().join("proxy.sock"));
    site.manager.submit(&first(shop(ports[0], 1, &[a.at, b.at]))).await;
    site.manager.submit(&second(shop(ports[1], 1, &[a.at, b.at]))).await;
    site.manager.submit(&first(canary(ports[0], 2, 10, ""))).await;
    site.manager.submit(&second(canary(ports[1], 2, 20, ""))).await;
    gives(&proxy, "checkout", 1_000).await;
    gives(&proxy, "till", 2_000).await;

    let (of_first, of_second) = (Users::call(&at[..1]), Users::call(&at[1..]));
    of_first.round().await;
    // Each says anew what it leads when the manager comes back, and neither drops what is the other's.
    site.manager.kill();
    of_first.round().await;
    site.manager.come_back().await;
    let heavier = first(canary(ports[0], 2, 30, ""));
    let is_taken = async || site.manager.try_to_submit(&heavier).await.0 == 200;
    wait_until("its weight changes", is_taken).await;
    gives(&proxy, "checkout", 3_000).await;
    gives(&proxy, "till", 2_000).await;
    of_second.round().await;
    of_first.end().await;

    let till = told_of(&proxy, "till").await;
    assert!(till.is_some());
    site.manager.submit(&first(canary(ports[0], 2, 30, "Deprecated"))).await;
    let ended = site.manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    wait_until("its service is gone", async || told_of(&proxy, "checkout").await.is_none()).await;
    assert_eq!(told_of(&proxy, "till").await, till, "the other one goes on as it was");
    assert_eq!(site.manager.state("till-2").await.as_deref(), Some("Running"));

    site.manager.submit(&second(canary(ports[1], 2, 20, "Adopted"))).await;
    let ended = site.manager.ended("till-2").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    gives(&proxy, "till", 10_000).await;
    of_second.round().await;
    assert_eq!(of_second.of(0, 'B').len(), USERS);
    of_second.end().await;
}

/// What people are told of a router by the command for agents.
fn asked(control: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
    let shown = command.args(["agent", "status", "--control"]).arg(control).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8(shown.stdout).unwrap()
}

#[test]
fn a_file_that_cant_be_used_keeps_the_manager_from_starting_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("routers");
    std::fs::create_dir(&named).unwrap();
    for (file, text, why) in [
        ("edge.yml", "agent:\n  colour: blue\n", "router edge: "),
        ("Edge.yml", "", "a router is called by 1 to 32 of a-z, 0-9 and -, and its file NAME.yml"),
    ] {
        std::fs::write(named.join(file), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
        command.arg("--set").arg(format!("routers.folder={}", named.display()));
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        std::fs::remove_file(named.join(file)).unwrap();
    }
}

#[test]
fn what_no_two_may_do_is_refused_to_routers_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("routers");
    std::fs::create_dir(&named).unwrap();
    let control = std::path::absolute(folder.path()).unwrap().join("proxy.sock");
    let control = control.display();
    let of_one = format!("proxy:\n  control: {control}\n");
    // The same, as it is written by somebody else.
    let of_other = "proxy:\n  control: proxy.sock\n".to_owned();
    let (starts_none, takes_over) = ("  start: false\n", "takeover:\n  nftables: true\n");
    let shares = "takeover:\n  sockets: true\n";
    for (first, second, why) in [
        (
            of_one.clone(),
            of_other.clone(),
            format!(
                "the routers edge-1 and edge-2 lead one proxy, {control}, and each would start it: set proxy.start to false in all but one"
            ),
        ),
        (
            of_one.clone(),
            format!("{of_other}{starts_none}{takes_over}"),
            format!(
                "the router edge-2 would take calls over, and edge-1 starts its proxy, {control}, which has to be told of that: set \
                 takeover.nftables in edge-1"
            ),
        ),
        (
            of_one.clone(),
            format!("{of_other}{starts_none}{shares}"),
            format!(
                "the router edge-2 would take calls over, and edge-1 starts its proxy, {control}, which has to be told of that: set \
                 takeover.sockets in edge-1"
            ),
        ),
        (
            takes_over.to_owned(),
            takes_over.to_owned(),
            "the routers edge-1 and edge-2 would each take calls over by the same table of nftables: set takeover.nftables in one alone"
                .to_owned(),
        ),
    ] {
        for (name, text) in NAMES.iter().zip([first, second]) {
            std::fs::write(named.join(format!("{name}.yml")), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.current_dir(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
        command.arg("--set").arg(format!("routers.folder={}", named.display()));
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success(), "{said}");
        assert!(said.contains(&why), "{said}");
    }
}
