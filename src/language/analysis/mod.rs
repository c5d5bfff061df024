//! `analysis`: by which measurements the manager judges a stage, or a whole release, and what a verdict does.
//!
//! A block stands in a stage or in `rollout`. `block` reads it, `metric` reads one metric and holds the rules between
//! its keys, `query` the `{{ variables }}` of a query, `templates` what is shared by name, `providers` the file that
//! says who can be asked.
//!
//! Invariants: an [`Analysis`] that exists can be carried out: its looks are bounded, every variable of a query has a
//! value on every side that is asked, a comparison compares two different things. Whatever came from a named template
//! is part of the release from its submission on. Not here: fetching (providers), statistics, what a verdict leads to.

mod alpha;
mod amount;
mod block;
pub(super) mod form;
mod metric;
mod pairs;
pub mod providers;
mod query;
mod schedule;
mod spec;
pub(super) mod templates;
mod unclear;

pub use self::{
    alpha::AlphaShare,
    query::{Escape, MAX_QUERY_BYTES, Query, QueryArgs, QueryBinding, Unbound, Variable, Variant},
    spec::{
        Analysis, CHILDREN, ChildMetric, Comparison, DEFAULT_ALPHA, DEFAULT_CONSECUTIVE_ERRORS,
        DEFAULT_FLOOR, DEFAULT_TOLERANCE, Deviation, Extend, MAX_ALPHA, MAX_EXTENSION, MAX_LIMIT, MAX_LOOKS,
        MAX_METRICS, MAX_TOLERANCE, MAX_WEIGHT, MIN_INTERVAL, Metric, MetricSource, Pair, ProviderQuery,
        ROUTER, Reference, Rule, Tolerance, Unclear,
    },
    templates::{MAX_TEMPLATES, Templates},
};
pub(super) use self::{
    block::{AnalysisDraft, read},
    pairs::judge_each_variation,
    schedule::AnalysisPlace,
};
