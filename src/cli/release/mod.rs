//! `choirmaster release …`: submit a release, look at it, steer it.

mod act;
mod diff;
mod differences;
mod import;
mod list;
mod live;
mod logs;
pub mod progress;
mod rollback;
mod show;
pub mod stage_progress;
pub(super) mod submit;
mod watch;

use std::io::Write;

use clap::Subcommand;

pub use self::{differences::differences, progress::line};
use super::{failure::Failure, printable::Passes};

/// Submit, watch and steer releases.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Submit(submit::Args),
    Import(import::Args),
    List(list::Args),
    Show(show::Args),
    Watch(watch::Args),
    Logs(logs::Args),
    Diff(diff::Args),
    Pause(act::Pause),
    Resume(act::Resume),
    Abort(act::Abort),
    #[command(visible_alias = "undo")]
    Rollback(rollback::Args),
    Approve(act::Approve),
    Promote(act::Promote),
    Extend(act::Extend),
    ExtendAnalysis(act::ExtendAnalysis),
    Skip(act::Skip),
    Retry(act::Retry),
    EndStage(act::EndStage),
    SkipStage(act::SkipStage),
}

impl Args {
    /// What the command draws.
    pub(super) fn passes(&self) -> Passes {
        match self.command {
            Command::Submit(_) | Command::Watch(_) | Command::Rollback(_) => Passes::Drawings,
            Command::List(_) | Command::Show(_) => Passes::Colours,
            Command::Import(_)
            | Command::Diff(_)
            | Command::Logs(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Abort(_)
            | Command::Approve(_)
            | Command::Promote(_)
            | Command::Extend(_)
            | Command::ExtendAnalysis(_)
            | Command::Skip(_)
            | Command::Retry(_)
            | Command::EndStage(_)
            | Command::SkipStage(_) => Passes::None,
        }
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::Submit(args) => submit::run(&args, out).await,
        Command::Import(args) => import::run(&args, out).await,
        Command::List(args) => list::run(&args, out).await,
        Command::Show(args) => show::run(&args, out).await,
        Command::Watch(args) => watch::run(&args, out).await,
        Command::Logs(args) => logs::run(&args, out).await,
        Command::Diff(args) => diff::run(&args, out).await,
        Command::Pause(args) => act::run(&args.target, "pause", "paused", out).await,
        Command::Resume(args) => act::run(&args.target, "resume", "resumed", out).await,
        Command::Abort(args) => act::run(&args.target, "abort", "aborted", out).await,
        Command::Rollback(args) => rollback::run(&args, out).await,
        Command::Approve(args) => act::run(&args.target, "approve", "approved", out).await,
        Command::Promote(args) => act::promote(&args, out).await,
        Command::Extend(args) => act::run(&args.target, "extend", "extended", out).await,
        Command::ExtendAnalysis(args) => act::extend_analysis(&args, out).await,
        Command::Skip(args) => act::skip(&args, out).await,
        Command::Retry(args) => act::retry(&args, out).await,
        Command::EndStage(args) => act::end_stage(&args, out).await,
        Command::SkipStage(args) => act::skip_stage(&args, out).await,
    }
}
