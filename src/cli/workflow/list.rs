//! `choirmaster workflow list`.

use std::io::Write;

use jiff::Timestamp;

use crate::cli::{
    client::{self, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::Workflow;

/// List the workflows that run, or that are stopping.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// List at most so many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = client::most)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let found = client.list::<Workflow>(&["api", "v1", "workflows"], &[], args.limit).await?;
    show::list(out, &found, args.json, "no workflow runs", table)?;
    Ok(0)
}

fn table(workflows: &[Workflow]) -> String {
    let now = Timestamp::now();
    let rows = workflows.iter().map(|workflow| {
        vec![
            show::one_line(&workflow.name),
            workflow.state.clone(),
            format!("{} of {}", workflow.running, workflow.functions),
            show::ago(Some(&workflow.started), now),
            show::one_line(&workflow.by),
        ]
    });
    show::table(&["NAME", "STATE", "RUNNING", "STARTED", "BY"], rows)
}
