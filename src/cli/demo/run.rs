//! The samples, one after the other.

use std::{io::Write, time::Duration};

use reqwest::{Method, header::CONTENT_TYPE};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    AGENTS, RELEASE_LIMIT,
    samples::{Expected, SAMPLES, Sample},
};
use crate::{
    cli::{client::Client, failure::Failure, outcome, release::line, show},
    fleet::Progress,
    strategy::Strategy,
    wire::api::{Child, Counts, Deployment, ReleaseDetail, Submitted},
};

/// Between two looks at a release.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The children tell once a second what they run; this long is waited for what they should have come to run.
const CHILDREN_LIMIT: Duration = Duration::from_secs(10);

/// Children that call for the first time have this long.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);

/// A release that is over, or was given up.
#[derive(Debug, Clone)]
pub struct Ended {
    pub id: String,
    pub state: String,
    pub counts: Counts,
    /// Children that run the new versions of all its functions, as the manager knows.
    pub new_at: usize,
    /// Children that run the base versions of all its functions.
    pub base_at: usize,
    /// Simulated children that say themselves that they run a new version of something.
    pub rolled_out: usize,
    pub took: Duration,
    expected: Expected,
}

impl Ended {
    pub fn as_expected(&self) -> bool {
        let all = AGENTS as u32;
        match self.expected {
            Expected::RolledOut => {
                self.state == "Done"
                    && self.counts.succeeded == all
                    && self.new_at == AGENTS
                    && self.rolled_out == AGENTS
            }
            Expected::RolledBack => {
                self.state == "DoneWithFailures"
                    && self.counts.failed == all
                    && self.base_at == AGENTS
                    && self.rolled_out == 0
            }
        }
    }

    /// What it should have come to.
    pub fn why_not(&self) -> String {
        let expected = match self.expected {
            Expected::RolledOut => "rolled out",
            Expected::RolledBack => "failed and rolled back",
        };
        format!(
            "NOT AS IT SHOULD: {expected} at all {AGENTS}, {} children run a new version",
            self.rolled_out
        )
    }
}

/// Where the demo takes place.
pub struct Stage<'a> {
    client: &'a Client,
    children: watch::Receiver<Progress>,
    /// On a terminal one line is written over and over; else only changes are.
    live: bool,
    line: String,
}

impl<'a> Stage<'a> {
    pub fn new(client: &'a Client, children: watch::Receiver<Progress>, live: bool) -> Self {
        Self { client, children, live, line: String::new() }
    }

    /// Waits for the children, then plays every sample.
    pub async fn all(&mut self, out: &mut impl Write) -> Result<Vec<Ended>, Failure> {
        self.wait_for_children(out).await?;
        let mut ended = Vec::new();
        for (index, sample) in SAMPLES.iter().enumerate() {
            let Some(strategy) = sample.strategy() else {
                return Err(Failure::ours(format!("the sample {} is faulty", sample.file)));
            };
            let purpose = match sample.expected {
                Expected::RolledOut => "",
                Expected::RolledBack => " (bad on purpose: it must fail)",
            };
            writeln!(
                out,
                "{}/{} {}: {}{purpose}",
                index + 1,
                SAMPLES.len(),
                strategy.id.as_str(),
                strategy.name
            )?;
            ended.push(self.play(sample, &strategy, out).await?);
        }
        Ok(ended)
    }

    async fn wait_for_children(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let (children, _): (Vec<Child>, bool) =
                self.client.list(&["api", "v1", "children"], &[], AGENTS).await?;
            self.show(&format!("{} of {AGENTS} children have registered", children.len()), out)?;
            if children.len() >= AGENTS {
                return self.keep(out);
            }
            if started.elapsed() > ARRIVAL_LIMIT {
                return Err(Failure::ours("the simulated children did not all register"));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn play(
        &mut self,
        sample: &Sample,
        strategy: &Strategy,
        out: &mut impl Write,
    ) -> Result<Ended, Failure> {
        let started = Instant::now();
        let request = self
            .client
            .request(Method::POST, &["release"])
            .query(&[("by", "demo")])
            .header(CONTENT_TYPE, "application/x-yaml")
            .body(sample.text);
        let submitted: Submitted = self.client.post(request).await?;
        let path = ["api", "v1", "releases", &submitted.id];
        let release = loop {
            let detail: ReleaseDetail = self.client.get(&path, &[]).await?;
            let runs = show::counted(self.children.borrow().rolled_out as u64, "child runs", "children run");
            self.show(&format!("{}; {runs} a new version", line(&detail.release)), out)?;
            if outcome::code(&detail.release).is_some() || started.elapsed() > RELEASE_LIMIT {
                break detail.release;
            }
            sleep(LOOK_EVERY).await;
        };
        let took = started.elapsed();
        let (new_at, base_at) = self.deployed(strategy).await?;
        let expected = sample.expected;
        let rolled_out = self.children_settle(expected).await;
        self.show(&format!("{}; new version at {new_at}, base version at {base_at}", line(&release)), out)?;
        self.keep(out)?;
        let (state, counts) = (release.state, release.counts);
        Ok(Ended { id: submitted.id, state, counts, new_at, base_at, rolled_out, took, expected })
    }

    /// Children that run the new versions of every function of the strategy, and those that run the base versions.
    async fn deployed(&self, strategy: &Strategy) -> Result<(usize, usize), Failure> {
        let (mut new_at, mut base_at) = (AGENTS, AGENTS);
        for function in &strategy.functions {
            let (found, _): (Vec<Deployment>, bool) = self
                .client
                .list(&["api", "v1", "deployments"], &[("function", &function.name)], 2 * AGENTS)
                .await?;
            let at = |variant: &str, path: &str| {
                found.iter().filter(|d| d.variant == variant && d.path == path).count()
            };
            new_at = new_at.min(at("new", &function.new.path));
            base_at = base_at.min(at("base", &function.base.path));
        }
        Ok((new_at, base_at))
    }

    /// What the children themselves say, once it is what it should be or they had time enough.
    async fn children_settle(&mut self, expected: Expected) -> usize {
        let wanted = if expected == Expected::RolledOut { AGENTS } else { 0 };
        let settled = self.children.wait_for(|progress| progress.rolled_out == wanted);
        // Neither a children's task that is gone nor the end of patience changes what they said last.
        let _ = tokio::time::timeout(CHILDREN_LIMIT, settled).await;
        self.children.borrow().rolled_out
    }

    /// Writes a line of progress, if it is another than the last one.
    fn show(&mut self, text: &str, out: &mut impl Write) -> Result<(), Failure> {
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
    fn keep(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        self.line.clear();
        if self.live {
            writeln!(out)?;
        }
        Ok(())
    }
}
