//! `choirmaster workflow plan`: where a workflow would run, before anything happens.

use std::{
    fs,
    io::{self, Read, Write},
};

use reqwest::Method;

use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    printable::{Passes, Printable},
    show,
};
use protocol::api::{PlannedNode, PlannedPart, WorkflowPlan};

/// Show on which node each function and resource of a workflow would run, and why not on the others.
///
/// Nothing happens: the manager plans on the nodes that it has now. A node is the machine of an agent with node.placements: true.
///
/// Ends with 0 if everything can run, with 1 if something can't.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster workflow plan workflow.json\n  \
    choirmaster workflow plan workflow.json --strategy spread\n  \
    choirmaster workflow plan workflow.json --seed 7 --json")]
pub struct Args {
    /// The workflow, in the form of EDGELESS; - reads standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// How one of several nodes is chosen: random, round_robin, spread or nearest; if not given as the manager is set
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Where chance begins: the same number again gives the same plan on the same nodes
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let text =
        read(&args.file).map_err(|error| Failure::user(format!("{} can't be read: {error}", args.file)))?;
    let mut query = Vec::new();
    query.extend(args.strategy.as_ref().map(|strategy| ("strategy", strategy.clone())));
    query.extend(args.seed.map(|seed| ("seed", seed.to_string())));
    let request = client.request(Method::POST, &["api", "v1", "workflows", "plan"]).query(&query);
    let request = request.header("content-type", "application/json").body(text);
    let plan: WorkflowPlan = client.post(request).await?;
    for warning in &plan.warnings {
        writeln!(Printable::stderr(Passes::None), "warning: {}", show::one_line(warning))?;
    }
    if args.json {
        show::json(out, &plan)?;
    } else {
        write!(out, "{}", text_of(&plan))?;
    }
    let parts = plan.functions.iter().chain(&plan.resources);
    Ok(u8::from(parts.into_iter().any(|part| part.node.is_none())))
}

fn read(file: &str) -> io::Result<Vec<u8>> {
    if file != "-" {
        return fs::read(file);
    }
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    Ok(text)
}

fn text_of(plan: &WorkflowPlan) -> String {
    let WorkflowPlan { strategy, seed, nodes, resources, functions, warnings: _ } = plan;
    let parts = || {
        functions.iter().map(|part| ("function", part)).chain(resources.iter().map(|part| ("resource", part)))
    };
    let rows = parts().map(|(what, part)| {
        vec![
            what.to_owned(),
            show::one_line(&part.name),
            show::one_line(&part.class),
            show::or_dash(part.runtime.as_deref()),
            part.node.as_ref().map_or_else(|| "nowhere".to_owned(), named),
        ]
    });
    let mut text = show::table(&["PART", "NAME", "CLASS", "RUNTIME", "NODE"], rows);
    for part in parts().map(|(_, part)| part).filter(|part| part.node.is_none()) {
        text.push_str(&why_not(part, *nodes));
    }
    let nodes = show::counted(*nodes, "node", "nodes");
    text.extend([format!("\n{nodes}, strategy {strategy}, seed {seed}\n")]);
    text
}

fn why_not(part: &PlannedPart, nodes: u64) -> String {
    let mut text = format!("\n{} can't run:\n", show::one_line(&part.name));
    if nodes == 0 {
        text.push_str("  there is no node: agents with node.placements: true are\n");
    }
    for refused in &part.refused {
        let count = show::counted(refused.count, "node", "nodes");
        let named: Vec<String> = refused.nodes.iter().map(named).collect();
        let more = if (named.len() as u64) < refused.count { ", …" } else { "" };
        text.extend([format!(
            "  {}: {count} ({}{more})\n",
            show::one_line(&refused.reason),
            named.join(", ")
        )]);
    }
    text
}

fn named(node: &PlannedNode) -> String {
    show::one_line(node.name.as_deref().unwrap_or(&node.id))
}
