//! What a release would have done with these data over time: looks at even distances, until one decides.

use std::{io::Write, time::Duration};

use serde::Serialize;

use super::{
    Args, code,
    samples::{File, Rows, Strata},
    side_by_side, text,
};
use crate::cli::{
    failure::Failure,
    printable::{Passes, Printable},
    show,
};
use analysis::{Design, End, Finding, Judgement, Occasion, Spending, Stratum};

/// Looks where only a duration is given.
const LOOKS: u32 = 10;

/// Without a duration: only the share of it that has gone by matters.
const DURATION: Duration = Duration::from_hours(1);

/// Most looks that are shown, the last one beside them.
const SHOWN: usize = 24;

/// One look, as JSON has it too.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LookResult {
    #[serde(rename = "look")]
    number: usize,
    elapsed_ms: u64,
    #[serde(flatten)]
    finding: Finding,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    planned_looks: u32,
    duration_ms: u64,
    /// As many as are shown.
    looks: Vec<LookResult>,
}

pub fn run(
    args: &Args,
    mut design: Design,
    baseline: File,
    canary: File,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let count = args.looks.unwrap_or(LOOKS);
    let duration = args.duration.unwrap_or(DURATION);
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let interval_ms = duration_ms.div_ceil(u64::from(count));
    design.end = End::After { duration_ms, interval_ms, spending: Spending::default() };
    if design.looks() != Some(u64::from(count)) {
        return Err(Failure::user(format!("{count} looks don't fit into {}", lasted(duration_ms))));
    }
    let (Ok(baseline), Ok(canary)) = (rows(baseline), rows(canary)) else {
        return Err(Failure::user(
            "a histogram and counts say nothing of the order of time: give values, one a row",
        ));
    };
    let strata = strata(args, &baseline, &canary, count as usize, interval_ms, duration_ms)?;
    let looks = looks(design, &strata, interval_ms, duration_ms)?;
    let Some(last) = looks.last() else { return Err(Failure::ours("no look was made")) };
    let exit = code(&last.finding);
    if args.json {
        show::json(out, &Replayed { planned_looks: count, duration_ms, looks })?;
    } else {
        let is_timed = args.duration.is_some();
        let shown = rows_of(&looks, is_timed);
        let head = ["LOOK", if is_timed { "AFTER" } else { "" }, "BASELINE", "CANARY", "P", "FAILS AT", ""];
        write!(out, "{}\n{}", show::table(&head, shown), text::of(&last.finding.evidence))?;
    }
    Ok(exit)
}

fn rows(file: File) -> Result<Rows, ()> {
    match file {
        File::Rows(rows) => Ok(rows),
        File::Whole(_) => Err(()),
    }
}

/// Both sides, interval by interval.
fn strata(
    args: &Args,
    baseline: &Rows,
    canary: &Rows,
    count: usize,
    interval_ms: u64,
    duration_ms: u64,
) -> Result<Vec<Stratum>, Failure> {
    let spans = [baseline.span(), canary.span()];
    let began = spans.iter().flatten().map(|(first, _)| *first).fold(f64::INFINITY, f64::min);
    let cut = |rows: &Rows| {
        let all = rows.len().max(1);
        rows.by_interval(count, |at, time| match time {
            None => Some(at * count / all),
            Some(time) => {
                let ms = (time - began) * 1e3;
                // Whatever comes at the very end belongs to the last interval.
                let is_in = ms <= duration_ms as f64;
                is_in.then(|| ((ms / interval_ms as f64) as usize).min(count - 1))
            }
        })
    };
    let ((baseline, b), (canary, c)) = (cut(baseline), cut(canary));
    if b + c > 0 {
        let values = show::counted(b + c, "value was", "values were");
        let after = lasted(duration_ms);
        writeln!(Printable::stderr(Passes::None), "{values} measured later than {after}, and left out")?;
    }
    if args.time.is_none() && args.duration.is_some() {
        let note = "the values are spread evenly over the duration, in the order of the files: --time names their times";
        writeln!(Printable::stderr(Passes::None), "{note}")?;
    }
    let pairs = (0..).zip(baseline.into_iter().zip(canary));
    let pair = |(interval, (baseline, canary)): (u64, (Strata, Strata))| {
        // A side that was silent in an interval is told so, and not left out.
        side_by_side(baseline, canary, interval, true).0
    };
    Ok(pairs.flat_map(pair).collect())
}

/// The looks up to the one that decides; of many only some.
fn looks(
    design: Design,
    strata: &[Stratum],
    interval_ms: u64,
    duration_ms: u64,
) -> Result<Vec<LookResult>, Failure> {
    let planned = design.looks().unwrap_or(1) as usize;
    let every = planned.div_ceil(SHOWN);
    let mut judgement = Judgement::new(design).map_err(|fault| Failure::user(fault.to_string()))?;
    let mut looks = Vec::new();
    for look in 1..=planned {
        let is_last = look == planned;
        let elapsed_ms = if is_last { duration_ms } else { look as u64 * interval_ms };
        let seen = strata.partition_point(|stratum| stratum.interval < look as u64);
        let occasion = if is_last { Occasion::Last } else { Occasion::Look };
        let decision = judgement.decide(&strata[..seen], elapsed_ms, occasion);
        let is_over = decision.verdict.is_some();
        if is_over || is_last || look % every == 0 {
            let finding = judgement.explain(&strata[..seen], &decision);
            looks.push(LookResult { number: look, elapsed_ms, finding });
        }
        if is_over {
            break;
        }
    }
    Ok(looks)
}

fn rows_of(looks: &[LookResult], is_timed: bool) -> impl Iterator<Item = Vec<String>> {
    looks.iter().map(move |LookResult { number, elapsed_ms, finding }| {
        let evidence = &finding.evidence;
        let least = evidence.tests.iter().min_by(|a, b| a.p.total_cmp(&b.p));
        vec![
            number.to_string(),
            if is_timed { lasted(*elapsed_ms) } else { String::new() },
            evidence.baseline.count.to_string(),
            evidence.canary.count.to_string(),
            least.map_or_else(|| "-".to_owned(), |test| text::short(test.p)),
            least.and_then(|test| test.level).map_or_else(|| "-".to_owned(), text::short),
            finding.verdict.map_or("goes on", |verdict| verdict.name()).to_owned(),
        ]
    })
}

fn lasted(ms: u64) -> String {
    if ms < 1_000 { format!("{ms}ms") } else { show::lasted((ms / 1_000) as i64) }
}
