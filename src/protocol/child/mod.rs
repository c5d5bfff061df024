//! The calls of the child protocol: what a child sends and what it is answered. Questions to managers are in
//! [`super::question`].
//!
//! Two spellings are read: that of the deployed agents (`proxy_times.median`, `"status": 4`) and the older one
//! of the reference document (`ProxyTimes.Median`, `"status": "Completed"`, numeric ids). One is written: that of
//! the deployed agents, with the optional additions only where they are set.

mod counts;
mod end_stage;
mod join;
mod limits;
mod poll;
mod result;
mod stratum;
mod summary;
mod variation;

pub use self::{
    counts::{Buckets, HistogramForm, NO_CALL, TimesForm},
    end_stage::{EndStageAnswer, EndStageRequest, FollowUp},
    join::{JoinAnswer, JoinRequest},
    limits::{
        MAX_CHILD_NAME_BYTES, MAX_END_STAGE_BODY_BYTES, MAX_GROUPED_STRATA, MAX_GROUPS, MAX_HISTOGRAM_BOUNDS,
        MAX_HISTOGRAM_CALLS, MAX_JOIN_BODY_BYTES, MAX_LABEL_BYTES, MAX_LABELS, MAX_LABELS_BELOW,
        MAX_POLL_BODY_BYTES, MAX_RESULT_BODY_BYTES, MAX_RM_IDS, MAX_RUNTIMES, MAX_STAGE_NAME_BYTES,
        MAX_STRATA, MAX_SUMMARIES, MAX_VARIATION_NAME_BYTES, MAX_VARIATIONS, MAX_WHY_BYTES, NONCE_BYTES,
    },
    poll::{PollAnswer, PollRequest},
    result::{ManagerTime, ResultRequest},
    stratum::StratumForm,
    summary::{StageSummary, Why},
    variation::{VariationForm, VariationStratumForm},
};
