//! How soon what is asked of a canary comes true: a change in a folder of manifests is commanded, and a weight is in force at a proxy. And how
//! much longer a call takes to a port that is taken over. The program itself is manager, agent and proxy.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use proxy::control::{client::Client as ProxyClient, form::Status};
use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Sizes,
    bodies::{self, Caller},
    load::{self, Connection, Cursor, Load, Work},
    migration::{agent, ask, manager},
    ports::free_address,
    processes,
    rows::{Bench, PREPARATION, say},
    server::Server,
    shared::figures::{median, paired},
    table::{ratio, thousands},
};

/// Most of what is asked for.
const LIMIT_MS: f64 = 200.0;

/// Most that is added to a call to a port that is taken over.
const ADDED_MS: f64 = 0.1;

/// What the hidden argument names for calls to such a port: rules of the kernel hold for a whole network, so they are made in one of their own.
pub const TAKEN_OVER: &str = "taken-over";

/// Runs what follows in a network of its own, in which there is a loopback interface, and nft, which is where only root looks.
const OWN_NETWORK: [&str; 6] = ["--map-root-user", "--net", "--", "sh", "-c", UP];
const UP: &str =
    "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && nft list ruleset >/dev/null && exec \"$@\"";

/// Changes in the folder, and of the weight, that are measured.
const CHANGES: usize = 50;
const WEIGHTS: usize = 15;

/// An agent asks once a second at most whether there is news of its stage, and then waits for it. Nobody changes a weight more often.
const REST: Duration = Duration::from_millis(1_500);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Where services of played routers are. Nobody listens there.
const FIRST_PORT: usize = 20_000;

/// Ends all that has to do with a folder. A proxy outlives its agent.
struct Ends(PathBuf);

impl Drop for Ends {
    fn drop(&mut self) {
        processes::end_all(&self.0);
    }
}

/// Two versions of which nobody knows whether they are there.
const NOBODY: [&str; 2] = ["127.0.0.1:9101", "127.0.0.1:9111"];

/// The registered release with this number, with a service of its own and two versions.
fn release(number: usize, port: usize, [one, two]: [&str; 2]) -> String {
    format!(
        "kind: Release\nmetadata: {{name: r-{number}}}\nspec:\n  version: 1\n  versions:\n    - {{version: 1, targets: {{s-{number}: \
         [\"{one}\"]}}}}\n    - {{version: 2, targets: {{s-{number}: [\"{two}\"]}}}}\n  services: [{{name: s-{number}, ports: [{{port: \
         {port}}}]}}]\n"
    )
}

/// Its canary.
fn canary(number: usize, port: usize, weight: usize) -> String {
    format!(
        "kind: CanaryRelease\nmetadata: {{name: c-{number}}}\nspec:\n  release: r-{number}\n  version: 2\n  services: [{{service: \
         s-{number}, ports: [{{port: {port}, config: {{weight: {weight}}}}}]}}]\n"
    )
}

