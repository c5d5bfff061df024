//! What children report of both versions is compared, of this release alone or with an earlier one.

use super::{
    children,
    interim::{InterimRejection, Merged},
    judge::{Keep, ended, judge},
    metric_look::MetricLook,
    previous,
};
use analysis::{Design, Judgement, RunVariation, Verdict};
use domain::release::analysis::{Metered, while_running};
use language::analysis::ChildMetric;

/// A look at what children have reported so far. Nobody is waited for but at the end of a stage: before it there is a look
/// only if somebody reports while the stage goes on, or all have come and it may pass early; where there was none until the end, that
/// is the only one.
pub(super) async fn compare_versions(
    look: &MetricLook<'_>,
    of: ChildMetric,
    design: Design,
    mut found: Metered,
) -> Result<Metered, String> {
    let MetricLook { engine, due, reports, analysis, metric, .. } = *look;
    // Whoever is to be waited for is on the way.
    if due.is_last && !due.is_gathered {
        return Ok(found);
    }
    let merged = reports.merged(engine, due, metric.pair.as_ref()).await?;
    let is_first = found.judgement.is_none();
    let ends = analysis.duration.is_some();
    if ends && is_first && due.is_last {
        merged.append(&mut found, of, due, 0).map_err(|untaken| untaken.explain(engine, due))?;
        let strata = std::mem::take(&mut found.strata);
        let judgement = Some(tell_children(None, design.clone(), merged, of)?);
        let mut found = judge(look, design, judgement, strata, found, Keep::Nothing).await?;
        merged.off.show(engine, &mut found);
        return Ok(drop_unused_names(found));
    }
    let may_end = analysis.early_pass && due.has_gathered;
    if ends && is_first && !merged.is_interim && !may_end {
        return Ok(found);
    }
    let interval = (due.elapsed_ms / look.interval_ms()).saturating_sub(1);
    let is_news = match merged.append(&mut found, of, due, interval) {
        Ok(is_news) => is_news,
        Err(untaken @ InterimRejection::TooMany) => {
            return Ok(ended(found, Verdict::Error, untaken.explain(engine, due)));
        }
        Err(untaken @ InterimRejection::Unreadable(_)) => return Err(untaken.explain(engine, due)),
    };
    found.errors = 0;
    if !is_news && !due.is_last {
        return Ok(found);
    }
    let design = Design { end: while_running(analysis, metric), ..design };
    let (judgement, strata) = (found.judgement.take(), std::mem::take(&mut found.strata));
    let judgement = Some(tell_children(judgement, design.clone(), merged, of)?);
    let keep = if due.is_last { Keep::Nothing } else { Keep::All };
    let mut found = judge(look, design, judgement, strata, found, keep).await?;
    merged.off.show(engine, &mut found);
    Ok(drop_unused_names(found))
}

/// What is not kept needs no names.
fn drop_unused_names(mut found: Metered) -> Metered {
    if found.strata.is_empty() {
        found.parts.clear();
    }
    found
}

/// A judgement that is told how children differ, in what they measured and in how they shared out their calls.
fn tell_children(
    judgement: Option<Judgement>,
    design: Design,
    merged: &Merged,
    of: ChildMetric,
) -> Result<Judgement, String> {
    let judgement = judgement.map_or_else(|| Judgement::new(design), Ok);
    let mut judgement = judgement.map_err(|fault| fault.to_string())?;
    judgement.set_children(merged.children(of));
    judgement.set_dispersion(merged.dispersion());
    Ok(judgement)
}

/// The look at what children reported, beside what they reported of the last release of the function that ended well.
pub(super) async fn compare_with_previous(
    look: &MetricLook<'_>,
    of: ChildMetric,
    reports: &[children::StageReport],
    design: Design,
    found: Metered,
) -> Result<Metered, String> {
    let MetricLook { engine, due, .. } = *look;
    let previous = match previous::find(engine, due).await? {
        Ok(previous) => previous,
        Err(nothing) => return Ok(ended(found, Verdict::NoData, nothing)),
    };
    let strata = {
        let meant = (of, look.metric.pair.as_ref());
        children::strata_since(engine, &previous.release, reports, meant, &due.strategy).await?
    };
    let Some(strata) = strata else {
        let sentence = format!("release {} is not kept any more", previous.release);
        return Ok(ended(found, Verdict::NoData, sentence));
    };
    let is_known = design.run_variation != Some(RunVariation::Unknown);
    let mut found = judge(look, design, None, strata, found, Keep::Nothing).await?;
    let sentence = match found.verdict {
        Some(Verdict::NoData) => "no child reported both times what can be compared".to_owned(),
        Some(Verdict::Inconclusive) if !is_known => format!(
            "how much {} varies from run to run isn't known: write it down, as in runVariation: 3%",
            due.function()
        ),
        None | Some(Verdict::Pass | Verdict::Fail | Verdict::Inconclusive | Verdict::Error) => found.sentence,
    };
    found.sentence = format!("against release {}: {sentence}", previous.release);
    found.previous = Some(previous);
    Ok(found)
}
