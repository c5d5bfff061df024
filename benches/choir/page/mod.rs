//! The web page in a real browser with software graphics, over a fleet of the size of the other rows: how long until it says something, what it
//! loads for that, how smooth its map moves, and how soon it shows what happened to everybody. A general map library draws the same
//! children in the same browser.
//!
//! Browser, server and load share the processors.

mod clock;
mod library;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use model::MapState;
use serde_json::{Value, json};

use crate::{
    bodies::{self, Caller},
    browser::{Page, browse},
    fill,
    load::{self, HandOut, Work},
    rows::{Bench, PREPARATION, ready, say},
    server::Server,
    shared::figures::median,
    table::thousands,
};

/// Longest time to a first view, in seconds.
const FIRST_VIEW: f64 = 1.0;

/// Largest first view, without the data of a map, in KiB.
const FIRST_VIEW_KIB: f64 = 300.0;

/// Most of a map's data, in MB.
const MAP_MB: f64 = 1.2;

/// Longest frame while a map is moved, in milliseconds, where software draws.
const FRAME_MS: f64 = 100.0;

/// Longest time from the last of many changes to the picture with it, in seconds.
const CHANGES: f64 = 1.0;

/// Longest time to counts by cell of very many children, in seconds.
const COUNTS: f64 = 2.0;

/// Frames of a map that is moved.
const FRAMES: usize = 60;

/// Pages of which first views are measured.
const VIEWS: [(&str, &str); 6] = [
    ("the list of releases", "/ui/releases"),
    ("a release", "/ui/releases/gradual"),
    ("its children", "/ui/releases/gradual/children"),
    ("the tree", "/ui/tree"),
    ("the map of the fleet", "/ui/map"),
    ("the map of the release", MAP),
];

const MAP: &str = "/ui/releases/gradual/map";

impl Bench {
    pub async fn page(&mut self) -> anyhow::Result<()> {
        if let Ok(why) = std::env::var("CHOIR_BENCH_NO_BROWSER") {
            self.table.missing("the web page", &why);
            return Ok(());
        }
        say("the web page");
        let url = self.sqlite("page.db");
        let callers = fill::children(&url, self.sizes.children).await?;
        let mut server = ready(Server::ours(&url, None)?)?;
        server.submit()?;
        let at = |path: &str| format!("http://{}{path}", server.address);
        for (what, path) in VIEWS {
            self.first_view(what, &at(path)).await?;
        }
        let drawn = self.map(&at(MAP)).await?;
        self.library(&callers, &drawn).await?;
        self.changes(&at(MAP), &server, &callers).await?;
        server.stop()?;
        self.counts().await
    }

    /// A page that the browser has nothing of.
    async fn first_view(&mut self, what: &str, url: &str) -> anyhow::Result<()> {
        let (mut took, mut loaded) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds {
            let (seconds, kib) = browse(async |page| {
                clock::warm(page).await?;
                page.go(url).await;
                let seconds = clock::first_view(page).await?;
                anyhow::Ok((seconds, number(page, LOADED).await? / 1024.0))
            })
            .await?;
            took.push(seconds);
            loaded.push(kib);
        }
        let (seconds, kib) = (median(&took), median(&loaded));
        let of = thousands(self.sizes.children as f64);
        let what = format!("first view of {what}, {of} children");
        self.table.limit(&what, &format!("{:.0} ms", seconds * 1e3), seconds / FIRST_VIEW, "≤ 1 s");
        let found = format!("{kib:.0} KiB");
        self.table.limit(
            &format!("{what}: loaded"),
            &found,
            kib / FIRST_VIEW_KIB,
            "≤ 300 KiB before the map",
        );
        Ok(())
    }

    /// All children on a map.
    async fn map(&mut self, url: &str) -> anyhow::Result<Drawn> {
        let children = self.sizes.children;
        let (drawn, bytes) = browse(async |page| {
            clock::note_draws(page).await?;
            clock::warm(page).await?;
            page.go(url).await;
            let first = clock::drawn(page, children).await?;
            let frames = clock::frames(page, MOVE).await?;
            let bytes = number(page, DATA).await?;
            anyhow::Ok((Drawn { first, frames }, bytes))
        })
        .await?;
        let mb = bytes / 1e6;
        let what = format!("data of a map of {} children", thousands(children as f64));
        self.table.limit(&what, &format!("{mb:.2} MB"), mb / MAP_MB, "≤ 1.2 MB");
        let what = "a frame while that map is moved, drawn by software";
        let frame = median(&drawn.frames);
        self.table.limit(what, &drawn.text(), frame / FRAME_MS, "≤ 100 ms");
        Ok(drawn)
    }

