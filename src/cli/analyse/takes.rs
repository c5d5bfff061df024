//! What it takes, said before there are data: calls for a pass, how long that is, and which change is found.

use std::io::Write;

use serde::Serialize;

use super::{
    columns,
    samples::{File, read},
    units,
};
use crate::cli::{
    failure::Failure,
    printable::{Passes, Printable},
    required_calls::{HEAD, percent, plain, row},
    show,
};
use analysis::{
    Counts, Design, Deviation, End, Question, Sample, Spending, Tolerance,
    power::{Power, PowerAt, Spread},
    thousands,
};
use domain::release::power_analysis::{ASSUMED_ERROR_RATE, ASSUMED_VARIATION, WANTED};
use protocol::api::PlannedPoint;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What it takes")]
#[group(id = "takes")]
pub struct Args {
    /// Say how many calls it takes, instead of judging; --baseline tells how values vary, or --cv, or --error-rate
    #[arg(long)]
    pub plan: bool,
    /// The canary's share of the calls; 50% if not given
    #[arg(long, value_name = "SHARE", value_parser = units::share, requires = "plan")]
    split: Option<f64>,
    /// How values vary: standard deviation by mean; 0.5 if not given
    #[arg(long, value_name = "NUMBER", value_parser = units::positive, requires = "plan",
        conflicts_with_all = ["baseline", "rate"])]
    cv: Option<f64>,
    /// A typical value in --unit, which a tolerance that is no share needs
    #[arg(long, value_name = "NUMBER", value_parser = units::positive, requires = "plan",
        conflicts_with_all = ["baseline", "rate"])]
    median: Option<f64>,
    /// How many calls of the baseline fail; 0.1% if not given
    #[arg(long, value_name = "SHARE", value_parser = units::share, requires = "rate", conflicts_with = "baseline")]
    error_rate: Option<f64>,
    /// Calls of both versions together, as 40/s, 2000/m or 5000/h
    #[arg(long, value_name = "CALLS/TIME", value_parser = units::traffic, requires = "plan")]
    traffic: Option<f64>,
    /// Say what so many calls of both versions together are good for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000_000), requires = "plan",
        conflicts_with = "duration")]
    calls: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Takes {
    /// What the numbers rest on.
    assumed: String,
    canary_share: f64,
    design: Design,
    /// Changes are ratios, not differences.
    relative: bool,
    calls_per_second: Option<f64>,
    /// For each wanted share of passes; `null`: no number of calls does.
    wanted: Vec<(f64, Option<PowerAt>)>,
    /// What there is.
    given: Option<PowerAt>,
}

pub fn run(args: &super::Args, mut design: Design, out: &mut impl Write) -> Result<u8, Failure> {
    let own = &args.takes;
    if let Some(looks) = args.looks {
        let duration_ms = u64::from(looks) * 1_000;
        design.end = End::After { duration_ms, interval_ms: 1_000, spending: Spending::default() };
    }
    let (spread, assumed) = spread(args)?;
    let canary_share = own.split.unwrap_or(0.5);
    let power =
        Power::new(&design, &spread, canary_share).map_err(|fault| Failure::user(fault.to_string()))?;
    let given = match (own.calls, own.traffic, args.duration) {
        (Some(calls), ..) => Some(calls),
        (None, Some(traffic), Some(duration)) => Some((traffic * duration.as_secs_f64()) as u64),
        _ => None,
    };
    let takes = Takes {
        assumed,
        canary_share,
        relative: matches!(design.tolerance, Tolerance::Ratio(_)),
        design,
        calls_per_second: own.traffic,
        wanted: WANTED.map(|share| (share, power.calls(share).map(|calls| power.point(calls)))).into(),
        given: given.map(|calls| power.point(calls.max(2))),
    };
    warn(&takes)?;
    if args.json {
        show::json(out, &takes)?;
    } else {
        write!(out, "{}", text(&takes, args))?;
    }
    Ok(0)
}

