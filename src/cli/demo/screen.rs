//! How the demo shows what goes on, and the course of one release.

use std::{io::Write, time::Duration};

use reqwest::{Method, header::CONTENT_TYPE};
use tokio::time::{Instant, sleep};

use super::RELEASE_LIMIT;
use crate::{
    cli::{client::Client, failure::Failure, outcome, release::line, show},
    wire::api::{Counts, Release, ReleaseDetail, Submitted},
};

/// Between two looks at a release.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A release that is over, or was given up.
#[derive(Debug, Clone)]
pub struct Ended {
    pub id: String,
    pub state: String,
    pub counts: Counts,
    /// Children that run the new versions of all its functions.
    pub new_at: usize,
    /// Children that run the base versions of all its functions.
    pub base_at: usize,
    pub took: Duration,
    /// What it should have come to, if it came to something else.
    pub wrong: Option<String>,
}

/// Where progress is written: on a terminal one line over and over, else only what changes.
#[derive(Debug)]
pub struct Screen {
    live: bool,
    line: String,
}

impl Screen {
    pub fn new(live: bool) -> Self {
        Self { live, line: String::new() }
    }

    /// Writes a line of progress, if it is another than the last one.
    pub fn show(&mut self, text: &str, out: &mut impl Write) -> Result<(), Failure> {
        if text == self.line {
            return Ok(());
        }
        text.clone_into(&mut self.line);
        if self.live {
            let width = crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width));
            write!(out, "\r\x1b[K    {}", show::cut(text, width.saturating_sub(5)))?;
        } else {
            writeln!(out, "    {text}")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Lets the line stand.
    pub fn keep(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        self.line.clear();
        if self.live {
            writeln!(out)?;
        }
        Ok(())
    }

    /// Submits a release and shows it until it is over, or for as long as one may take. `running` is the number of
    /// children that run a new version.
    pub async fn follow(
        &mut self,
        client: &Client,
        text: &'static str,
        running: impl Fn() -> usize,
        out: &mut impl Write,
    ) -> Result<(Release, Duration), Failure> {
        let started = Instant::now();
        let request = client
            .request(Method::POST, &["release"])
            .query(&[("by", "demo")])
            .header(CONTENT_TYPE, "application/x-yaml")
            .body(text);
        let submitted: Submitted = client.post(request).await?;
        let path = ["api", "v1", "releases", &submitted.id];
        loop {
            let detail: ReleaseDetail = client.get(&path, &[]).await?;
            // What the children say themselves lags behind, and is shown at the end once it has come.
            if outcome::code(&detail.release).is_some() || started.elapsed() > RELEASE_LIMIT {
                return Ok((detail.release, started.elapsed()));
            }
            self.show(&progress(&detail.release, running()), out)?;
            sleep(LOOK_EVERY).await;
        }
    }

    /// The last line of a release.
    pub fn ended(
        &mut self,
        release: &Release,
        new_at: usize,
        base_at: usize,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let text =
            format!("{}; the new version runs at {new_at}, the base version at {base_at}", line(release));
        self.show(&text, out)?;
        self.keep(out)
    }
}

/// So much that it can be followed; why each child waits is what `release watch` is for.
fn progress(release: &Release, running: usize) -> String {
    let Counts { participants, todo, doing, done, failed_status, .. } = release.counts;
    format!(
        "{}: {} of {participants} over, {doing} at work, {todo} to begin; the new version runs at {running}",
        release.state,
        done + failed_status
    )
}
