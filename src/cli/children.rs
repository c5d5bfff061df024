//! `choirmaster children …`: who is there, what they do, and what an operator decides about them.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;
use reqwest::Method;

use super::{
    client::{self, AuditNote, CallError, Client, Connection},
    failure::Failure,
    show,
};
use protocol::{
    ChildKind,
    api::{Child, LabelValue, UnknownCaller},
};

/// Look at the children, and decide what they take part in.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the children
    #[command(after_help = "Example: choirmaster children list --label tier:edge --silent-for 5m")]
    List(List),
    /// Show one child, with its area
    Show {
        /// Id or name of the child; of an id, as much as no other child's begins with
        #[arg(value_name = "CHILD")]
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Forget a child that is gone for good, and the token by which it joined; should it call again, it is a new one
    Forget {
        /// Also one that may still run a version that is to be taken back
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: ChildTarget,
    },
    /// Make the token useless that a child got when it joined; its calls are refused from then on
    #[command(after_help = "Example: choirmaster children revoke 7cb606ee-fde1 --note stolen")]
    Revoke(ChildTarget),
    /// Let a child take part in no further release; what it has in hand goes on
    Cordon(ChildTarget),
    /// Let a cordoned or drained child take part again
    Uncordon(ChildTarget),
    /// Cordon a child and take out of the running releases what it has not begun
    Drain(ChildTarget),
    /// Set labels (KEY=VALUE) or remove them (KEY-); they win over those that the child reports
    #[command(after_help = "Example: choirmaster children label 7cb606ee-fde1 tier=edge rack-")]
    Label {
        #[command(flatten)]
        target: ChildTarget,
        #[arg(value_name = "KEY=VALUE|KEY-", required = true, value_parser = label)]
        labels: Vec<Label>,
    },
    /// List calls by ids that the manager does not know
    Unknown {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only children with this label
    #[arg(long, value_name = "KEY:VALUE")]
    label: Option<String>,
    /// Only agent or rm
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only open, cordoned or drained
    #[arg(long, value_name = "CORDON")]
    cordon: Option<String>,
    /// Only children that have not called for this long: 90s, 5m, 2h
    #[arg(long, value_name = "DURATION")]
    silent_for: Option<String>,
    /// Only this manager's own, and not those below managers
    #[arg(long)]
    here: bool,
    /// Only children outside of the manager's own area (parent.area_file)
    #[arg(long)]
    outside: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = client::most)]
    limit: usize,
    #[command(flatten)]
    common: Common,
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
struct ChildTarget {
    /// Id or name of the child; of an id, as much as no other child's begins with
    #[arg(value_name = "CHILD")]
    id: String,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

/// A label to set, or to remove.
#[derive(Debug, Clone)]
struct Label {
    key: String,
    value: Option<String>,
}

fn label(text: &str) -> Result<Label, String> {
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Label { key: key.to_owned(), value: Some(value.to_owned()) });
    }
    let key = text.strip_suffix('-').ok_or("it looks like tier=edge to set, tier- to remove")?;
    Ok(Label { key: key.to_owned(), value: None })
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    match args.command {
        Command::List(args) => list(&args, out).await,
        Command::Show { id, common } => one(&id, &common, out).await,
        Command::Forget { force, target } => forget(&target, force, out).await,
        Command::Revoke(target) => revoke(&target, out).await,
        Command::Cordon(target) => verb(&target, "cordon", "cordoned", out).await,
        Command::Uncordon(target) => verb(&target, "uncordon", "takes part again", out).await,
        Command::Drain(target) => verb(&target, "drain", "drained", out).await,
        Command::Label { target, labels } => set_labels(&target, &labels, out).await,
        Command::Unknown { common } => unknown(&common, out).await,
    }
}

async fn list(args: &List, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.common.connection)?;
    let named = [
        ("label", &args.label),
        ("kind", &args.kind),
        ("cordon", &args.cordon),
        ("silent_for", &args.silent_for),
        ("outside", &args.outside.then(|| "true".to_owned())),
    ];
    let query: Vec<(&str, &str)> =
        named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let path = ["api", "v1", "children"];
    let found = if args.here || args.outside {
        client.list(&path, &query, args.limit).await?
    } else {
        let tree = client.list_tree::<Child>(&path, &query, args.limit).await?;
        show::unheard(&tree.unheard)?;
        let named = |(at, child): (String, Child)| Child { id: format!("{at}{}", child.id), ..child };
        (tree.items.into_iter().map(named).collect(), tree.more)
    };
    let nothing = if query.is_empty() { "no children have called yet" } else { "no such children" };
    show::list(out, &found, args.common.json, nothing, table)?;
    Ok(0)
}

/// Said of a child that probably meant another manager.
const OUTSIDE: &str = "outside of this manager's area";

