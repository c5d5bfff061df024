//! The language in which a developer says how a release is tested and when it counts as good.
//!
//! A text becomes a [`Strategy`] in three steps: `raw` (what YAML says, with locations) → `parse` (values) →
//! `validate` (the rules between them). A [`Strategy`] that exists is valid: names are resolved to indices,
//! traffic adds up, every path through the stages ends. Nothing downstream checks again.
//!
//! [`check`] is the one way in, and it reports every fault at once. [`render`] is the way out: the small
//! strategies that children get. Not here: who takes part, when a stage ends, what a result means.

mod amount;
pub mod analysis;
mod annotations;
mod check;
mod condition;
mod diagnostic;
mod fields;
mod findings;
mod from_parent;
pub mod functions;
mod graph;
mod hybrid;
pub mod import;
mod interim;
mod limits;
mod local;
mod node;
pub mod offer;
mod parse;
mod places;
mod raw;
mod reading;
mod release_id;
pub mod render;
pub mod render_full;
mod reporting;
mod retry;
mod rollback;
mod rollout;
mod rollout_templates;
mod run;
mod runtime;
mod scalar;
pub mod schema;
mod service;
mod sticky;
mod strategy;
mod syntax;
mod target;
mod validate;

pub use amount::{Amount, Round};
pub use annotations::{MAX_ANNOTATION_BYTES, MAX_ANNOTATION_KEY_BYTES, MAX_ANNOTATIONS};
pub use check::{
    Checked, Site, check, check_at, check_bytes, check_from_parent, check_stored, check_submission,
    check_submission_at,
};
pub use condition::{Condition, MeasuredValue, Metric, Operator, Statistic};
pub use diagnostic::{Diagnostic, MAX_DIAGNOSTICS, MAX_SOURCE_LINE, Severity, TextPlace, nearest};
pub use from_parent::FromParent;
pub use hybrid::Group;
pub use interim::{Interim, MAX_CUTS};
pub use limits::{MAX_CONDITIONS, MAX_FUNCTIONS, MAX_STAGES, MAX_WAVES};
pub use local::{LOCAL_SHARE, OF_WHOLE, part_of_the};
pub use places::{TextPlaces, VersionPlace};
pub use raw::{MAX_ALIASES, MAX_DEPTH, MAX_NODES, MAX_STRATEGY_BYTES};
pub use reading::MAX_NAME_BYTES;
pub use release_id::{id_of, with_id};
pub use retry::Retry;
pub use rollback::{ROLLBACK_OF, Rollback};
pub use rollout::{
    Approval, ApprovalOf, LateJoiners, NO_CALLS, NoCalls, Notes, OnLimit, Order, OrderWord, Rollout, Untested,
};
pub use rollout_templates::{
    ERROR_RATE, MAX_ROLLOUT_TEMPLATES, MIN_CALLS, RolloutTemplate, RolloutTemplates, TemplateStage,
    rollout_template_of,
};
pub use run::{CPU_RULE, MEMORY_RULE, Resources, Run};
pub use scalar::{MAX_CALLS, MAX_DURATION, MAX_PATH_BYTES, MAX_RESPONSE_TIME_MS};
pub use service::{AtRollback, Base, ProxyProtocol, Salt, Service, drain};
pub use sticky::{MAX_STICKY_NAME_BYTES, Sticky};
pub use strategy::{
    Action, Function, NoForm, OnConflict, ReleaseDeadlines, Stage, StageKind, Strategy, Subject, Version,
    together,
};
pub use target::{MAX_TARGET_LABELS, MAX_TARGET_POSITIONS, Partial, Target, TargetArea};
pub use traffic::{
    HashFunction, MeasuredBy, RouterAbilities, RouterKind,
    desired::{Protocol, StickyTo, Target as CallTarget},
};
