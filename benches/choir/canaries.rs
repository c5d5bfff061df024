//! How soon what is asked of a canary comes true: a change in a folder of manifests is commanded, and a weight is in force at a proxy. The
//! program itself is manager, agent and proxy.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use proxy::control::{client::Client as ProxyClient, form::Status};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    bodies,
    migration::{agent, ask, manager},
    ports::free_address,
    processes,
    rows::{Bench, PREPARATION, say},
    shared::figures::median,
    table::thousands,
};

/// Most of either.
const LIMIT_MS: f64 = 200.0;

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

/// The registered release with this number, with a service of its own and two versions of which nobody knows whether they are there.
fn release(number: usize, port: usize) -> String {
    format!(
        "kind: Release\nmetadata: {{name: r-{number}}}\nspec:\n  version: 1\n  versions:\n    - {{version: 1, targets: {{s-{number}: \
         [\"127.0.0.1:9101\"]}}}}\n    - {{version: 2, targets: {{s-{number}: [\"127.0.0.1:9111\"]}}}}\n  services: [{{name: s-{number}, \
         ports: [{{port: {port}}}]}}]\n"
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
            place(&manifests, &format!("r-{number}.yml"), &release(number, port(number)))?;
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
        let submit = async |manifest: String| {
            let request =
                http.post(format!("http://{at}/release")).header("content-type", "application/yaml");
            anyhow::Ok(request.body(manifest).send().await?.error_for_status()?.json::<Value>().await?)
        };
        let port = usize::from(listen.port());
        submit(release(0, port)).await?;
        let end = Instant::now() + PREPARATION;
        // While nobody can take part, the same manifest tries it again.
        while submit(canary(0, port, 10)).await?["participants"] != 1 {
            ensure!(Instant::now() < end, "the agent never came");
            sleep(Duration::from_millis(20)).await;
        }
        let proxy = ProxyClient::new(folder.join("router/proxy.sock"));
        let mut times = Vec::new();
        for round in 0..=WEIGHTS {
            let weight = if round == 0 { 10 } else { [30, 5, 100, 50, 20][round % 5] };
            let began = Instant::now();
            submit(canary(0, port, weight)).await?;
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
}
