//! How the demo shows what goes on, and the course of one release.

use std::{io::Write, time::Duration};

use reqwest::{Method, header::CONTENT_TYPE};
use tokio::time::{Instant, sleep};

use super::limits::RELEASE_LIMIT;
use crate::cli::{client::Client, failure::Failure, outcome, show};
use protocol::api::{Ending, Release, ReleaseCounts, ReleaseDetail, Submitted};

/// Between two looks at a release.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Longest text that somebody else chose, in characters.
const WIDTH: usize = 70;

/// A release that is over, or was given up.
#[derive(Debug, Clone)]
pub struct FinishedRelease {
    pub id: String,
    pub state: String,
    /// Children that succeeded and that failed, wherever they are in the tree.
    pub succeeded: u32,
    pub failed: u32,
    /// Children that run the new versions of all its functions.
    pub new_at: usize,
    /// Children that run the base versions of all its functions.
    pub base_at: usize,
    pub took: Duration,
    /// What it should have come to, if it came to something else.
    pub wrong: Option<String>,
}

impl FinishedRelease {
    pub fn of(
        release: Release,
        (new_at, base_at): (usize, usize),
        took: Duration,
        wrong: Option<String>,
    ) -> Self {
        let (succeeded, failed) = results(&release);
        Self { id: release.id, state: release.state, succeeded, failed, new_at, base_at, took, wrong }
    }
}

/// How many succeeded and failed: of agents, where some are below managers.
fn results(release: &Release) -> (u32, u32) {
    match &release.agents {
        Some(agents) => (agents.succeeded, agents.failed),
        None => (release.counts.succeeded, release.counts.failed),
    }
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
        text: &str,
        running: impl Fn() -> usize,
        out: &mut impl Write,
    ) -> Result<(Release, Duration), Failure> {
        let started = Instant::now();
        let request = client
            .request(Method::POST, &["release"])
            .query(&[("by", "demo")])
            .header(CONTENT_TYPE, "application/x-yaml")
            .body(text.to_owned());
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
        let (succeeded, failed) = results(release);
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let text = format!(
            "{}: {succeeded} succeeded{failed}; {new_at} run the new version, {base_at} the base",
            release.state
        );
        self.show(&text, out)?;
        self.keep(out)?;
        if let Some(why) = &release.why {
            writeln!(out, "      {}", first_fault(why))?;
        }
        Ok(())
    }
}

/// Whose failure it was, without the managers on the way there: short enough for one line.
fn first_fault(why: &Ending) -> String {
    let child = why.child.as_deref().and_then(|path| path.rsplit(": ").next());
    let stage = why.stage.as_deref();
    let text = match child.zip(stage) {
        Some((child, stage)) => format!(
            "{} in stage {}: {}",
            show::short_id(child),
            show::one_line(stage),
            show::one_line(why.numbers.as_deref().unwrap_or("failed"))
        ),
        None => show::short_ids(&show::one_line(&why.text)),
    };
    show::cut(&text, WIDTH)
}

/// So much that it can be followed; why each child waits is what `release watch` is for.
fn progress(release: &Release, running: usize) -> String {
    let state = &release.state;
    if let Some(agents) = &release.agents {
        return format!("{state}: {running} of {} run the new version", agents.participants);
    }
    if release.counts.participants == 0 {
        return state.clone();
    }
    let ReleaseCounts { todo, doing, done, failed_status, .. } = release.counts;
    format!(
        "{state}: {todo} to begin, {doing} at work, {} over; {running} run the new version",
        done + failed_status
    )
}
