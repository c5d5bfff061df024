//! Is the canary worse than the baseline **by more than the tolerance**? Pure statistics: no clock, no network, no
//! store, nothing random.
//!
//! What others use is small:
//!
//! - [`Design`]: what is asked of one metric (question, deviation, tolerance, its share of alpha, when it ends).
//! - [`Stratum`]: what was measured, a stage, split and interval at a time; a [`Sample`] is raw values, a mergeable
//!   [`Histogram`] or [`Counts`]. The list of strata of a metric only ever grows at its end; an interval that is over
//!   is handed again as it was.
//! - [`Judgement`]: the state of one metric's judgement, to be stored as JSON. [`Judgement::look`] takes all strata so
//!   far and the elapsed time and gives a [`Finding`]: a [`Verdict`], if there is one, with its [`Evidence`] and one
//!   sentence. Store the judgement **before** acting on the finding: it holds the alpha that was spent.
//! - [`power::Power`]: what it takes, before there are data: calls for a pass, and the smallest change that is found.
//! - [`family::shares`]: how a release's alpha is shared by weight.
//!
//! ```
//! use analysis::{Design, End, Judgement, Occasion, Sample, Stratum, Tolerance, Verdict};
//!
//! let mut design = Design::new(Tolerance::Ratio(0.05));
//! design.end = End::Once;
//! let mut judgement = Judgement::new(design)?;
//! let baseline = (0..200).map(|i| 20.0 + f64::from(i * 37 % 200) / 40.0).collect();
//! let canary = (0..200).map(|i| 26.0 + f64::from(i * 73 % 200) / 40.0).collect();
//! let strata = [Stratum::new("canary", 0, Sample::Values(baseline), Sample::Values(canary))];
//! let finding = judgement.look(&strata, 0, Occasion::Last);
//! assert_eq!(finding.verdict, Some(Verdict::Fail), "{}", finding.evidence.sentence);
//! # Ok::<(), analysis::DesignFault>(())
//! ```
//!
//! Invariants, which `tests/analysis/` asserts:
//!
//! 1. At the boundary (canary = baseline × (1 + tolerance)) a metric fails with at most its alpha over **all** its
//!    looks, and passes with at most its alpha. Where nothing but 0 was measured, the boundary is a share of
//!    [`design::DEFAULT_FLOOR`] of other values.
//! 2. A look counts once. Looks off the grid, repeated or after a restart show and decide nothing.
//! 3. What is compared was measured side by side: ranks are taken within a stratum, and only sums are added.
//! 4. Neither order nor batching within an interval matters, nor the unit of the values.
//! 5. An error, missing data or a split that is not the one ordered is never a pass.
//!
//! Deliberately not here: fetching data (providers), what a verdict does to a release (gates), thresholds, and any
//! way to look at the data and *then* choose the test.

#![allow(clippy::many_single_char_names, reason = "names are those of the formulas: m, n, s, v, k, z, p")]

pub mod alpha_spending;
pub mod anytime_test;
pub mod bounds;
pub mod clusters;
pub mod data;
pub mod decision;
pub mod dependence;
pub mod design;
pub mod dispersion;
pub mod dist;
pub mod early_pass;
mod early_pass_looks;
pub mod effects;
pub mod estimate;
pub mod evidence;
pub mod exact;
pub mod explain;
pub mod extension;
pub mod grid;
pub mod histogram;
pub mod hypothesis;
pub mod interval_merging;
pub mod judge;
pub mod limit_evidence;
pub mod mismatch;
pub mod multiple_testing;
pub mod order;
pub mod power;
pub mod previous;
pub mod rank;
pub mod rate;
pub mod resolution;
pub mod root;
mod sentence;
mod silence;
pub mod speed_classes;
pub mod split;
pub mod spread;
pub mod sums;
pub mod tail;
pub mod values;
mod zeros;

pub use self::{
    data::{Assignment, Counts, Sample, Stratum},
    decision::{Finding, Occasion},
    design::{Design, DesignFault, Deviation, End, Question, RunVariation, Sampling, Spending, Tolerance},
    early_pass::EARLY_PART,
    evidence::{BelowFloor, Effect, Evidence, SideSummary, TestEvidence, Verdict},
    extension::{EXTENSION_RESERVE, NoExtension},
    histogram::{Histogram, HistogramFault},
    judge::Judgement,
    sentence::thousands,
    values::{Clock, Rounding, Values, ValuesFault},
};
