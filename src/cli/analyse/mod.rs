//! `choirmaster analyse`: the judgement of a release, offline, on samples in files.

mod import;
mod replay;
mod samples;
mod takes;
mod text;
mod units;

use std::{io::Write, path::PathBuf, time::Duration};

use clap::ValueEnum;

use self::{
    samples::{Columns, File, Strata, read},
    units::{Tolerated, Unit},
};
use super::{
    failure::{Failure, USER},
    printable::{Passes, Printable},
    show,
};
use analysis::{
    Counts, Design, Deviation, EARLY_PART, Finding, Judgement, Occasion, Question, RunVariation, Sample,
    Sampling, Stratum, Verdict,
};
use language::analysis::DEFAULT_FLOOR;

/// Exit code: the canary is worse.
pub const FAIL: u8 = 4;

/// Exit code: neither is shown, or there are no data.
pub const UNDECIDED: u8 = 5;

/// Judge a canary against a baseline, on samples in files.
///
/// The same judgement that a release gets: is the canary worse by more than the tolerance? A pass says that it isn't,
/// at the level of --alpha; with too few samples to say either, the result is inconclusive.
///
/// With --plan it says beforehand what it takes: how many calls let equal versions pass, and which change they find.
///
/// With --looks or --duration the files are gone through as a release would: interval by interval, until a look decides.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Files: CSV (a column of numbers, or --column), a JSON array of numbers or of objects\n\
    (with --column), a JSON histogram as DDSketch writes it, or JSON counts {\"calls\": 1000, \"events\": 3}.\n\n\
    Examples:\n  \
    choirmaster analyse --baseline old.csv --canary new.csv --column ms\n  \
    choirmaster analyse --baseline old.json --canary new.json --quantile p99 --tolerance 20ms\n  \
    choirmaster analyse --baseline old.csv --canary new.csv --column failed --rate --floor 0.1%\n  \
    choirmaster analyse --baseline old.csv --canary new.csv --column ms --time at --duration 30m --looks 12\n  \
    choirmaster analyse --plan --split 20% --cv 0.8 --traffic 40/s --duration 30m --looks 12\n  \
    choirmaster analyse --plan --rate --error-rate 0.1% --calls 12000\n\n\
    Exit codes: 0 pass, 4 fail, 5 inconclusive or no data; 1 the caller's fault, bad data included;\n\
    2 the program's"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Samples of the version that is known; - reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "plan")]
    baseline: Option<PathBuf>,
    /// Samples of the version that is judged; - reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "plan", conflicts_with = "plan")]
    canary: Option<PathBuf>,
    /// The column or field that holds the values: its name, or its number from 1
    #[arg(long, value_name = "COLUMN")]
    column: Option<String>,
    /// A column by which like is compared with like: the stage, the split, the minute, the child
    #[arg(long, value_name = "COLUMN")]
    stratum: Option<String>,
    /// What the values are in: ns, us, ms, s, m, h, or any other word
    #[arg(long, value_name = "UNIT", default_value = "ms")]
    unit: Unit,
    /// How much worse is still good: a share of the baseline (5%), or an amount with its unit (20ms)
    #[arg(long, value_name = "TOLERANCE", default_value = "5%")]
    tolerance: Tolerated,
    /// Which way is worse
    #[arg(long, value_enum, default_value_t = Way::High)]
    deviation: Way,
    /// Judge the tail instead of the middle: the values beyond this quantile, as p99 or 0.99
    #[arg(long, value_name = "QUANTILE", value_parser = units::quantile, conflicts_with = "rate")]
    quantile: Option<f64>,
    /// Judge a rate: each value that isn't 0 counts as an event, or the file holds counts
    #[arg(long)]
    rate: bool,
    /// A rate below this doesn't fail; 0.1% if not given
    #[arg(long, value_name = "SHARE", value_parser = units::share, requires = "rate")]
    floor: Option<f64>,
    /// The most false alarms
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = units::share)]
    alpha: f64,
    /// The values are points of time series, in order of time, and know of each other
    #[arg(long, conflicts_with = "rate")]
    series: bool,
    /// The baseline is an earlier run: how much one version varies from run to run
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    run_variation: Option<f64>,
    /// Look so many times, as a release does; 10 with --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    looks: Option<u32>,
    /// How long the release would look; without --time the values are spread over it in the order of the files
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Let a look before the last pass, as earlyPass does in a release; the last one demands a little more for it
    #[arg(long)]
    early_pass: bool,
    /// The column that says when each value was measured: in seconds, or as RFC 3339 has it
    #[arg(long, value_name = "COLUMN", requires = "duration", conflicts_with = "plan")]
    time: Option<String>,
    #[command(flatten)]
    takes: takes::Args,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Import(import::Args),
}

