//! The samples, one after the other.

use std::{io::Write, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    limits::CHILDREN_LIMIT,
    samples::{Expected, SAMPLES, Sample},
    screen::{FinishedRelease, LOOK_EVERY, Screen},
};
use crate::cli::{client::Client, failure::Failure};
use language::Strategy;
use protocol::api::{Child, Deployment, Release};
use simulated_children::Progress;

/// Children of the demo.
pub const AGENTS: usize = 20;

/// Children that call for the first time have this long.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(20);

/// Where the demo takes place.
pub struct Stage<'a> {
    client: &'a Client,
    children: watch::Receiver<Progress>,
    screen: Screen,
}

impl<'a> Stage<'a> {
    pub fn new(client: &'a Client, children: watch::Receiver<Progress>, live: bool) -> Self {
        Self { client, children, screen: Screen::new(live) }
    }

    /// Waits for the children, then plays every sample.
    pub async fn all(&mut self, out: &mut impl Write) -> Result<Vec<FinishedRelease>, Failure> {
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
            self.screen.show(&format!("{} of {AGENTS} children have registered", children.len()), out)?;
            if children.len() >= AGENTS {
                return self.screen.keep(out);
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
    ) -> Result<FinishedRelease, Failure> {
        let children = self.children.clone();
        let running = || children.borrow().rolled_out;
        let (release, took) = self.screen.follow(self.client, sample.text, running, out).await?;
        let (new_at, base_at) = self.deployed(strategy).await?;
        let rolled_out = self.children_settle(sample.expected).await;
        self.screen.ended(&release, new_at, base_at, out)?;
        let wrong = wrong(sample.expected, &release, new_at, base_at, rolled_out);
        Ok(FinishedRelease::of(release, (new_at, base_at), took, wrong))
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
        // Neither a children's task that is gone nor the end of the time limit changes what they said last.
        let _ = tokio::time::timeout(CHILDREN_LIMIT, settled).await;
        self.children.borrow().rolled_out
    }
}

/// What a release should have come to, if it came to something else. What the children say themselves counts too.
fn wrong(
    expected: Expected,
    release: &Release,
    new_at: usize,
    base_at: usize,
    rolled_out: usize,
) -> Option<String> {
    let (counts, all) = (&release.counts, AGENTS as u32);
    let (as_expected, wanted) = match expected {
        Expected::RolledOut => (
            release.state == "Done" && counts.succeeded == all && new_at == AGENTS && rolled_out == AGENTS,
            "rolled out",
        ),
        Expected::RolledBack => (
            release.state == "DoneWithFailures"
                && counts.failed == all
                && base_at == AGENTS
                && rolled_out == 0,
            "failed and rolled back",
        ),
    };
    let text =
        || format!("NOT AS IT SHOULD: {wanted} at all {AGENTS}, {rolled_out} children run a new version");
    (!as_expected).then(text)
}
