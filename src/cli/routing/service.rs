//! `choirmaster service …`.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;
use reqwest::Method;

use super::{form, router::Target};
use crate::cli::{
    client::{AuditNote, Client, Connection, ListArgs},
    failure::Failure,
    show,
};
use protocol::api::{OrderRequest, RetireRequest, RouterOrder, Service, ServiceDetail};

/// Look at services, take one over that a router leads already, or take one out.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the services
    List(ListArgs),
    /// Show a service: who gets what, over all its routers and at each, and what stands
    Show {
        #[arg(value_name = "SERVICE")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Print the lines by which a router's configuration has a service led that it serves today; nothing is changed
    #[command(after_help = "Example: choirmaster service adopt checkout edge-1")]
    Adopt {
        /// The service, as the router's own configuration calls it
        #[arg(value_name = "SERVICE")]
        service: String,
        #[command(flatten)]
        target: Target,
    },
    /// Drain a service at its routers, and remove what is ours of it there
    #[command(after_help = "Example: choirmaster service retire checkout --note 'moved to the cloud'")]
    Retire {
        #[arg(value_name = "SERVICE")]
        name: String,
        /// Only at this router, by the id or the name of its child
        #[arg(long, value_name = "ROUTER")]
        router: Option<String>,
        /// Print a JSON array of the orders
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        noted: AuditNote,
        #[command(flatten)]
        connection: Connection,
    },
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(list) => {
            let client = Client::new(&list.connection)?;
            let found = client.list(&["api", "v1", "services"], &[], list.limit).await?;
            show::list(out, &found, list.json, "no services are led", table)?;
            Ok(0)
        }
        Command::Show { name, json, connection } => one(&name, json, &connection, out).await,
        Command::Adopt { service, target } => {
            let asked = OrderRequest { service: Some(service), ..OrderRequest::default() };
            target.order("adopt", asked, out).await
        }
        Command::Retire { name, router, json, noted, connection } => {
            let client = Client::new(&connection)?;
            let router = match router {
                Some(router) => Some(client.router_id(&router).await?),
                None => None,
            };
            let noted = noted.body();
            let body = RetireRequest { by: noted.by, note: noted.note, router };
            let request = client.request(Method::POST, &["api", "v1", "services", &name, "retire"]);
            let orders: Vec<RouterOrder> = client.post(request.json(&body)).await?;
            if json {
                show::json(out, &orders)?;
                return Ok(0);
            }
            for order in &orders {
                form::order(out, order)?;
            }
            Ok(0)
        }
    }
}

fn table(services: &[Service]) -> String {
    let rows = services.iter().map(|service| {
        let shares: Vec<String> = service
            .variations
            .iter()
            .map(|one| format!("{} {}", one.name, form::range(one.wanted)))
            .collect();
        let proven = service.routers - service.unproven.min(service.routers);
        vec![
            service.name.clone(),
            shares.join(", "),
            format!("{proven} of {}", service.routers),
            if service.in_release { "in a release".to_owned() } else { "stands".to_owned() },
            show::or_dash(Some(&service.releases.join(", "))),
        ]
    });
    show::table(&["SERVICE", "WANTED", "ROUTERS DO", "STATE", "RELEASE"], rows)
}

async fn one(name: &str, json: bool, connection: &Connection, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(connection)?;
    let detail: ServiceDetail = client.get(&["api", "v1", "services", name], &[]).await?;
    if json {
        show::json(out, &detail)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    write!(out, "{}", table(std::slice::from_ref(&detail.service)))?;
    write!(out, "{}", form::sums(&detail.service.variations))?;
    write!(out, "{}", form::by_router(&detail.by_router))?;
    for service in &detail.by_router {
        form::stands(out, service, now)?;
    }
    if let Some(first) = detail.by_router.first() {
        for variation in &first.led.variations {
            let line = format!("{}: {}", variation.name, variation.targets.join(", "));
            writeln!(out, "{}", show::one_line(&line))?;
        }
    }
    Ok(0)
}