/// How values vary, and in words on what that rests.
fn spread(args: &super::Args) -> Result<(Spread, String), Failure> {
    if let Some(path) = &args.baseline {
        let (sample, name) = (whole(read(path, columns(args))?)?, path.display());
        let count = sample.count();
        return Ok(match sample {
            Sample::Counts(Counts { calls, events }) => {
                let rate = events as f64 / calls.max(1) as f64;
                (Spread::Events { rate }, format!("{events} events of {calls} calls, as in {name}"))
            }
            sample => (Spread::Observed(sample), format!("values vary as the {count} of {name}")),
        });
    }
    let own = &args.takes;
    if args.rate {
        let rate = own.error_rate.unwrap_or(ASSUMED_ERROR_RATE);
        return Ok((Spread::Events { rate }, format!("{} % of the calls are events", plain(rate * 100.0))));
    }
    let cv = own.cv.unwrap_or(ASSUMED_VARIATION);
    let assumed = format!("log-normal values whose standard deviation is {} of their mean", plain(cv));
    Ok((Spread::of_variation(cv, own.median), assumed))
}

/// All strata together.
fn whole(file: File) -> Result<Sample, Failure> {
    let mut samples = file.strata().into_values();
    let first = samples.next().unwrap_or(Sample::Values(Vec::new()));
    let sum = samples.try_fold(first, |sum, next| sum.with(&next));
    sum.ok_or_else(|| Failure::user("the baseline mixes values and counts"))
}

fn warn(takes: &Takes) -> Result<(), Failure> {
    let (Some(given), Some((share, wanted))) = (takes.given, takes.wanted.first()) else { return Ok(()) };
    if given.passes >= *share {
        return Ok(());
    }
    let advice = match wanted {
        Some(wanted) => format!("raise the number of calls to {}", thousands(wanted.calls)),
        None => format!("raise the tolerance, for no number of calls lets {} pass", percent(*share)),
    };
    let note = format!(
        "warning: {advice}: with {} calls only {} of equal versions pass",
        thousands(given.calls),
        percent(given.passes)
    );
    writeln!(Printable::stderr(Passes::None), "{note}")?;
    Ok(())
}

fn text(takes: &Takes, args: &super::Args) -> String {
    let design = &takes.design;
    let tolerance = match design.tolerance {
        Tolerance::Ratio(share) => format!("{} %", plain(share * 100.0)),
        Tolerance::Shift(amount) => format!("{} {}", plain(amount), args.unit),
    };
    let what = match design.question {
        Question::Location => "values",
        Question::Quantile(_) => "the tail",
        Question::Rate { .. } => "a rate",
    };
    let way = match design.deviation {
        Deviation::High => "higher",
        Deviation::Low => "lower",
        Deviation::Either => "higher or lower",
    };
    let floor = match design.question {
        Question::Rate { floor } if floor > 0.0 => format!(", floor {} %", plain(floor * 100.0)),
        Question::Rate { .. } | Question::Location | Question::Quantile(_) => String::new(),
    };
    let mut text = format!(
        "Worse is: {what} {way} by more than {tolerance}. Alpha {} %{floor}, {} % of the calls on the canary, {}.\nAssumed: {}.\n\n",
        plain(design.alpha * 100.0),
        plain(takes.canary_share * 100.0),
        show::counted(design.looks().unwrap_or(1), "look", "looks"),
        show::one_line(&takes.assumed)
    );
    let planned = |point: Option<&PowerAt>, wanted: f64| PlannedPoint {
        calls: point.map(|point| point.calls),
        seconds: point.and_then(|point| Some(point.calls as f64 / takes.calls_per_second?)),
        passes: point.map_or(wanted, |point| point.passes),
        smallest_change: point.and_then(|point| point.smallest_change),
    };
    let wanted = takes.wanted.iter().map(|(wanted, point)| planned(point.as_ref(), *wanted));
    let points = wanted.chain(takes.given.iter().map(|point| planned(Some(point), 0.0)));
    let unit = args.unit.to_string();
    text.push_str(&show::table(&HEAD, points.map(|point| row(&point, takes.relative, &unit))));
    text
}
