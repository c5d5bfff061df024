//! `choirmaster canary show`.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::weight;
use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
    show,
};
use protocol::canary_releases::{CanaryRelease, CanaryService};

/// Show a canary: what it is of, and what is so of it by now.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: choirmaster canary show checkout-2")]
pub struct Args {
    /// Its name
    #[arg(value_name = "CANARY")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let found: CanaryRelease = client.get(&["api", "v1", "canary-releases", &args.id], &[]).await?;
    if args.json {
        show::json(out, &found)?;
    } else {
        write!(out, "{}", text_of(&found, Timestamp::now()))?;
    }
    Ok(0)
}

fn text_of(canary: &CanaryRelease, now: Timestamp) -> String {
    let CanaryRelease { metadata, spec, status, .. } = canary;
    let mut text = format!("{}\n", show::one_line(&metadata.name));
    let services: Vec<String> = spec.services.iter().map(service).collect();
    for (name, value) in [
        ("release", format!("{}, version {}", spec.release, spec.version)),
        ("service", services.join("; ")),
        ("limits", limits(&spec.resources)),
        ("phase", status.phase.clone()),
        ("weight", weight(canary)),
        ("created", show::ago(Some(&metadata.creation_timestamp), now)),
        ("by", metadata.created_by.clone().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            text.extend([format!("  {name:<10} {}\n", show::one_line(&value))]);
        }
    }
    let rows = status.conditions.iter().map(|condition| {
        vec![
            condition.kind.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            show::ago(Some(&condition.last_transition_time), now),
            condition.message.clone(),
        ]
    });
    text.push('\n');
    text + &show::table(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"], rows)
}

/// `cpu 500m, memory 128Mi`.
fn limits(resources: &Map<String, Value>) -> String {
    let all = resources.get("limits").and_then(Value::as_object).into_iter().flatten();
    let each = all.map(|(name, most)| format!("{name} {}", most.as_str().unwrap_or_default()));
    each.collect::<Vec<_>>().join(", ")
}

/// `checkout at 8080 HTTP, 8443 HTTPS`.
fn service(service: &CanaryService) -> String {
    let ports = service.ports.iter().map(|port| format!("{} {}", port.port, port.protocol));
    format!("{} at {}", service.service, ports.collect::<Vec<_>>().join(", "))
}
