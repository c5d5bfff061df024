//! `choirmaster analyse`: the judgement of a release, offline, on samples in files.

mod samples;

use std::{io::Write, path::PathBuf};

use clap::ValueEnum;

use self::samples::{Columns, read};
use super::{
    failure::{Failure, USER},
    printable::{Passes, Printable},
    show,
};
use crate::analysis::{
    Design, Deviation, Evidence, Finding, Judgement, Occasion, Question, RunVariation, Sampling, SideSummary,
    Stratum, Tolerance, Verdict,
};

/// Exit code: the canary is worse.
pub const FAIL: u8 = 4;

/// Exit code: neither is shown, or there are no data.
pub const UNDECIDED: u8 = 5;

/// Judge a canary against a baseline, on samples in files.
///
/// The same judgement that a release gets: is the canary worse by more than the tolerance? A pass says that it isn't,
/// at the level of --alpha; with too few samples to say either, the result is inconclusive.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Files: CSV (a column of numbers, or --column), a JSON array of numbers or of objects\n\
    (with --column), a JSON histogram as DDSketch writes it, or JSON counts {\"calls\": 1000, \"events\": 3}.\n\n\
    Examples:\n  \
    choirmaster analyse --baseline old.csv --canary new.csv --column ms --deviation high\n  \
    choirmaster analyse --baseline old.json --canary new.json --quantile p99 --tolerance 20ms\n  \
    choirmaster analyse --baseline old.csv --canary new.csv --column failed --rate --floor 0.1%\n\n\
    Exit codes: 0 pass, 4 fail, 5 inconclusive or no data; 1 the caller's fault, bad data included;\n\
    2 the program's"
)]
pub struct Args {
    /// Samples of the version that is known; - reads standard input
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// Samples of the version that is judged; - reads standard input
    #[arg(long, value_name = "FILE")]
    canary: PathBuf,
    /// The column or field that holds the values: its name, or its number from 1
    #[arg(long, value_name = "COLUMN")]
    column: Option<String>,
    /// A column by which like is compared with like: the stage, the split, the minute, the child
    #[arg(long, value_name = "COLUMN")]
    stratum: Option<String>,
    /// How much worse is still good: a share (5%), or an amount in the values' unit (20ms, 0.5)
    #[arg(long, value_name = "TOLERANCE", default_value = "5%", value_parser = tolerance)]
    tolerance: Tolerance,
    /// Which way is worse
    #[arg(long, value_enum, default_value_t = Way::Either)]
    deviation: Way,
    /// Judge the tail instead of the middle: the values beyond this quantile, as p99 or 0.99
    #[arg(long, value_name = "QUANTILE", value_parser = quantile, conflicts_with = "rate")]
    quantile: Option<f64>,
    /// Judge a rate: each value that isn't 0 counts as an event, or the file holds counts
    #[arg(long)]
    rate: bool,
    /// A rate below this doesn't fail
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share, requires = "rate")]
    floor: f64,
    /// The most false alarms
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share)]
    alpha: f64,
    /// The values are points of time series, in order of time, and know of each other
    #[arg(long, conflicts_with = "rate")]
    series: bool,
    /// The baseline is an earlier run: how much one version varies from run to run
    #[arg(long, value_name = "SHARE", value_parser = share)]
    run_variation: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// [`Deviation`] as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    High,
    Low,
    Either,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let strata = strata(args)?;
    let mut judgement = Judgement::new(design(args)).map_err(|fault| Failure::user(fault.to_string()))?;
    let finding = judgement.look(&strata, 0, Occasion::Last);
    if args.json {
        show::json(out, &finding)?;
    } else {
        write!(out, "{}", text(&finding.evidence))?;
    }
    Ok(code(&finding))
}

fn code(finding: &Finding) -> u8 {
    match finding.verdict {
        Some(Verdict::Pass) => 0,
        Some(Verdict::Fail) => FAIL,
        Some(Verdict::Error) => USER,
        Some(Verdict::Inconclusive | Verdict::NoData) | None => UNDECIDED,
    }
}

fn design(args: &Args) -> Design {
    let mut design = Design::new(args.tolerance);
    design.alpha = args.alpha;
    design.deviation = match args.deviation {
        Way::High => Deviation::High,
        Way::Low => Deviation::Low,
        Way::Either => Deviation::Either,
    };
    if let Some(q) = args.quantile {
        design.question = Question::Quantile(q);
    }
    if args.rate {
        design.question = Question::Rate { floor: args.floor };
    }
    if args.series {
        design.sampling = Sampling::Series;
    }
    design.run_variation = args.run_variation.map(RunVariation::Given);
    design
}

