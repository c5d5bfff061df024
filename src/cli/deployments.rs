//! `choirmaster deployments`: what runs where.

use std::io::Write;

use jiff::Timestamp;

use super::{
    client::{self, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::Deployment;

/// Show which version of which function runs at which child.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: choirmaster deployments --function sieve --json | jq -r '.[] | select(.variant == \"unknown\").child'"
)]
pub struct Args {
    /// Only this function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Only this child of this manager
    #[arg(long, value_name = "CHILD")]
    child: Option<String>,
    /// Only this manager's own, and not what runs below managers
    #[arg(long)]
    here: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = client::most)]
    limit: usize,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let child = match &args.child {
        Some(child) => Some(client.child_id(child).await?),
        None => None,
    };
    let mut query = Vec::new();
    query.extend(args.function.as_deref().map(|function| ("function", function)));
    query.extend(child.as_deref().map(|child| ("child", child)));
    let path = ["api", "v1", "deployments"];
    let found = if args.here || args.child.is_some() {
        client.list(&path, &query, args.limit).await?
    } else {
        let tree = client.list_tree::<Deployment>(&path, &query, args.limit).await?;
        show::unheard(&tree.unheard)?;
        let named =
            |(at, found): (String, Deployment)| Deployment { child: format!("{at}{}", found.child), ..found };
        (tree.items.into_iter().map(named).collect(), tree.more)
    };
    show::list(out, &found, args.json, "no release has changed anything", text)?;
    Ok(0)
}

fn text(deployments: &[Deployment]) -> String {
    let now = Timestamp::now();
    let rows = deployments.iter().map(|d| {
        vec![
            d.function.clone(),
            d.child.clone(),
            d.variant.clone(),
            d.path.clone(),
            d.release.clone(),
            show::ago(Some(&d.since), now),
        ]
    });
    show::table(&["FUNCTION", "CHILD", "VARIANT", "PATH", "RELEASE", "SINCE"], rows)
}