/// [`Deviation`] as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    High,
    Low,
    Either,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    if let Some(Command::Import(args)) = &args.command {
        return import::run(args, out);
    }
    let design = design(args)?;
    if args.takes.plan {
        return takes::run(args, design, out);
    }
    let [baseline, canary] = files(args)?;
    if args.looks.is_some() || args.duration.is_some() {
        return replay::run(args, design, baseline, canary, out);
    }
    let strata = strata(baseline, canary)?;
    let mut judgement = Judgement::new(design).map_err(|fault| Failure::user(fault.to_string()))?;
    let finding = judgement.look(&strata, 0, Occasion::Last);
    if args.json {
        show::json(out, &finding)?;
    } else {
        write!(out, "{}", text::of(&finding.evidence))?;
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

fn design(args: &Args) -> Result<Design, Failure> {
    let mut design = Design::new(args.tolerance.of(&args.unit).map_err(Failure::user)?);
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
        design.question = Question::Rate { floor: args.floor.unwrap_or(DEFAULT_FLOOR) };
    }
    if args.series {
        design.sampling = Sampling::Series;
    }
    if args.early_pass {
        if args.looks.is_none() && args.duration.is_none() {
            return Err(Failure::user("with one look there is none before it: add --looks or --duration"));
        }
        design.early = EARLY_PART;
    }
    design.run_variation = args.run_variation.map(RunVariation::Given);
    design.check().map_err(|fault| Failure::user(fault.to_string()))?;
    Ok(design)
}

fn files(args: &Args) -> Result<[File; 2], Failure> {
    let (Some(baseline), Some(canary)) = (&args.baseline, &args.canary) else {
        return Err(Failure::user("name the files, as in --baseline old.csv --canary new.csv"));
    };
    let stdin = |path: &PathBuf| path.as_os_str() == "-";
    if stdin(baseline) && stdin(canary) {
        return Err(Failure::user("only one of --baseline and --canary can be standard input"));
    }
    Ok([read(baseline, columns(args))?, read(canary, columns(args))?])
}

fn columns(args: &Args) -> Columns<'_> {
    Columns {
        values: args.column.as_deref(),
        stratum: args.stratum.as_deref(),
        time: args.time.as_deref(),
        rate: args.rate,
    }
}

/// Both files, put side by side by stratum. What only one of them has is nothing to be compared.
fn strata(baseline: File, canary: File) -> Result<Vec<Stratum>, Failure> {
    let is_empty = baseline.is_empty() || canary.is_empty();
    let (strata, alone) = side_by_side(baseline.strata(), canary.strata(), 0, is_empty);
    if alone > 0 {
        let count = show::counted(alone, "stratum is", "strata are");
        if strata.is_empty() {
            return Err(Failure::user(format!(
                "the files have no stratum in common: {count} in one of them only"
            )));
        }
        writeln!(Printable::stderr(Passes::None), "{count} in one file only, and left out")?;
    }
    Ok(strata)
}

/// Strata of one interval that both sides have, and how many only one has; with `all` these too, beside nothing.
fn side_by_side(baseline: Strata, mut canary: Strata, interval: u64, all: bool) -> (Vec<Stratum>, u64) {
    let mut strata = Vec::new();
    let mut alone = 0;
    for (name, sample) in baseline {
        match canary.shift_remove(&name) {
            Some(other) => strata.push(Stratum::new(name, interval, sample, other)),
            None if all => {
                let nothing = nothing_like(&sample);
                strata.push(Stratum::new(name, interval, sample, nothing));
            }
            None => alone += 1,
        }
    }
    for (name, sample) in canary {
        if all {
            strata.push(Stratum::new(name, interval, nothing_like(&sample), sample));
        } else {
            alone += 1;
        }
    }
    (strata, alone)
}

/// An empty sample that goes beside another.
fn nothing_like(sample: &Sample) -> Sample {
    match sample {
        Sample::Counts(_) => Sample::Counts(Counts::default()),
        Sample::Values(_) | Sample::Histogram(_) | Sample::Measured(_) => Sample::Values(Vec::new()),
    }
}
