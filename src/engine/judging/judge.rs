//! Samples are judged apart from everything else, and what is found is kept as far as another look needs it.

use std::time::Duration;

use super::metric_look::MetricLook;
use analysis::{Design, Judgement, Occasion, Stratum, Verdict};
use domain::release::analysis::Metered;

/// The comparison of so much takes less; what takes longer is cut off with the task.
const LONGEST_JUDGEMENT: Duration = Duration::from_mins(5);

/// What was found, with its verdict.
pub(super) fn ended(mut found: Metered, verdict: Verdict, sentence: String) -> Metered {
    found.verdict = Some(verdict);
    found.sentence = sentence;
    found
}

/// A crossing of the boundary is borne, for more of them are demanded. At the end nothing is shown by it.
fn bear(judgement: &mut Judgement, found: &mut Metered, limit: u32, is_last: bool) {
    judgement.bear_crossing();
    found.verdict = is_last.then_some(Verdict::Inconclusive);
    found.sentence = format!(
        "the boundary was crossed {} of {} times: {}",
        found.outside,
        limit.saturating_add(1),
        found.sentence
    );
}

/// What of a judgement is kept for the next look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    /// There is no next one.
    Nothing,
}

/// Judges beside everything else: it can take a core for a while.
pub(super) async fn judge(
    look: &MetricLook<'_>,
    design: Design,
    judgement: Option<Judgement>,
    strata: Vec<Stratum>,
    mut found: Metered,
    keep: Keep,
) -> Result<Metered, String> {
    let (due, limit) = (look.due, look.metric.failure_limit);
    let calls = strata.iter().map(|stratum| stratum.baseline.count() + stratum.canary.count()).sum();
    let (elapsed_ms, is_last) = (due.elapsed_ms, due.is_last || due.is_enough(calls));
    let judging = tokio::task::spawn_blocking(move || {
        let mut judgement = match judgement {
            Some(judgement) => judgement,
            None => Judgement::new(design).map_err(|fault| fault.to_string())?,
        };
        // It has passed, and others have not: it may still fail.
        judgement.go_on();
        let occasion = if is_last { Occasion::Last } else { Occasion::Look };
        let finding = judgement.look(&strata, elapsed_ms, occasion);
        Ok::<_, String>((judgement, strata, finding))
    });
    let judged = tokio::time::timeout(LONGEST_JUDGEMENT, judging).await;
    let judged: Result<_, String> = match judged {
        Ok(Ok(judged)) => judged,
        Ok(Err(error)) => {
            tracing::error!(%error, release = due.id, "a comparison broke off");
            let sentence = "the comparison broke off; see the manager's log".to_owned();
            return Ok(ended(found, Verdict::Error, sentence));
        }
        Err(_) => return Err("the comparison took too long".to_owned()),
    };
    let (mut judgement, strata, finding) = judged?;
    found.verdict = finding.verdict.filter(|_| !judgement.is_early_pass());
    finding.evidence.reason().clone_into(&mut found.sentence);
    found.evidence = Some(Box::new(finding.evidence));
    if found.verdict == Some(Verdict::Fail) {
        found.outside += 1;
        if found.outside <= limit {
            bear(&mut judgement, &mut found, limit, is_last);
        }
    }
    // What ended undecided may go on.
    let is_undecided = matches!(found.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
    if keep == Keep::All || (is_undecided && judgement.design().reserve > 0.0) {
        found.judgement = Some(judgement);
        found.strata = strata;
    }
    Ok(found)
}
