//! The statistics of a verdict at scale, and scipy's Mann–Whitney test beside it on the same values.
//! And what it takes to find a change, beside the fewest calls there can be (`sequential`).
//!
//! scipy answers U and p only: an estimate with an interval it has none for samples of this size.

use std::{
    fs,
    hint::black_box,
    path::Path,
    process::{Command, Stdio},
};

use analysis::{Design, Histogram, Judgement, Occasion, Sample, Stratum, Tolerance, Verdict};
use anyhow::{Context as _, bail};
use tokio::time::Instant;

use crate::{
    rows::{Bench, say},
    sequential::{self, Needed},
    shared::figures::median,
    table::thousands,
};

/// What each of the two must stay below, in milliseconds.
const LIMIT_MS: f64 = 1_000.0;

/// Rounds of each side.
const ROUNDS: usize = 3;

/// Children whose histograms are merged, and the buckets each of them has.
const CHILDREN: usize = 10_000;
const VALUES_OF_A_CHILD: usize = 200;

/// How many times as long calls take of the version that is to be found, and how often the calls of a test that is told so ours may
/// need.
const CHANGES: [(f64, f64); 2] = [(1.2, 1.3), (2.0, 1.4)];

/// Reads both samples and prints the seconds the test took.
const SCIPY: &str = "import sys, time, numpy, scipy.stats as s\n\
    x, y = (numpy.fromfile(p) for p in sys.argv[1:3])\n\
    t = time.perf_counter()\n\
    r = s.mannwhitneyu(y, x, alternative='greater', method='asymptotic')\n\
    print(time.perf_counter() - t, r.statistic)";

/// Numbers from 0 to 1 that look random and are the same everywhere.
fn uniform(seed: u64, count: usize) -> impl Iterator<Item = f64> {
    let mut state = seed;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    })
}

/// Latencies with a long tail, around 20 ms.
fn latencies(seed: u64, count: usize, factor: f64) -> Vec<f64> {
    uniform(seed, count).map(|u| 20.0 * factor * (-u.ln()).sqrt()).collect()
}

impl Bench {
    pub(crate) fn statistics(&mut self) -> anyhow::Result<()> {
        let count = self.sizes.plan_children;
        let (baseline, canary) = (latencies(1, count, 1.0), latencies(2, count, 1.1));
        say("judging samples");
        let mut ours = Vec::new();
        for _ in 0..ROUNDS {
            let strata =
                [Stratum::new("canary", 0, Sample::Values(baseline.clone()), Sample::Values(canary.clone()))];
            let start = Instant::now();
            let finding =
                Judgement::new(Design::new(Tolerance::Ratio(0.05)))?.look(&strata, 0, Occasion::Last);
            ours.push(start.elapsed().as_secs_f64() * 1_000.0);
            if finding.verdict != Some(Verdict::Fail) {
                bail!("{}", finding.evidence.sentence);
            }
        }
        let scipy = match self.scipy(&baseline, &canary) {
            Ok(times) => times,
            Err(error) => {
                self.table.missing("scipy beside the statistics", &format!("{error:#}"));
                Vec::new()
            }
        };
        let time = median(&ours);
        let what = format!("verdict with U, estimate and interval of 2 × {} values", thousands(count as f64));
        let (theirs, ratio) = if scipy.is_empty() {
            (String::new(), String::new())
        } else {
            let theirs = median(&scipy);
            (format!("scipy, U and p alone: {theirs:.0} ms"), format!("{:.2} of scipy's", time / theirs))
        };
        self.table.line(&what, &format!("{time:.0} ms"), &theirs, &ratio, "< 1 s", Some(time < LIMIT_MS));
        self.merging()
    }

    fn merging(&mut self) -> anyhow::Result<()> {
        say("merging histograms");
        let of = |child: usize| {
            let mut histogram = Histogram::new(1.02)?;
            for value in latencies(child as u64, VALUES_OF_A_CHILD, 1.0) {
                histogram.record(value)?;
            }
            anyhow::Ok(histogram)
        };
        let children = (0..CHILDREN).map(of).collect::<anyhow::Result<Vec<_>>>()?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let mut merged = Histogram::new(1.02)?;
            for child in &children {
                merged.merge(child)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1_000.0);
            black_box(merged);
        }
        let what = format!("merging the histograms of {} children", thousands(CHILDREN as f64));
        let time = median(&times);
        self.table.line(&what, &format!("{time:.2} ms"), "", "", "< 1 s", Some(time < LIMIT_MS));
        self.detection();
        Ok(())
    }

    fn detection(&mut self) {
        say("looking for changes");
        for (ratio, most) in CHANGES {
            let Needed { planned, mean, told } = sequential::needed(ratio, self.sizes.simulated_runs);
            let theirs = format!("SPRT told the change: {told:.0} in the mean");
            for (what, calls) in
                [("calls until it ends, in the mean", mean), ("calls that have to be there", planned)]
            {
                let what = format!("{what}, {ratio} times as long is found in 4 of 5 runs");
                let (found, wanted) = (calls / told, format!("≤ {most}"));
                self.table.line(
                    &what,
                    &format!("{calls:.0}"),
                    &theirs,
                    &format!("**{found:.2}**"),
                    &wanted,
                    Some(found <= most),
                );
            }
        }
    }

    /// Milliseconds of each round.
    fn scipy(&self, baseline: &[f64], canary: &[f64]) -> anyhow::Result<Vec<f64>> {
        let write = |name: &str, values: &[f64]| {
            let path = self.folder.join(name);
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            fs::write(&path, bytes).map(|()| path)
        };
        let (x, y) = (write("baseline.f64", baseline)?, write("canary.f64", canary)?);
        // The system's Python has the system's scipy, whatever another Python comes first.
        let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| has_scipy(python));
        let python = python.context("there is no Python with scipy; python3-scipy is its package")?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let output = Command::new(python).arg("-c").arg(SCIPY).args([&x, &y]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let seconds = text.split_whitespace().next().and_then(|seconds| seconds.parse::<f64>().ok());
            let seconds = seconds.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
            times.push(seconds * 1_000.0);
        }
        Ok(times)
    }
}

fn has_scipy(python: &str) -> bool {
    let mut command = Command::new(Path::new(python));
    command.args(["-c", "import scipy.stats"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
