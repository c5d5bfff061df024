//! `choirmaster router …`.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;

use super::{form, order};
use crate::cli::{
    client::{AuditNote, Client, Connection, ListArgs},
    failure::Failure,
    show,
};
use protocol::api::{OrderRequest, Router, RouterDetail};

/// Look at routers, and have them checked, repaired or reloaded.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the routers
    #[command(after_help = "Example: choirmaster router list --phase paused")]
    List {
        /// Only idle, waiting, telling, in_force, paused, accepted or superseded
        #[arg(long, value_name = "PHASE")]
        phase: Option<String>,
        /// Only routers that lead this service
        #[arg(long, value_name = "SERVICE")]
        service: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a router: what it leads, who gets what, and what was asked of it
    Show {
        /// Id or name of its child; of an id, as much as no other child's begins with
        #[arg(value_name = "ROUTER")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Have a router check its configuration, and tell what of ours there belongs to nothing
    #[command(after_help = "Example: choirmaster router check edge-1 --config /etc/nginx/nginx.conf.new\n\n\
                      1: the router refuses its configuration, or nobody has answered.")]
    Check {
        /// Another main configuration, by its path on the machine of the router's agent
        #[arg(long, value_name = "FILE")]
        config: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Put what is wanted of a router in force again, whatever it was left alone for
    Repair(Target),
    /// Have a router load its configuration anew, after a check
    Reload(Target),
}

#[derive(Debug, clap::Args)]
pub struct Target {
    /// Id or name of its child; of an id, as much as no other child's begins with
    #[arg(value_name = "ROUTER")]
    pub id: String,
    /// Wait so long for the outcome
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub wait: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub noted: AuditNote,
    #[command(flatten)]
    pub connection: Connection,
}

impl Target {
    /// Asks the router for something.
    pub async fn order(&self, what: &str, asked: OrderRequest, out: &mut impl Write) -> Result<u8, Failure> {
        let client = Client::new(&self.connection)?;
        let id = client.router_id(&self.id).await?;
        let noted = self.noted.body();
        let body = OrderRequest { by: noted.by, note: noted.note, ..asked };
        order::put(&client, (&id, what), &body, (&self.wait, self.json), out).await
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List { phase, service, list } => {
            let client = Client::new(&list.connection)?;
            let named = [("phase", &phase), ("service", &service)];
            let query: Vec<(&str, &str)> =
                named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let found = client.list(&["api", "v1", "routers"], &query, list.limit).await?;
            let nothing = if query.is_empty() { "no routers are led" } else { "no such routers" };
            show::list(out, &found, list.json, nothing, table)?;
            Ok(0)
        }
        Command::Show { id, json, connection } => one(&id, json, &connection, out).await,
        Command::Check { config, target } => {
            target.order("check", OrderRequest { config, ..OrderRequest::default() }, out).await
        }
        Command::Repair(target) => target.order("repair", OrderRequest::default(), out).await,
        Command::Reload(target) => target.order("reload", OrderRequest::default(), out).await,
    }
}

fn table(routers: &[Router]) -> String {
    let now = Timestamp::now();
    let rows = routers.iter().map(|router| {
        vec![
            router.id.clone(),
            show::or_dash(router.name.as_deref()),
            router.kind.clone(),
            phase(router),
            router.services.len().to_string(),
            router.drifts.to_string(),
            show::ago(router.last_call.as_deref(), now),
            show::or_dash(router.trouble.as_deref()),
        ]
    });
    let head = ["ID", "NAME", "KIND", "PHASE", "SERVICES", "DRIFTS", "LAST CALL", "TROUBLE"];
    show::table(&head, rows)
}

fn phase(router: &Router) -> String {
    if router.reached { router.phase.clone() } else { format!("{}, away", router.phase) }
}

async fn one(id: &str, json: bool, connection: &Connection, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(connection)?;
    let id = client.router_id(id).await?;
    let detail: RouterDetail = client.get(&["api", "v1", "routers", &id], &[]).await?;
    if json {
        show::json(out, &detail)?;
        return Ok(0);
    }
    let (router, now) = (&detail.router, Timestamp::now());
    writeln!(out, "{}", show::one_line(&router.id))?;
    let fields = [
        ("name", show::or_dash(router.name.as_deref())),
        ("kind", router.kind.clone()),
        ("version", show::or_dash(router.version.as_deref())),
        ("phase", phase(router)),
        ("since", show::ago(Some(&router.since), now)),
        ("trouble", show::or_dash(router.trouble.as_deref())),
        ("drifts", router.drifts.to_string()),
        ("repairs", format!("{} within the last hour", router.repairs)),
        ("last call", show::ago(router.last_call.as_deref(), now)),
    ];
    let takeover = router.takeover_trouble.iter().map(|why| ("takeover", format!("none: {why}")));
    let shared = detail.led.iter().flat_map(form::shared_ports).map(|text| ("shared", text));
    for (name, value) in fields.into_iter().chain(takeover).chain(shared) {
        writeln!(out, "  {name:<10} {}", show::one_line(&value))?;
    }
    if !detail.led.is_empty() {
        write!(out, "{}", form::by_router(&detail.led))?;
    }
    if router.untold > 0 {
        writeln!(out, "… and {} services more", router.untold)?;
    }
    for service in &detail.led {
        form::stands(out, service, now)?;
    }
    for order in &detail.orders {
        form::order(out, order)?;
    }
    Ok(0)
}