/// Both files, put side by side by stratum. What only one of them has is nothing to be compared.
fn strata(args: &Args) -> Result<Vec<Stratum>, Failure> {
    let stdin = |path: &PathBuf| path.as_os_str() == "-";
    if stdin(&args.baseline) && stdin(&args.canary) {
        return Err(Failure::user("only one of --baseline and --canary can be standard input"));
    }
    let columns =
        Columns { values: args.column.as_deref(), stratum: args.stratum.as_deref(), rate: args.rate };
    let baseline = read(&args.baseline, columns)?;
    let mut canary = read(&args.canary, columns)?;
    let mut strata = Vec::new();
    let mut alone = 0;
    for (name, sample) in baseline {
        match canary.shift_remove(&name) {
            Some(other) => strata.push(Stratum::new(name, 0, sample, other)),
            None => alone += 1,
        }
    }
    alone += canary.len();
    if alone > 0 {
        let strata = show::counted(alone as u64, "stratum is", "strata are");
        writeln!(Printable::stderr(Passes::None), "{strata} in one file only, and left out")?;
    }
    Ok(strata)
}

fn text(evidence: &Evidence) -> String {
    let mut text = format!("{}\n\n{}", evidence.sentence, sides(evidence));
    if let Some(effect) = &evidence.effect {
        let value = |value: f64| format!("{value:.4}");
        let end = |end: Option<f64>| end.map_or_else(|| "unknown".to_owned(), value);
        let what = if effect.relative { "canary / baseline" } else { "canary − baseline" };
        let confidence = effect.confidence * 100.0;
        text.extend([format!(
            "\n{what}: {} ({confidence:.0} % interval {} to {})\n",
            value(effect.estimate),
            end(effect.low),
            end(effect.high)
        )]);
        if let Some(superiority) = effect.superiority {
            text.extend([format!("P(canary > baseline) + ½ P(equal): {superiority:.4}\n")]);
        }
    }
    if !evidence.tests.is_empty() {
        let rows = evidence.tests.iter().map(|test| {
            vec![
                test.name.clone(),
                format!("{:.2}", test.z),
                short(test.p),
                test.level.map_or_else(|| "-".to_owned(), short),
                short(test.p_pass),
            ]
        });
        let head = ["TESTED", "Z", "P", "FAILS AT", "P OF NO PASS"];
        text.extend(["\n".to_owned(), show::table(&head, rows)]);
    }
    text
}

fn sides(evidence: &Evidence) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let rated = evidence.baseline.rate.is_some() || evidence.canary.rate.is_some();
    let row = |name: &str, side: &SideSummary| {
        let mut row = vec![name.to_owned(), side.count.to_string()];
        if rated {
            row.push(side.events.map_or_else(|| "-".to_owned(), |events| events.to_string()));
            row.push(side.rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.4} %", rate * 100.0)));
        } else {
            row.extend([side.p50, side.p95, side.p99].map(number));
        }
        row
    };
    let head: &[&str] =
        if rated { &["", "CALLS", "EVENTS", "RATE"] } else { &["", "COUNT", "P50", "P95", "P99"] };
    show::table(head, [row("baseline", &evidence.baseline), row("canary", &evidence.canary)])
}

fn short(p: f64) -> String {
    if p < 1e-4 { format!("{p:.1e}") } else { format!("{p:.4}") }
}

/// `5%`, or an amount with or without a unit of time.
fn tolerance(text: &str) -> Result<Tolerance, String> {
    if text.trim().ends_with('%') {
        return share(text).map(Tolerance::Ratio);
    }
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
    number.parse().map(Tolerance::Shift).map_err(|_| "a share as 5%, or an amount as 20ms".to_owned())
}

/// `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text.trim(), 1.0),
    };
    let share: f64 = number.trim().parse().map_err(|_| "a share as 5% or 0.05".to_owned())?;
    Ok(share / unit)
}

/// `p99`, `p99.9` or `0.99`.
fn quantile(text: &str) -> Result<f64, String> {
    let wrong = |_| "a quantile as p99 or 0.99".to_owned();
    match text.trim().strip_prefix(['p', 'P']) {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0).map_err(wrong),
        None => text.trim().parse().map_err(wrong),
    }
}
