//! `choirmaster workflow move`.

use std::io::Write;

use reqwest::Method;

use super::show::print;
use crate::cli::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
};
use protocol::api::{WorkflowDetail, WorkflowMove};

/// Move a function to another node: to the first of those named that may run it.
///
/// It is started there first, and ends where it was once it runs. If it can't be started, it stays. What it has in memory is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster workflow move cameras generator 5f2c4b1e-0000-4000-8000-000000000001\n  \
    choirmaster workflow move cameras generator NODE-1 NODE-2 --note \"NODE-3 is slow\"")]
pub struct Args {
    #[arg(value_name = "WORKFLOW")]
    name: String,
    #[arg(value_name = "FUNCTION")]
    function: String,
    /// Ids or names of nodes; of an id, as much as no other child's begins with
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
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
    let mut nodes = Vec::new();
    for node in &args.nodes {
        nodes.push(client.child_id(node).await?);
    }
    let note = args.noted.body();
    let body = WorkflowMove { function: args.function.clone(), nodes, by: note.by, note: note.note };
    let request = client.request(Method::POST, &["api", "v1", "workflows", &args.name, "move"]).json(&body);
    let moved: WorkflowDetail = client.post(request).await?;
    print(args.json, &moved, out)
}
