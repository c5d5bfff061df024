//! `choirmaster workflow stop`.

use std::io::Write;

use reqwest::Method;

use crate::cli::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
};

/// Stop a workflow: its functions end, and then it is gone.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    client.act(Method::DELETE, &["api", "v1", "workflows", &args.name], &args.noted.body()).await?;
    writeln!(out, "{}: stopping", args.name)?;
    Ok(0)
}
