//! `choirmaster workflow strategy`.

use std::io::Write;

use reqwest::Method;

use super::show::print;
use crate::cli::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
};
use protocol::api::{WorkflowDetail, WorkflowStrategy};

/// Change how one of several nodes is chosen for what is placed of a workflow from now on.
///
/// What runs already stays where it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster workflow strategy cameras spread\n  \
    choirmaster workflow strategy cameras configured")]
pub struct Args {
    #[arg(value_name = "NAME")]
    name: String,
    /// random, round_robin, spread, nearest; configured: the manager's placement.strategy
    #[arg(value_name = "STRATEGY")]
    strategy: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let note = args.noted.body();
    let strategy = Some(args.strategy.clone()).filter(|strategy| strategy != "configured");
    let body = WorkflowStrategy { strategy, by: note.by, note: note.note };
    let path = ["api", "v1", "workflows", &args.name, "strategy"];
    let set: WorkflowDetail = client.post(client.request(Method::PUT, &path).json(&body)).await?;
    print(args.json, &set, out)
}
