//! `choirmaster workflow show`.

use std::io::Write;

use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::{WorkflowDetail, WorkflowInstance, WorkflowInstances};

/// Show which node runs which function and resource of a workflow.
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
    print(args.json, &found, out)
}

/// Prints a workflow as JSON, or for people.
pub(super) fn print(as_json: bool, found: &WorkflowDetail, out: &mut impl Write) -> Result<u8, Failure> {
    if as_json {
        show::json(out, found)?;
    } else {
        write!(out, "{}", text_of(found))?;
    }
    Ok(0)
}

fn text_of(found: &WorkflowDetail) -> String {
    let WorkflowDetail { workflow, functions, resources } = found;
    let (name, strategy) = (show::one_line(&workflow.name), &workflow.strategy);
    let mut text = format!("{name}: {}, strategy {strategy}\n\n", workflow.state);
    let row = |name: &str, of: &WorkflowInstances, last: &str| {
        vec![show::one_line(name), phase(of), nodes(of), show::one_line(last)]
    };
    let rows = functions.iter().map(|one| row(&one.name, &one.instances, &one.function));
    text += &show::table(&["FUNCTION", "STATE", "NODE", "CALLED"], rows);
    if !resources.is_empty() {
        let rows = resources.iter().map(|one| row(&one.name, &one.instances, &one.class));
        text.extend(["\n", &show::table(&["RESOURCE", "STATE", "NODE", "CLASS"], rows)]);
    }
    let functions = functions.iter().map(|one| (&one.name, &one.instances));
    for (name, of) in functions.chain(resources.iter().map(|one| (&one.name, &one.instances))) {
        if let Some(why) = of.instance.as_ref().and_then(|instance| instance.why.as_deref()) {
            text.extend([format!("\n{} failed: {}\n", show::one_line(name), show::one_line(why))]);
        }
    }
    if workflow.waiting > 0 {
        text.push_str("\nWhy no node may run a function: choirmaster workflow plan FILE\n");
    }
    text
}

/// Where it runs, and where it moves to.
fn nodes(one: &WorkflowInstances) -> String {
    let from = one.instance.as_ref().map_or_else(|| "-".to_owned(), node);
    one.next.as_ref().map_or(from.clone(), |next| format!("{from} -> {}", node(next)))
}

fn phase(one: &WorkflowInstances) -> String {
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
