//! `choirmaster release logs`.
//!
//! A log may hold secrets, and so no agent sends one to its manager: it is read where the agent runs, by whoever may open its control
//! socket. The manager is asked which agents these are.

use std::{io::Write, path::PathBuf};

use super::show::name;
use crate::cli::{
    agent::{DEFAULT_CONTROL, failed_logs},
    client::{Client, Connection},
    failure::Failure,
};
use protocol::api::ReleaseChild;

/// Most children that are named.
const MOST: usize = 20;

/// Show what versions wrote that failed in a release
///
/// Agents keep the logs of the last three versions that failed, 64 KiB of each, and send them to nobody. Where no agent of this machine has
/// them, it is said which agents do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster release logs canary")]
pub struct Args {
    /// Id of the release
    #[arg(value_name = "RELEASE")]
    id: String,
    /// The control socket of the agent on this machine
    #[arg(long, value_name = "PATH", env = "CHOIRMASTER_AGENT_CONTROL", default_value = DEFAULT_CONTROL)]
    control: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    match failed_logs(&args.control, &args.id).await {
        Ok(logs) => {
            out.write_all(&logs)?;
            return Ok(0);
        }
        // There is no agent here, or nothing of this release failed at it.
        Err(error) if error.is_the_callers() => {}
        Err(error) => return Err(error.into()),
    }
    let client = Client::new(&args.connection)?;
    let path = ["api", "v1", "releases", &args.id, "children"];
    let (failed, more): (Vec<ReleaseChild>, bool) =
        client.list(&path, &[("outcome", "failed")], MOST).await?;
    if failed.is_empty() {
        writeln!(out, "no child failed in release {}", args.id)?;
        return Ok(0);
    }
    writeln!(out, "agents keep their logs to themselves; where they run:")?;
    for child in &failed {
        let ask = match &child.agents {
            Some(_) => format!("choirmaster release logs {} --url URL of that manager", args.id),
            None => format!("choirmaster agent logs --release {}", args.id),
        };
        writeln!(out, "  {}: {ask}", name(child))?;
    }
    if more {
        writeln!(out, "  … and more: choirmaster release show {} --outcome failed", args.id)?;
    }
    Ok(0)
}
