//! `choirmaster release watch`: follows a release to its end.
//!
//! It asks once a second instead of listening to events: what is shown is then always the whole truth, whatever
//! was missed, and a restart of the manager is no more than a few questions without an answer.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::{
    live::{Live, rows_for_children},
    progress, stage_progress,
};
use crate::cli::{
    client::{CallError, Client, Connection},
    failure::{self, Failure},
    outcome,
    printable::{Passes, Printable},
    show,
};
use protocol::api::{Release, ReleaseChild, ReleaseDetail};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where nobody looks at a terminal, numbers are written at most this often; a new state is written at once.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far stages are is written at most this often, where nothing else has changed.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// Most children whose numbers are added up at each look.
const MOST_MEASURED: u32 = 1_000;

/// A manager that has answered before and doesn't any longer is waited for this long.
const PATIENCE: Duration = Duration::from_mins(10);

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// In which order children are of interest.
const OF_INTEREST: [&str; 4] = ["Doing", "Failed", "Todo", "Done"];

/// Follow a release to its end; the exit code tells how it ended.
///
/// A live table on a terminal, a line for each change otherwise. The manager may be restarted meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = outcome::HELP)]
pub struct Args {
    /// Id of the release
    #[arg(value_name = "RELEASE")]
    id: String,
    /// Print the release as one line of JSON at each change
    #[arg(long)]
    json: bool,
    /// Lines instead of a table, also on a terminal
    #[arg(long)]
    plain: bool,
    /// Until it is paused, awaits an approval or ends, whichever comes first; several with commas between [default: end]
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    until: Vec<Until>,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let form = OutputForm::choose(args.json, args.plain);
    follow(&client, &args.id, form, &args.until, out).await
}

/// What a release is followed to. To its end it always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Until {
    Paused,
    Approval,
    End,
}

impl Until {
    /// For what people have to act on a release that stands like this.
    fn awaited(release: &Release) -> Option<Self> {
        match release.state.as_str() {
            "Paused" => Some(Self::Paused),
            "AwaitingApproval" => Some(Self::Approval),
            _ => None,
        }
    }

    /// What lets a release go on that waits for people.
    fn hint(self, id: &str) -> String {
        let goes_on = match self {
            Self::Paused => "resume",
            Self::Approval => "approve",
            Self::End => return String::new(),
        };
        format!(
            "choirmaster release {goes_on} {id} lets it go on, choirmaster release abort {id} rolls it back"
        )
    }
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    Table,
    Lines,
    Json,
}

impl OutputForm {
    pub fn choose(json: bool, plain: bool) -> Self {
        if json {
            Self::Json
        } else if !plain && io::stdout().is_terminal() {
            Self::Table
        } else {
            Self::Lines
        }
    }
}

/// Follows a release until one of these has come, and answers its exit code: 0 where it isn't over.
pub async fn follow(
    client: &Client,
    id: &str,
    form: OutputForm,
    until: &[Until],
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let looking = look_on(client, id, form, until, out);
    let interrupted = tokio::signal::ctrl_c();
    tokio::select! {
        code = looking => code,
        _ = interrupted => {
            let text = format!("no longer watching; release {id} goes on");
            Err(Failure { code: INTERRUPTED, text })
        }
    }
}

