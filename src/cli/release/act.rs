//! `choirmaster release pause|resume|abort|approve|promote|extend|extend-analysis|skip|retry|end-stage|skip-stage`.

use std::io::Write;

use reqwest::{Method, header::IF_MATCH};

use crate::cli::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::Release;

/// The release to act on, and what is noted of it.
#[derive(Debug, clap::Args)]
pub struct ReleaseTarget {
    /// Id of the release
    #[arg(value_name = "RELEASE")]
    id: String,
    #[command(flatten)]
    noted: AuditNote,
    /// Only if the release is as you saw it, by the tag that `release show` prints
    #[arg(long, value_name = "TAG")]
    if_match: Option<String>,
    /// Print the release as it is afterwards, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Hold a release: no stage is ended and nothing new is handed out; what children have in hand goes on.
#[derive(Debug, clap::Args)]
pub struct Pause {
    #[command(flatten)]
    pub target: ReleaseTarget,
}

/// Let a paused release go on.
#[derive(Debug, clap::Args)]
pub struct Resume {
    #[command(flatten)]
    pub target: ReleaseTarget,
}

/// End a release and bring every child that may run the new version back to the base version.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster release abort canary --note 'wrong folder'")]
pub struct Abort {
    #[command(flatten)]
    pub target: ReleaseTarget,
}

/// Say yes to the wave, the stage or the roll-out that a release waits for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster release approve canary --note 'the first wave looks good'")]
pub struct Approve {
    #[command(flatten)]
    pub target: ReleaseTarget,
}

/// Open what is left of waves, stages, soaks and approvals, or only what comes next
///
/// Limits hold.
#[derive(Debug, clap::Args)]
pub struct Promote {
    #[command(flatten)]
    target: ReleaseTarget,
    /// Have this variation of its service serve alone in the end, whatever the stages say; the stable one: take everything back
    #[arg(long, value_name = "NAME")]
    variation: Option<String>,
    /// Open only what comes next, be it a wave, a stage or an approval; what is behind it waits as before
    #[arg(long, conflicts_with = "variation")]
    to_gate: bool,
    /// Open all that is left, which is what happens without it, too
    #[arg(long, conflicts_with_all = ["variation", "to_gate"])]
    full: bool,
}

/// Take in the children that could take part and were not there when a release started
#[derive(Debug, clap::Args)]
pub struct Extend {
    #[command(flatten)]
    pub target: ReleaseTarget,
}

/// Let an analysis that ended undecided go on
///
/// One that is open goes on after its end if that decides nothing. More looks are paid for out of the same alpha, of which
/// a part was kept for them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster release extend-analysis canary --for 10m")]
#[group(id = "how_long", required = true, multiple = true, args = ["time", "calls"])]
pub struct ExtendAnalysis {
    #[command(flatten)]
    target: ReleaseTarget,
    /// For so long, such as 10m; a day at most
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// Until so many more calls were measured, of both versions; within a day where no time is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
}

/// Take one child out of a release: nobody waits for it any more
#[derive(Debug, clap::Args)]
pub struct Skip {
    #[command(flatten)]
    target: ReleaseTarget,
    /// Id or name of the child; of an id, as much as no other child's begins with
    #[arg(value_name = "CHILD")]
    child: String,
}

/// Offer a release that is over again to the children that failed.
#[derive(Debug, clap::Args)]
pub struct Retry {
    #[command(flatten)]
    target: ReleaseTarget,
    /// Only this child, while the others go on
    #[arg(long, value_name = "CHILD")]
    child: Option<String>,
}

/// Tell all children that run a stage to end it now.
///
/// Agents act on it as soon as they ask; each then judges by what it has measured so far.
#[derive(Debug, clap::Args)]
pub struct EndStage {
    #[command(flatten)]
    target: ReleaseTarget,
    /// Name of the stage
    #[arg(value_name = "STAGE")]
    stage: String,
}

/// Let children pass over a stage that they have not begun, and end it for those that are in it
///
/// Barriers and approvals stay. Where each child walks the whole strategy by itself, no stage can be skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster release skip-stage canary Small --note 'tested by hand'")]
pub struct SkipStage {
    #[command(flatten)]
    target: ReleaseTarget,
    /// Name of the stage
    #[arg(value_name = "STAGE")]
    stage: String,
}

/// Does it, and says how the release stands then.
pub async fn run(
    target: &ReleaseTarget,
    verb: &str,
    done: &str,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let path = ["api", "v1", "releases", &target.id, verb];
    act(target, &path, &format!("{}: {done}", target.id), out).await
}

pub async fn promote(args: &Promote, out: &mut impl Write) -> Result<u8, Failure> {
    let id = &args.target.id;
    let path = ["api", "v1", "releases", id, "promote"];
    let (done, query) = match &args.variation {
        None if args.to_gate => (format!("{id}: what came next is open"), Some(("to", "gate"))),
        None => (format!("{id}: everything is open"), args.full.then_some(("to", "all"))),
        Some(variation) => {
            (format!("{id}: {variation} is promoted"), Some(("variation", variation.as_str())))
        }
    };
    act_with(&args.target, &path, query.as_slice(), &done, out).await
}

pub async fn skip(args: &Skip, out: &mut impl Write) -> Result<u8, Failure> {
    let id = &args.target.id;
    let child = &Client::new(&args.target.connection)?.child_id(&args.child).await?;
    let path = ["api", "v1", "releases", id, "children", child, "skip"];
    act(&args.target, &path, &format!("{id}: {child} is taken out"), out).await
}

pub async fn retry(args: &Retry, out: &mut impl Write) -> Result<u8, Failure> {
    let Some(child) = &args.child else {
        return run(&args.target, "retry", "tried again where it failed", out).await;
    };
    let id = &args.target.id;
    let child = &Client::new(&args.target.connection)?.child_id(child).await?;
    let path = ["api", "v1", "releases", id, "children", child, "retry"];
    act(&args.target, &path, &format!("{id}: {child} gets another attempt"), out).await
}

pub async fn end_stage(args: &EndStage, out: &mut impl Write) -> Result<u8, Failure> {
    let id = &args.target.id;
    let path = ["api", "v1", "releases", id, "stages", &args.stage, "end"];
    act(&args.target, &path, &format!("{id}: stage {:?} ends", args.stage), out).await
}

pub async fn skip_stage(args: &SkipStage, out: &mut impl Write) -> Result<u8, Failure> {
    let id = &args.target.id;
    let path = ["api", "v1", "releases", id, "stages", &args.stage, "skip"];
    act(&args.target, &path, &format!("{id}: stage {:?} is skipped", args.stage), out).await
}

pub async fn extend_analysis(args: &ExtendAnalysis, out: &mut impl Write) -> Result<u8, Failure> {
    let id = &args.target.id;
    let path = ["api", "v1", "releases", id, "extend-analysis"];
    let calls = args.calls.map(|calls| calls.to_string());
    let query: Vec<(&str, &str)> = [("for", args.time.as_deref()), ("calls", calls.as_deref())]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    act_with(&args.target, &path, &query, &format!("{id}: the analysis goes on"), out).await
}

async fn act(target: &ReleaseTarget, path: &[&str], done: &str, out: &mut impl Write) -> Result<u8, Failure> {
    act_with(target, path, &[], done, out).await
}

async fn act_with(
    target: &ReleaseTarget,
    path: &[&str],
    query: &[(&str, &str)],
    done: &str,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let request = client.request(Method::POST, path).query(query).json(&target.noted.body());
    let request = match &target.if_match {
        None => request,
        Some(tag) => request.header(IF_MATCH, format!("\"{}\"", tag.trim_matches('"'))),
    };
    let release: Release = client.post(request).await?;
    if target.json {
        show::json(out, &release)?;
    } else {
        writeln!(out, "{done}; it is {} now", super::progress::state(&release))?;
    }
    Ok(0)
}