    /// The library draws the same children, first gathered in clusters, as it does with many.
    async fn library(&mut self, callers: &[Caller], ours: &Drawn) -> anyhow::Result<()> {
        let Ok(folder) = std::env::var("CHOIR_BENCH_MAP_LIBRARY") else {
            self.table.missing("the map beside a general library", "npm is not installed, or gave none");
            return Ok(());
        };
        let children = callers.len();
        for (name, is_clustered) in [("clustered", true), ("each by itself", false)] {
            say(&format!("the map library, {name}"));
            let theirs = library::drawn(folder.as_ref(), callers, is_clustered).await?;
            let ratio = format!(
                "first picture {:.2}, frame {:.2}",
                ours.first / theirs.first,
                median(&ours.frames) / median(&theirs.frames)
            );
            let what = format!("a map of {} children", thousands(children as f64));
            let with = format!("MapLibre GL, {name}: {}", theirs.text());
            self.table.line(&what, &ours.text(), &with, &ratio, "", None);
        }
        Ok(())
    }

    /// Everybody fetches the release while somebody looks at its map.
    async fn changes(&mut self, url: &str, server: &Server, callers: &[Caller]) -> anyhow::Result<()> {
        say("changes on a map");
        let words = MapState::Doing.words();
        let told = format!("{} {words}", thousands(callers.len() as f64));
        let work = HandOut::new(Arc::new(bodies::polls(callers)), bodies::fetches(callers));
        let load = self.load(server, Work::HandOut(work), PREPARATION);
        let late = browse(async |page| {
            clock::note_draws(page).await?;
            page.go(url).await;
            clock::drawn(page, callers.len()).await?;
            clock::note_when_told(page, &told).await?;
            let loaded = tokio::task::spawn_blocking(move || (load::run(&load), clock::now_ms()));
            let (outcome, ended) = loaded.await?;
            let fetched = outcome?.fetch_latency.len();
            anyhow::ensure!(fetched == callers.len() as u64, "only {fetched} children have fetched");
            anyhow::Ok(Duration::from_secs_f64((clock::told_ms(page).await? - ended).max(0.0) / 1e3))
        })
        .await?;
        let what =
            format!("{} changes of state on an open map, from the last one", thousands(callers.len() as f64));
        let seconds = late.as_secs_f64();
        self.table.limit(&what, &format!("painted after {seconds:.2} s"), seconds / CHANGES, "≤ 1 s");
        Ok(())
    }

    /// More children than are drawn.
    async fn counts(&mut self) -> anyhow::Result<()> {
        let count = self.sizes.start_children;
        say(&format!("a map of {count} children"));
        let url = self.sqlite("page-counts.db");
        fill::children(&url, count).await?;
        let server = ready(Server::ours(&url, None)?)?;
        let map = format!("http://{}/ui/map", server.address);
        let told = format!("'{} '", thousands(count as f64));
        let mut took = Vec::new();
        for _ in 0..self.sizes.rounds {
            took.push(
                browse(async |page| {
                    clock::warm(page).await?;
                    page.go(&map).await;
                    page.holds(&format!(
                        "document.querySelector('.map-told')?.textContent.startsWith({told})"
                    ))
                    .await;
                    number(page, "performance.now() / 1e3").await
                })
                .await?,
            );
        }
        server.stop()?;
        let seconds = median(&took);
        let what = format!("counts by cell of {} children, by the script", thousands(count as f64));
        self.table.limit(&what, &format!("{seconds:.2} s"), seconds / COUNTS, "≤ 2 s");
        Ok(())
    }
}

/// What a map came to.
#[derive(Debug)]
pub struct Drawn {
    /// From the navigation to a picture with all children, in seconds.
    pub first: f64,
    /// While it was moved, in milliseconds.
    pub frames: Vec<f64>,
}

impl Drawn {
    fn text(&self) -> String {
        let mut sorted = self.frames.clone();
        sorted.sort_by(f64::total_cmp);
        let longest = sorted.last().copied().unwrap_or(f64::NAN);
        let middle = median(&sorted);
        format!("first picture {:.2} s, a frame {middle:.0} ms, at most {longest:.0} ms", self.first)
    }
}

/// Moves our map once.
const MOVE: &str = "() => document.querySelector('.map-stage').dispatchEvent(\
    new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true, cancelable: true }))";

/// Bytes over the line of the page and all that it loaded, but for the data of a map.
const LOADED: &str = "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource')\
    .filter(({ name }) => !/\\/land-|\\/api\\//.test(name))).reduce((sum, { transferSize }) => sum + transferSize, 0)";

/// Bytes over the line of the data of a map.
const DATA: &str = "performance.getEntriesByType('resource').filter(({ name }) => /\\/land-|\\/map$/.test(name))\
    .reduce((sum, { transferSize }) => sum + transferSize, 0)";

/// What an expression comes to.
async fn number(page: &Page, expression: &str) -> anyhow::Result<f64> {
    let value = page.evaluate(expression).await.map_err(anyhow::Error::msg)?;
    value.as_f64().with_context(|| format!("{expression}: {value}"))
}

/// What a promise comes to.
async fn promised(page: &Page, expression: &str) -> anyhow::Result<Value> {
    page.promised(expression).await.map_err(anyhow::Error::msg)
}

/// Runs in each document that the page goes to from now on, before anything else does.
async fn beforehand(page: &Page, script: &str) -> anyhow::Result<()> {
    let command = "Page.addScriptToEvaluateOnNewDocument";
    page.cdp(command, json!({"source": script})).await.map_err(anyhow::Error::msg)?;
    Ok(())
}