/// A folder of its own for what is measured.
fn folder_of(bench: &Bench, name: &str) -> anyhow::Result<PathBuf> {
    let folder = bench.folder.join(name);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// A router that takes part in all of it and does nothing: it has the first canary in hand, and the others wait for it.
async fn register_router(http: &Client, manager: SocketAddr) -> anyhow::Result<()> {
    let area: Value = serde_json::from_str(&bodies::area(0))?;
    let mut id = String::new();
    // With the second call it is there to stay.
    for _ in 0..2 {
        let poll = json!({
            "id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent",
            "capabilities": {"leads": "whole", "routers": ["embedded"], "features": ["shares"]},
        });
        let answer = http.post(format!("http://{manager}/poll")).json(&poll).send().await?;
        let answer: Value = answer.error_for_status()?.json().await?;
        answer["id"].as_str().context("a router has an id")?.clone_into(&mut id);
    }
    Ok(())
}

/// Puts a manifest into the folder as a whole.
fn place(manifests: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    let passing = manifests.join(".placed");
    fs::write(&passing, text)?;
    Ok(fs::rename(passing, manifests.join(file))?)
}

/// How many files of the folder are applied.
async fn applied(http: &Client, manager: SocketAddr) -> anyhow::Result<usize> {
    let (mut count, mut after) = (0, String::new());
    loop {
        let shown = ask(http, manager, &format!("/canary-releases/folder?limit=1000&after={after}")).await?;
        let files = shown["files"].as_array().context("files")?;
        if let Some(faulty) = files.iter().find(|file| file["state"] == "faulty") {
            anyhow::bail!("a manifest is refused: {faulty}");
        }
        count += files.iter().filter(|file| file["state"] == "applied").count();
        match shown["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => return Ok(count),
        }
    }
}

/// The share of the canary in the table of a proxy, in percent.
async fn weight_in_force(proxy: &ProxyClient) -> Option<usize> {
    let status: Status = proxy.get("/status").await.ok()?;
    let service = status.services.into_iter().find(|service| service.name == "s-0")?;
    let canary = service.variations.into_iter().find(|variation| variation.name == "canary")?;
    Some(usize::from(canary.share) / 100)
}

/// Submits a manifest.
async fn submit(http: &Client, manager: SocketAddr, manifest: String) -> anyhow::Result<Value> {
    let request = http.post(format!("http://{manager}/release")).header("content-type", "application/yaml");
    Ok(request.body(manifest).send().await?.error_for_status()?.json().await?)
}

fn worst(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

impl Bench {
    /// One file of many is written.
    pub async fn canary_folder(&mut self) -> anyhow::Result<()> {
        let count = self.sizes.canaries;
        say(&format!("a folder with {count} canaries"));
        let folder = folder_of(self, "canary-folder")?;
        let manifests = folder.join("manifests");
        fs::create_dir(&manifests)?;
        let watched = format!("canaries.folder={}", manifests.display());
        let (_manager, at) = manager(&folder, &[&watched, "limits.max_open_releases=10000"])?;
        let http = Client::builder().no_proxy().build()?;
        register_router(&http, at).await?;
        let port = |number: usize| FIRST_PORT + number;
        for number in 0..count {
            place(&manifests, &format!("r-{number}.yml"), &release(number, port(number), NOBODY))?;
            place(&manifests, &format!("c-{number}.yml"), &canary(number, port(number), 10))?;
        }
        let end = Instant::now() + PREPARATION;
        while applied(&http, at).await? < 2 * count {
            ensure!(Instant::now() < end, "the folder was never applied");
            sleep(Duration::from_millis(100)).await;
        }
        let mut times = Vec::new();
        for round in 0..=CHANGES {
            let (number, weight) = (round * 37 % count, 11 + round);
            let began = Instant::now();
            // In place, as an editor may: it is read once that was quiet for a moment.
            fs::write(manifests.join(format!("c-{number}.yml")), canary(number, port(number), weight))?;
            let path = format!("/canary-releases/c-{number}");
            while ask(&http, at, &path).await?["status"]["weight"].as_f64() != Some(weight as f64) {
                ensure!(Instant::now() < end, "c-{number} never gets {weight} %");
                sleep(LOOK).await;
            }
            // The first one fills caches.
            if round > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        let (median, worst) = (median(&times), worst(&times));
        self.table.line(
            &format!(
                "a file of a folder with {} canaries is written, and its weight is commanded",
                thousands(count as f64)
            ),
            &format!("{median:.0} ms, at worst {worst:.0} ms"),
            "",
            "",
            &format!("≤ {LIMIT_MS:.0} ms at worst"),
            Some(worst <= LIMIT_MS),
        );
        Ok(())
    }

    /// From the submission until the proxy says so.
    pub async fn canary_weight(&mut self) -> anyhow::Result<()> {
        say("another weight for a canary");
        let folder = folder_of(self, "canary-weight")?;
        // In this order: what was started here ends before all that is left of it.
        let _ends = Ends(folder.clone());
        let (_manager, at) = manager(&folder, &[])?;
        let listen = free_address();
        let _agent = agent(&folder, "router", at, &["--listen", &listen.to_string()])?;
        let http = Client::builder().no_proxy().build()?;
        let port = usize::from(listen.port());
        submit(&http, at, release(0, port, NOBODY)).await?;
        let end = Instant::now() + PREPARATION;
        // While nobody can take part, the same manifest tries it again.
        while submit(&http, at, canary(0, port, 10)).await?["participants"] != 1 {
            ensure!(Instant::now() < end, "the agent never came");
            sleep(Duration::from_millis(20)).await;
        }
        let proxy = ProxyClient::new(folder.join("router/proxy.sock"));
        let mut times = Vec::new();
        for round in 0..=WEIGHTS {
            let weight = if round == 0 { 10 } else { [30, 5, 100, 50, 20][round % 5] };
            let began = Instant::now();
            submit(&http, at, canary(0, port, weight)).await?;
            while weight_in_force(&proxy).await != Some(weight) {
                ensure!(Instant::now() < end, "{weight} % are never in force");
                sleep(LOOK).await;
            }
            // With the first one the canary begins.
            if round > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            sleep(REST).await;
        }
        let (median, worst) = (median(&times), worst(&times));
        self.table.line(
            "another weight of a canary, from its submission until the proxy is read back",
            &format!("{median:.0} ms, at worst {worst:.0} ms"),
            "",
            "",
            &format!("≤ {LIMIT_MS:.0} ms"),
            Some(median <= LIMIT_MS),
        );
        Ok(())
    }

    /// One call after the other over one connection: to a program whose port is taken over, and to the same program at another one.
    pub fn canary_takeover(&mut self) -> anyhow::Result<()> {
        say("calls to a port that is taken over");
        let what = "a call to a port that is taken over";
        let own_network = || {
            let mut command = Command::new("unshare");
            command.args(OWN_NETWORK).arg("sh").stdin(Stdio::null()).stdout(Stdio::piped());
            command
        };
        let tried = own_network().arg("true").stderr(Stdio::piped()).output();
        match tried {
            Ok(tried) if tried.status.success() => {}
            Ok(tried) => {
                let said = String::from_utf8_lossy(&tried.stderr);
                self.table.missing(what, said.lines().next().unwrap_or("no network of its own can be made"));
                return Ok(());
            }
            Err(error) => {
                self.table.missing(what, &format!("unshare: {error}"));
                return Ok(());
            }
        }
        let Sizes { round, rounds, .. } = &self.sizes;
        let mut command = own_network();
        command.arg(std::env::current_exe()?).args(["--serve", TAKEN_OVER]);
        command.args(["--seconds", &round.as_secs().to_string(), "--rounds", &rounds.to_string()]);
        let told = command.stderr(Stdio::inherit()).output().context("the calls were not made")?;
        ensure!(told.status.success(), "the calls ended with {}", told.status);
        let Calls { straight, taken_over } = serde_json::from_slice(&told.stdout)?;
        let ms = |us: f64| us / 1e3;
        let added = ms(paired(&taken_over, &straight, |ours, theirs| ours - theirs));
        self.table.line(
            what,
            &format!("{:.3} ms", ms(median(&taken_over))),
            &format!("straight to it: {:.3} ms", ms(median(&straight))),
            &format!("**{:.2}**, {added:.3} ms more", ratio(&taken_over, &straight)),
            &format!("≤ {ADDED_MS} ms more"),
            Some(added <= ADDED_MS),
        );
        Ok(())
    }
}

/// How long calls took: medians of rounds that alternated, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Calls {
    straight: Vec<f64>,
    taken_over: Vec<f64>,
}

/// Makes the calls in this network, which has nothing else in it, and writes down how long they took.
pub async fn taken_over(sizes: &Sizes) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("choir-bench-").tempdir()?;
    // In this order: what was started here ends before all that is left of it, and that before its folder.
    let _ends = Ends(folder.path().to_owned());
    let (called, beside) = (Server::bare(None)?, Server::bare(None)?);
    let (_manager, at) = manager(folder.path(), &[])?;
    let more = ["--listen", "127.0.0.1:0", "--set", "takeover.nftables=true"];
    let _agent = agent(folder.path(), "router", at, &more)?;
    let http = Client::builder().no_proxy().build()?;
    let port = usize::from(called.address.port());
    let targets = [called.address, beside.address].map(|at| at.to_string());
    submit(&http, at, release(0, port, [&targets[0], &targets[1]])).await?;
    let end = Instant::now() + PREPARATION;
    // Before the agent has said what it may take over, the manager refuses it.
    while !submit(&http, at, canary(0, port, 0)).await.is_ok_and(|answer| answer["participants"] == 1) {
        ensure!(Instant::now() < end, "the agent can't take the port over");
        sleep(Duration::from_millis(20)).await;
    }
    let proxy = ProxyClient::new(folder.path().join("router/proxy.sock"));
    loop {
        // Held until it was looked who has it.
        let _probe = Connection::open(called.address).await?;
        sleep(Duration::from_millis(20)).await;
        let status: Option<Status> = proxy.get("/status").await.ok();
        if status.is_some_and(|status| status.connections > 0) {
            break;
        }
        ensure!(Instant::now() < end, "no call is ever taken over");
    }
    let requests = Arc::new(bodies::polls(&[Caller { index: 0, id: bodies::child_id(0) }]));
    let round = |server: &Server, limit: Duration| {
        let work = Work::Each { requests: Arc::clone(&requests), cursor: Cursor::wrapping(requests.len()) };
        let outcome = load::run(&Load { address: server.address, connections: 1, threads: 1, work, limit })?;
        anyhow::Ok(outcome.latency.value_at_quantile(0.5) as f64)
    };
    for server in [&called, &beside] {
        round(server, sizes.round / 3)?;
    }
    let mut calls = Calls { straight: Vec::new(), taken_over: Vec::new() };
    for _ in 0..sizes.rounds {
        calls.taken_over.push(round(&called, sizes.round)?);
        calls.straight.push(round(&beside, sizes.round)?);
    }
    println!("{}", serde_json::to_string(&calls)?);
    Ok(())
}
