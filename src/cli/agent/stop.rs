//! `choirmaster agent stop`.

use std::{io::Write, path::PathBuf};

use agent::{
    settings,
    stop::{self, StopError},
};

use super::settings::Settings;
use crate::cli::{
    failure::Failure,
    settings::{Configured as _, Flag, assignment},
};

/// End the agent; with --all also the proxy beside it and all functions, so that nothing runs any more
///
/// Without --all the proxy and the functions go on serving. With it calls to ports of others are given back first (it is said where no other
/// program is known to take them), the proxy takes nothing more and gets up to 90 s to end what it has, and functions and their control groups
/// end last. Nothing of another folder is touched. Whatever has ended already is passed over, so it may be said again. What was served stays in
/// the folder: the agent serves it again once it is started.
///
/// An agent that systemd runs is started again by it: `systemctl stop choirmaster-agent choirmaster-proxy` comes first, and then this ends
/// what is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster agent stop --all\n  \
    choirmaster agent stop --all --state /var/lib/choirmaster-agent")]
pub struct Stop {
    /// Also end the proxy and the functions
    #[arg(long)]
    all: bool,
    /// Configuration file of the agent [default: config/agent.yml, where there is one]
    #[arg(long, value_name = "FILE", env = "CHOIRMASTER_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// Folder in which the agent keeps what has to last [default: data/agent]
    #[arg(long, value_name = "DIR")]
    state: Option<String>,
    /// Set any key of the configuration (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

pub async fn run(args: &Stop, out: &mut impl Write) -> Result<u8, Failure> {
    let flags = Flag::all(&args.set, [("--state", "agent.state", args.state.clone())]);
    let settings = Settings::load(args.config.as_deref(), std::env::vars(), &flags)
        .map_err(|error| Failure::user(error.to_string()))?;
    let settings = settings.into_agent(std::env::current_exe()?);
    // Whoever has read enough of the output still wants all of it to end.
    let mut written = Ok(());
    let mut said = |line: &str| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    };
    if args.all {
        stop::all(&settings, &mut said).await?;
        said(&format!("nothing of {} runs", settings.state.display()));
    } else {
        stop::agent(&settings, &mut said).await?;
        if settings.stop == settings::Stop::Leave {
            said("proxy and functions go on: choirmaster agent stop --all ends them");
        }
    }
    written?;
    Ok(0)
}

impl From<StopError> for Failure {
    fn from(error: StopError) -> Self {
        match error {
            StopError::NoAgent(_) | StopError::Unseen(_) => Self::user(error.to_string()),
            StopError::Keep(_)
            | StopError::Takeover(_)
            | StopError::Processes { .. }
            | StopError::Left(_) => Self::ours(error.to_string()),
        }
    }
}
