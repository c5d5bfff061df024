//! What webhooks are told of the end of a release.

use serde::Serialize;

use super::effect::Webhook;
use domain::release::{
    ending::Ending,
    state::{Counts, Release},
};
use protocol::api;
use store::StoreError;

/// The body of the call.
#[derive(Serialize)]
struct Told<'a> {
    event: &'static str,
    release: &'a str,
    state: &'static str,
    why: Option<api::Ending>,
    unconfirmed: u32,
    counts: ToldCounts,
    ended_ms: Option<i64>,
}

/// How many children of the release are where.
#[derive(Serialize)]
struct ToldCounts {
    no: u32,
    todo: u32,
    doing: u32,
    done: u32,
    failed: u32,
    succeeded: u32,
    outcome_failed: u32,
    timed_out: u32,
    unreachable: u32,
    lost: u32,
    undone: u32,
    untested: u32,
    excluded: u32,
    undoing: u32,
    undo_overdue: u32,
    awaited: u32,
}

impl From<Counts> for ToldCounts {
    fn from(counts: Counts) -> Self {
        let Counts {
            no,
            todo,
            doing,
            done,
            failed,
            succeeded,
            outcome_failed,
            timed_out,
            unreachable,
            lost,
            undone,
            untested,
            excluded,
            undoing,
            undo_overdue,
            awaited,
            awaited_now: _,
            in_play: _,
            behind: _,
            trailing: _,
            in_progress: _,
            left_untested: _,
            opened: _,
            agents: _,
            routers: _,
            routers_undoing: _,
        } = counts;
        Self {
            no,
            todo,
            doing,
            done,
            failed,
            succeeded,
            outcome_failed,
            timed_out,
            unreachable,
            lost,
            undone,
            untested,
            excluded,
            undoing,
            undo_overdue,
            awaited,
        }
    }
}

/// Why a release ended as it did, in the words of the API.
pub fn told_ending(ending: &Ending) -> api::Ending {
    let Ending { cause, text, child, stage, version, numbers, by, note } = ending.clone();
    api::Ending { cause: cause.name().to_owned(), text, child, stage, version, numbers, by, note }
}

/// Tells a webhook of the end of a release.
pub(super) fn ended(url: &str, release: &Release) -> Result<Webhook, StoreError> {
    let told = Told {
        event: "release_ended",
        release: release.id.as_str(),
        state: release.state.name(),
        why: release.ending.as_deref().map(told_ending),
        unconfirmed: release.unproven(),
        counts: release.counts.into(),
        ended_ms: release.ended.map(|now| now.wall_ms),
    };
    let body = serde_json::to_value(told).map_err(|error| {
        StoreError::Refused(format!("what a webhook is told can't be written as JSON: {error}"))
    })?;
    Ok(Webhook { url: url.to_owned(), body })
}