fn table(children: &[Child]) -> String {
    let now = Timestamp::now();
    let rows = children.iter().map(|child| {
        vec![
            child.id.clone(),
            show::or_dash(child.name.as_deref()),
            show::or_dash(child.place.as_deref()),
            child.kind.clone(),
            agents(child),
            child.cordon.clone(),
            labels(child),
            show::ago(child.last_call.as_deref(), now),
            if child.outside { format!("{OUTSIDE}; {}", child.doing) } else { child.doing.clone() },
        ]
    });
    let head = ["ID", "NAME", "PLACE", "KIND", "AGENTS", "CORDON", "LABELS", "LAST CALL", "DOING"];
    show::table(&head, rows)
}

/// An agent is one; a manager has as many as it says, and so has what a newer manager may list.
fn agents(child: &Child) -> String {
    match ChildKind::named(&child.kind) {
        Some(ChildKind::Agent) => "1".to_owned(),
        Some(ChildKind::Rm) | None => child.agents.to_string(),
    }
}

fn labels(child: &Child) -> String {
    show::or_dash(Some(&show::labels(&child.labels, ",")))
}

async fn one(id: &str, common: &Common, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&common.connection)?;
    let id = client.child_id(id).await?;
    let child: Child = client.get(&["api", "v1", "children", &id], &[]).await?;
    if common.json {
        show::json(out, &child)?;
        return Ok(0);
    }
    let now = Timestamp::now();
    let runtimes = child.runtimes.as_ref().map_or("not reported: taken as all".to_owned(), |r| r.join(", "));
    let fields = [
        ("name", show::or_dash(child.name.as_deref())),
        ("place", show::or_dash(child.place.as_deref())),
        ("kind", child.kind.clone()),
        ("agents", agents(&child)),
        ("cordon", child.cordon.clone()),
        ("runtimes", runtimes),
        ("labels", labels(&child)),
        ("born", show::ago(Some(&child.born), now)),
        ("last call", show::ago(child.last_call.as_deref(), now)),
        ("releases", show::or_dash(Some(&child.releases.join(", ")))),
        ("doing", child.doing.clone()),
        ("lies", if child.outside { OUTSIDE.to_owned() } else { "-".to_owned() }),
        ("area", child.area.as_ref().map_or("-".to_owned(), serde_json::Value::to_string)),
    ];
    writeln!(out, "{}", child.id)?;
    for (name, value) in fields {
        writeln!(out, "  {name:<10} {}", show::one_line(&value))?;
    }
    Ok(0)
}

async fn forget(target: &ChildTarget, force: bool, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let id = client.child_id(&target.id).await?;
    let request = client.request(Method::DELETE, &["api", "v1", "children", &id]);
    client.send(request.query(&[("force", force)]).json(&target.noted.body())).await?;
    writeln!(out, "{id}: forgotten")?;
    Ok(0)
}

async fn revoke(target: &ChildTarget, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let revoke = async |id| {
        client.act(Method::DELETE, &["api", "v1", "children", id, "token"], &target.noted.body()).await
    };
    // One that has joined and never called is on no list: it has to be named in full.
    let id = match revoke(&target.id).await {
        Err(CallError::Refused(problem)) if problem.status == 404 => {
            let id = client.child_id(&target.id).await?;
            revoke(&id).await?;
            id
        }
        done => done.map(|()| target.id.clone())?,
    };
    writeln!(out, "{id}: token revoked")?;
    Ok(0)
}

async fn verb(target: &ChildTarget, verb: &str, done: &str, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let id = client.child_id(&target.id).await?;
    client.act(Method::POST, &["api", "v1", "children", &id, verb], &target.noted.body()).await?;
    writeln!(out, "{id}: {done}")?;
    Ok(0)
}

async fn set_labels(target: &ChildTarget, labels: &[Label], out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&target.connection)?;
    let id = client.child_id(&target.id).await?;
    for Label { key, value } in labels {
        let path = ["api", "v1", "children", &id, "labels", key];
        let noted = target.noted.body();
        if let Some(value) = value {
            let body = LabelValue { value: value.clone(), by: noted.by, note: noted.note };
            client.act(Method::PUT, &path, &body).await?;
            writeln!(out, "{id}: {key}={value}")?;
        } else {
            client.act(Method::DELETE, &path, &noted).await?;
            writeln!(out, "{id}: {key} removed")?;
        }
    }
    Ok(0)
}

async fn unknown(common: &Common, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&common.connection)?;
    let found = client.list(&["api", "v1", "callers", "unknown"], &[], usize::MAX).await?;
    show::list(out, &found, common.json, "no calls by unknown ids", table_of_unknown)?;
    Ok(0)
}

fn table_of_unknown(callers: &[UnknownCaller]) -> String {
    let now = Timestamp::now();
    let rows = callers.iter().map(|caller| {
        vec![
            caller.id.clone(),
            caller.call.clone(),
            caller.count.to_string(),
            show::ago(Some(&caller.last), now),
        ]
    });
    show::table(&["ID", "CALL", "COUNT", "LAST"], rows)
}
