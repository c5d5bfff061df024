//! `choirmaster workflow plan`: where a workflow would run, before anything happens.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// How one of several nodes is chosen: random, round_robin, spread or nearest; by default the manager's placement.strategy
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Seed of random choices: the same number gives the same plan on the same nodes
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
    let text = read(&args.file)?;
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

/// The text of a workflow; `-` is standard input.
pub(super) fn read(file: &str) -> Result<Vec<u8>, Failure> {
    let text = if file == "-" {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).map(|_| text)
    } else {
        fs::read(file)
    };
    text.map_err(|error| Failure::user(format!("{file} can't be read: {error}")))
}

fn text_of(plan: &WorkflowPlan) -> String {
    let WorkflowPlan { strategy, seed, nodes, resources, functions, warnings: _ } = plan;
    let parts = || {
        functions.iter().map(|part| ("function", part)).chain(resources.iter().map(|part| ("resource", part)))
    };
    let twice = named_twice(plan);
    let rows = parts().map(|(what, part)| {
        vec![
            what.to_owned(),
            show::one_line(&part.name),
            show::one_line(&part.class),
            show::or_dash(part.runtime.as_deref()),
            part.node.as_ref().map_or_else(|| "-".to_owned(), |node| named(node, &twice)),
        ]
    });
    let mut text = show::table(&["PART", "NAME", "CLASS", "RUNTIME", "NODE"], rows);
    let (told, untold): (Vec<_>, Vec<_>) = parts()
        .map(|(_, part)| part)
        .filter(|part| part.node.is_none())
        .partition(|part| *nodes == 0 || !part.refused.is_empty());
    for part in told {
        text.push_str(&why_not(part, *nodes, &twice));
    }
    if !untold.is_empty() {
        let more = show::counted(untold.len() as u64, "more part", "more parts");
        text.extend([format!("\n{more} can't run, of which the manager doesn't say why\n")]);
    }
    let nodes = show::counted(*nodes, "node", "nodes");
    text.extend([format!("\n{nodes}, strategy {strategy}, seed {seed}\n")]);
    text
}

fn why_not(part: &PlannedPart, nodes: u64, twice: &BTreeSet<String>) -> String {
    let mut text = format!("\n{} can't run:\n", show::one_line(&part.name));
    if nodes == 0 {
        text.push_str("  there is no node: agents with node.placements: true are\n");
    }
    for refused in &part.refused {
        let count = show::counted(refused.count, "node", "nodes");
        let named: Vec<String> = refused.nodes.iter().map(|node| named(node, twice)).collect();
        let more = if (named.len() as u64) < refused.count { ", …" } else { "" };
        text.extend([format!(
            "  {}: {count} ({}{more})\n",
            show::one_line(&refused.reason),
            named.join(", ")
        )]);
    }
    text
}

/// Names that more than one node has.
fn named_twice(plan: &WorkflowPlan) -> BTreeSet<String> {
    let parts = plan.functions.iter().chain(&plan.resources);
    let nodes = parts.flat_map(|part| part.node.iter().chain(part.refused.iter().flat_map(|of| &of.nodes)));
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    let twice = nodes.filter_map(|node| {
        let name = node.name.as_deref()?;
        (*ids.entry(name).or_insert(&node.id) != node.id).then(|| name.to_owned())
    });
    twice.collect()
}

fn named(node: &PlannedNode, twice: &BTreeSet<String>) -> String {
    match &node.name {
        Some(name) if twice.contains(name) => {
            format!("{} ({})", show::one_line(name), show::one_line(&node.id))
        }
        Some(name) => show::one_line(name),
        None => show::one_line(&node.id),
    }
}