async fn look_on(
    client: &Client,
    id: &str,
    form: OutputForm,
    until: &[Until],
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let mut shown = Shown::new(form);
    let mut answered: Option<Instant> = None;
    let mut complained = false;
    let mut awaited = None;
    let mut is_measured = false;
    loop {
        match look(client, id, form, is_measured).await {
            Ok((detail, children)) => {
                is_measured = detail.release.counts.participants <= MOST_MEASURED;
                if std::mem::take(&mut complained) {
                    shown.say("the manager answers again")?;
                }
                answered = Some(Instant::now());
                let code = outcome::code(&detail.release);
                shown.update(&detail, &children, code.is_some(), out)?;
                if let Some(code) = code {
                    return Ok(code);
                }
                let before = std::mem::replace(&mut awaited, Until::awaited(&detail.release));
                if let Some(now) = awaited.filter(|now| before != Some(*now)) {
                    shown.say(&now.hint(id))?;
                }
                if awaited.is_some_and(|awaited| until.contains(&awaited)) {
                    return Ok(0);
                }
            }
            Err(error) => {
                let patient = answered.is_some_and(|at| at.elapsed() < PATIENCE);
                if !patient || !error.is_passing() {
                    return Err(error.into());
                }
                if !std::mem::replace(&mut complained, true) {
                    shown.say("the manager does not answer at the moment; waiting for it")?;
                }
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn look(
    client: &Client,
    id: &str,
    form: OutputForm,
    is_measured: bool,
) -> Result<(ReleaseDetail, Vec<ReleaseChild>), CallError> {
    let query = [("below", "true"), ("measured", if is_measured { "true" } else { "false" })];
    let detail: ReleaseDetail = client.get(&["api", "v1", "releases", id], &query).await?;
    let mut children: Vec<ReleaseChild> = Vec::new();
    let rows = if form == OutputForm::Table { rows_for_children(&detail) } else { 0 };
    for status in OF_INTEREST {
        if children.len() < rows {
            let path = ["api", "v1", "releases", id, "children"];
            let left = rows - children.len();
            children.extend(client.list::<ReleaseChild>(&path, &[("status", status)], left).await?.0);
        }
    }
    Ok((detail, children))
}

/// How far the stages are in which children are at work, with what was measured there.
fn stages_under_way(detail: &ReleaseDetail) -> String {
    let now = Timestamp::now();
    let stages =
        detail.stages.iter().filter_map(|stage| Some((stage, stage_progress::under_way(stage, now)?)));
    let parts = stages.flat_map(|(stage, head)| std::iter::once(head).chain(stage_progress::numbers(stage)));
    parts.fold(String::new(), |text, part| text + "; " + &part)
}

/// What stands on the screen or in the log.
struct Shown {
    form: OutputForm,
    live: Option<Live>,
    line: String,
    state: String,
    /// Verdicts that were told, each with what was judged and in which run.
    verdicts: Vec<(String, u32, String)>,
    written: Option<Instant>,
}

impl Shown {
    fn new(form: OutputForm) -> Self {
        let live = (form == OutputForm::Table).then(Live::new);
        Self { form, live, line: String::new(), state: String::new(), verdicts: Vec::new(), written: None }
    }

    fn update(
        &mut self,
        detail: &ReleaseDetail,
        children: &[ReleaseChild],
        over: bool,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        if let Some(live) = &mut self.live {
            return Ok(live.draw(detail, children, out)?);
        }
        let release = &detail.release;
        let news = self.verdicts(detail);
        for verdict in news.iter().filter(|_| self.form == OutputForm::Lines) {
            self.write(detail, verdict, out)?;
        }
        let line = progress::line(release);
        let stages = if self.form == OutputForm::Lines { stages_under_way(detail) } else { String::new() };
        let is_same = line == self.line;
        let every = if is_same { PROGRESS_EVERY } else { LINE_EVERY };
        let recently = self.written.is_some_and(|at| at.elapsed() < every);
        let quiet = !over && self.state == release.state && recently;
        let told = self.form == OutputForm::Json && !news.is_empty();
        if (is_same && stages.is_empty() || quiet) && !told {
            return Ok(());
        }
        self.write(detail, &format!("{line}{stages}"), out)?;
        self.line = line;
        self.state.clone_from(&release.state);
        self.written = Some(Instant::now());
        Ok(())
    }

    /// Verdicts that are new, in words.
    fn verdicts(&mut self, detail: &ReleaseDetail) -> Vec<String> {
        let mut news = Vec::new();
        for analysis in &detail.analyses {
            let Some(verdict) = &analysis.verdict else { continue };
            let told = (analysis.of.clone(), analysis.run, verdict.clone());
            if !self.verdicts.contains(&told) {
                let why = analysis.why.as_deref().unwrap_or_default();
                let of = show::one_line(&analysis.of);
                news.push(format!("analysis of {of}: {verdict}: {}", show::one_line(why)));
                self.verdicts.push(told);
            }
        }
        news
    }

    fn write(&self, detail: &ReleaseDetail, line: &str, out: &mut impl Write) -> Result<(), Failure> {
        let release = &detail.release;
        if self.form == OutputForm::Json {
            let mut json = serde_json::to_value(release).map_err(io::Error::from)?;
            if let (Some(fields), false) = (json.as_object_mut(), detail.analyses.is_empty()) {
                let analyses = serde_json::to_value(&detail.analyses).map_err(io::Error::from)?;
                fields.insert("analyses".to_owned(), analyses);
            }
            writeln!(out, "{json}")?;
        } else {
            writeln!(out, "{} {} {line}", show::clock(Timestamp::now()), release.id)?;
        }
        // A pipe is read while it is written to.
        out.flush()?;
        Ok(())
    }

    /// Something about the watching itself.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(live) = &mut self.live {
            live.note(text, &mut Printable::stdout(Passes::Drawings))?;
        } else {
            writeln!(Printable::stderr(Passes::None), "{text}")
                .map_err(|_| Failure { code: failure::OURS, text: String::new() })?;
        }
        Ok(())
    }
}
