//! `choirmaster tenant …`: who shares the manager, and how much of it each may take.

use std::io::Write;

use clap::Subcommand;
use reqwest::Method;

use super::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::{NewLimits, NewTenant, Page, Tenant, TenantLimits, TenantRoom};

/// Say who shares the manager, and how much of it each may take.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a tenant; its tokens stand in the manager's token file, behind them tenant=NAME
    #[command(after_help = "Example: choirmaster tenant create acme --max-releases 20")]
    Create {
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        target: Target,
    },
    /// List the tenants
    List(Common),
    /// Show a tenant: what it has, and what it may have
    Show {
        #[arg(value_name = "TENANT")]
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Change how much a tenant may have; what it has already stays
    #[command(after_help = "Example: choirmaster tenant limit acme --max-children 500")]
    Limit {
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        target: Target,
    },
    /// Delete a tenant that has no unfinished releases; its name is not given again
    Delete(Target),
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of flags")]
struct Limits {
    /// Children that may be labelled as its own
    #[arg(long, value_name = "N")]
    max_children: Option<u64>,
    /// Releases that may be unfinished
    #[arg(long, value_name = "N")]
    max_releases: Option<u64>,
    /// Bytes that the strategies and functions of its releases may take in the store
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
}

impl Limits {
    const fn said(&self) -> TenantLimits {
        TenantLimits { children: self.max_children, releases: self.max_releases, bytes: self.max_bytes }
    }
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct Target {
    #[arg(value_name = "TENANT")]
    name: String,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

/// Where tenants are.
const PATH: [&str; 3] = ["api", "v1", "tenants"];

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::Create { limits, target } => create(&target, &limits, out).await,
        Command::List(common) => list(&common, out).await,
        Command::Show { name, common } => one(&name, &common, out).await,
        Command::Limit { limits, target } => limit(&target, &limits, out).await,
        Command::Delete(target) => delete(&target, out).await,
    }
}

async fn create(target: &Target, limits: &Limits, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let noted = target.noted.body();
    let body = NewTenant { name: target.name.clone(), limits: limits.said(), by: noted.by, note: noted.note };
    let made: Tenant = client.post(client.request(Method::POST, &PATH).json(&body)).await?;
    writeln!(out, "{}: created", made.name)?;
    writeln!(out, "Its tokens: NAME TOKEN tenant={} roles=viewer,operator,approver", made.name)?;
    writeln!(out, "Its children: choirmaster children label CHILD tenant={}", made.name)?;
    Ok(0)
}

async fn list(common: &Common, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&common.connection)?;
    let page: Page<Tenant> = client.get(&PATH, &[]).await?;
    show::list(out, &(page.items, false), common.json, "there are no tenants", table)?;
    Ok(0)
}

/// `3 of 500`.
fn room(TenantRoom { used, limit }: TenantRoom) -> String {
    format!("{used} of {limit}")
}

fn table(tenants: &[Tenant]) -> String {
    let rows = tenants.iter().map(|tenant| {
        let Tenant { name, created, children, releases, bytes, .. } = tenant;
        vec![name.clone(), room(*children), room(*releases), room(*bytes), created.clone()]
    });
    show::table(&["NAME", "CHILDREN", "RELEASES", "BYTES", "CREATED"], rows)
}

async fn one(name: &str, common: &Common, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&common.connection)?;
    let tenant: Tenant = client.get(&[PATH[0], PATH[1], PATH[2], name], &[]).await?;
    if common.json {
        show::json(out, &tenant)?;
        return Ok(0);
    }
    writeln!(out, "{}", tenant.name)?;
    let users = tenant.users.unwrap_or_default();
    let users = users.iter().map(|user| user.name.as_str()).collect::<Vec<_>>().join(", ");
    let fields = [
        ("id", tenant.id.clone()),
        ("created", tenant.created.clone()),
        ("children", room(tenant.children)),
        ("releases", format!("{} unfinished", room(tenant.releases))),
        ("bytes", room(tenant.bytes)),
        ("users", users),
    ];
    for (what, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "  {what:<10} {}", show::one_line(value))?;
    }
    Ok(0)
}

async fn limit(target: &Target, limits: &Limits, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let noted = target.noted.body();
    let body = NewLimits { limits: limits.said(), by: noted.by, note: noted.note };
    let path = [PATH[0], PATH[1], PATH[2], &target.name, "limits"];
    let tenant: Tenant = client.post(client.request(Method::PUT, &path).json(&body)).await?;
    let Tenant { name, children, releases, bytes, .. } = tenant;
    let (children, releases, bytes) = (children.limit, releases.limit, bytes.limit);
    writeln!(out, "{name}: at most {children} children, {releases} unfinished releases, {bytes} bytes")?;
    Ok(0)
}

async fn delete(target: &Target, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    client.act(Method::DELETE, &[PATH[0], PATH[1], PATH[2], &target.name], &target.noted.body()).await?;
    writeln!(out, "{}: deleted", target.name)?;
    Ok(0)
}
