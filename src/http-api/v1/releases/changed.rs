//! What became of a release since somebody saw it: who did what, as the audit trail has it.

use serde_json::Value;

use super::if_match::IfMatch;
use crate::{
    Context,
    problem::Problem,
    v1::{audit::form, page::MAX_LIMIT},
};
use axum::http::StatusCode;
use domain::release::revision::Tag;
use engine::By;
use protocol::api::AuditEntry;
use store::{AuditFilter, AuditOrder};

/// Pages of the trail that are read for it: children may have filled it since.
const MAX_PAGES: usize = 10;

/// Entries about the release as a whole that are read beyond them, the latest.
const MAX_LATEST: u32 = 20;

/// Of what happened, so much is told: the latest.
const MAX_TOLD: usize = 3;

/// The answer to who has seen another release than there is.
pub(super) async fn problem(ctx: &Context, id: &str, seen: &IfMatch, current: Tag, by: &By) -> Problem {
    let of_it = |tag: &&Tag| tag.release == current.release;
    let seen = seen.0.iter().flatten().filter(of_it).max_by_key(|tag| tag.revision.number);
    let told = match seen {
        None => Ok(Vec::new()),
        Some(seen) => since(ctx, *seen).await,
    };
    let told = match told {
        Ok(told) => told,
        Err(problem) => return problem,
    };
    let done = match told.split_last() {
        None => "it is another one than was seen".to_owned(),
        Some((last, [])) if last.is_of(by) => {
            format!("{}, and that was you: nothing was done twice", last.told())
        }
        Some(_) => {
            let told: Vec<String> = told.iter().rev().take(MAX_TOLD).rev().map(Happened::told).collect();
            told.join("; ")
        }
    };
    let detail = format!(
        "release {id} has changed since: {done}. Nothing was done now; look at it again, its tag is \"{current}\""
    );
    Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail)
}

/// Something that moved the release on.
struct Happened {
    at: String,
    actor: String,
    what: Vec<String>,
}

impl Happened {
    fn told(&self) -> String {
        let who = match self.actor.split_once(':') {
            Some(("operator", name)) => name,
            _ if self.actor == "parent" => "the manager above",
            _ => "the release by itself",
        };
        format!("{who} {} at {}", self.what.join(", "), self.at)
    }

    /// Whether whoever asks did it. Who gave no name is nobody in particular.
    fn is_of(&self, by: &By) -> bool {
        self.actor == by.actor.name() && !by.is_unnamed()
    }
}

/// What happened after a tag, in order. Where children have filled the trail since, what lies between its first pages and the latest that
/// was told of the release as a whole is left out.
async fn since(ctx: &Context, seen: Tag) -> Result<Vec<Happened>, Problem> {
    let release_key = Some(seen.release.0);
    let mut after = (seen.revision.commit, u32::MAX);
    let mut all = Vec::new();
    for _ in 0..MAX_PAGES {
        let filter =
            AuditFilter { after: Some(after), release_key, limit: MAX_LIMIT, ..AuditFilter::default() };
        let rows = ctx.engine.reader().audit(&filter).await?;
        for row in &rows {
            after = (row.seq, row.idx);
            all.extend(happened(form::entry(row, ctx.engine.unreadable())));
        }
        if rows.len() < MAX_LIMIT as usize {
            return Ok(all);
        }
    }
    let order = AuditOrder::ToldNewestFirst;
    let filter = AuditFilter { order, after: None, release_key, limit: MAX_LATEST };
    let rows = ctx.engine.reader().audit(&filter).await?;
    let latest = rows.iter().take_while(|row| (row.seq, row.idx) > after).collect::<Vec<_>>();
    let latest = latest.into_iter().rev();
    all.extend(latest.filter_map(|row| happened(form::entry(row, ctx.engine.unreadable()))));
    Ok(all)
}

/// What of an entry people decide on; `None`: nothing.
fn happened(entry: AuditEntry) -> Option<Happened> {
    let mut what: Vec<String> = Vec::new();
    for event in &entry.events {
        // Of many children alike, it is said once.
        what.extend(words(event).filter(|words| !what.contains(words)));
    }
    (!what.is_empty()).then_some(Happened { at: entry.at, actor: entry.actor, what })
}

/// An event of the trail in words, if it moves a release on for people.
fn words(event: &Value) -> Option<String> {
    let field = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or("?");
    Some(match field("event") {
        "release_started" => "started it".to_owned(),
        "release_paused" => format!("paused it ({})", field("reason")),
        "release_resumed" => "resumed it".to_owned(),
        "held_by_parent" => "held it, or let it go on".to_owned(),
        "failures_accepted" => "went on from what had failed".to_owned(),
        "release_aborted" => "aborted it".to_owned(),
        "release_rolled_back" => format!("took it back ({})", field("reason")),
        "release_approved" => "approved it".to_owned(),
        "release_retried" => "tried again what failed".to_owned(),
        "release_replanned" => "planned it once more".to_owned(),
        "release_ended" if event.get("reason").is_some() => format!("ended it ({})", field("reason")),
        "release_ended" => "ended it".to_owned(),
        "gate_reached" => format!("came to {}", field("gate")),
        "gate_left" => "left the gate that was reached".to_owned(),
        "gate_opened" => format!("opened {}", field("gate")),
        "approval_asked" => format!("asked for an approval of {}", field("what")),
        "stage_ended" => format!("ended stage {}", field("stage")),
        "stage_skipped" => format!("skipped stage {}", field("stage")),
        "untested_rolled_out" => "rolled out to those without calls".to_owned(),
        "winner_chosen" => format!("chose variation {}", field("variation")),
        "shares_chosen" => format!("chose other shares for stage {}", field("stage")),
        "routers_back" => "brought all routers back".to_owned(),
        "analysis_extended" => format!("let the analysis of {} go on", field("of")),
        "verdict" => format!("judged {}: {}", field("of"), field("verdict")),
        "child_joined" => "took more children in".to_owned(),
        "child" if field("step") == "retried" => "tried a child again".to_owned(),
        "child"
            if field("step") == "ended"
                && event.get("outcome").is_some_and(|outcome| outcome.get("excluded").is_some()) =>
        {
            "left a child out".to_owned()
        }
        _ => return None,
    })
}
