//! `choirmaster workflow show`.

use std::io::Write;

use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::{WorkflowDetail, WorkflowFunction, WorkflowInstance};

/// Show which node runs which function of a workflow.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let found: WorkflowDetail = client.get(&["api", "v1", "workflows", &args.name], &[]).await?;
    if args.json {
        show::json(out, &found)?;
    } else {
        write!(out, "{}", text_of(&found))?;
    }
    Ok(0)
}

pub(super) fn text_of(found: &WorkflowDetail) -> String {
    let WorkflowDetail { workflow, functions } = found;
    let rows = functions
        .iter()
        .map(|one| vec![show::one_line(&one.name), phase(one), nodes(one), show::one_line(&one.function)]);
    let table = show::table(&["FUNCTION", "STATE", "NODE", "CALLED"], rows);
    let mut text = format!("{}: {}\n\n{table}", show::one_line(&workflow.name), workflow.state);
    for one in functions {
        if let Some(why) = one.instance.as_ref().and_then(|instance| instance.why.as_deref()) {
            text.extend([format!("\n{} failed: {}\n", show::one_line(&one.name), show::one_line(why))]);
        }
    }
    if workflow.waiting > 0 {
        text.push_str("\nWhy no node may run a function: choirmaster workflow plan FILE\n");
    }
    text
}

/// Where it runs, and where it moves to.
fn nodes(one: &WorkflowFunction) -> String {
    let from = one.instance.as_ref().map_or_else(|| "-".to_owned(), node);
    one.next.as_ref().map_or(from.clone(), |next| format!("{from} -> {}", node(next)))
}

fn phase(one: &WorkflowFunction) -> String {
    match &one.instance {
        Some(_) | None if one.next.is_some() => "moving".to_owned(),
        Some(instance) => instance.phase.clone(),
        None if one.ending.is_empty() => "waiting".to_owned(),
        None => "ending".to_owned(),
    }
}

fn node(instance: &WorkflowInstance) -> String {
    show::one_line(instance.node.name.as_deref().unwrap_or(&instance.node.id))
}
