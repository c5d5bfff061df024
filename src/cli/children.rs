//! `choirmaster children …`: who is there, what they do, and what an operator decides about them.

mod bulk;

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;
use reqwest::Method;

use super::{
    client::{self, ANSWER_TIMEOUT, AuditNote, CallError, Client, Connection},
    confirm::Consent,
    failure::Failure,
    show,
};
use protocol::{
    ChildKind,
    api::{Child, LabelValue, Note, UnknownCaller},
};

/// Where the API has the children.
const CHILDREN: [&str; 3] = ["api", "v1", "children"];

/// Look at the children, and decide what they take part in.
///
/// What is done to one child is done to all that options choose (--label, --kind, --cordon, --silent-for, --outside) where these stand
/// in place of its id: the children are listed, and it is asked once whether they are meant. Only this manager's own children are chosen
/// so.
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
    #[command(after_help = "Examples:\n  \
        choirmaster children forget 7cb606ee-fde1\n  \
        choirmaster children forget --silent-for 10m")]
    Forget {
        /// Also one that may still run a version that is to be taken back
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Make the token useless that a child got when it joined; its calls are refused from then on
    #[command(after_help = "Example: choirmaster children revoke 7cb606ee-fde1 --note stolen")]
    Revoke(Target),
    /// Let a child take part in no further release; what it has in hand goes on
    #[command(after_help = "Examples:\n  \
        choirmaster children cordon 7cb606ee-fde1\n  \
        choirmaster children cordon --label site:berlin")]
    Cordon(Target),
    /// Let a cordoned or drained child take part again
    #[command(after_help = "Examples:\n  \
        choirmaster children uncordon 7cb606ee-fde1\n  \
        choirmaster children uncordon --cordon drained")]
    Uncordon(Target),
    /// Cordon a child and take out of the running releases what it has not begun
    Drain(Target),
    /// Set labels (KEY=VALUE) or remove them (KEY-); they win over those that the child reports
    #[command(
        override_usage = "choirmaster children label [OPTIONS] <CHILD> <KEY=VALUE|KEY->...\n       \
            choirmaster children label [OPTIONS] --label <KEY:VALUE> <KEY=VALUE|KEY->...",
        after_help = "Examples:\n  \
        choirmaster children label 7cb606ee-fde1 tier=edge rack-\n  \
        choirmaster children label --label site:berlin tier=edge"
    )]
    Label {
        /// Id of the child, unless options choose children; and then what to set and to remove
        #[arg(value_name = "CHILD|KEY=VALUE|KEY-", required = true)]
        words: Vec<String>,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// List calls by ids that the manager does not know
    Unknown {
        #[command(flatten)]
        common: Common,
    },
}

/// Which children are meant, by what is known of them. All that is said has to be so.
#[derive(Debug, clap::Args)]
struct Selector {
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
    /// Only children outside of the manager's own area (parent.area_file)
    #[arg(long)]
    outside: bool,
}

impl Selector {
    /// As a query of the API; empty: nothing is said.
    fn query(&self) -> Vec<(&'static str, &str)> {
        let named = [
            ("label", self.label.as_deref()),
            ("kind", self.kind.as_deref()),
            ("cordon", self.cordon.as_deref()),
            ("silent_for", self.silent_for.as_deref()),
            ("outside", self.outside.then_some("true")),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    selector: Selector,
    /// Only this manager's own, and not those below managers
    #[arg(long)]
    here: bool,
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

/// Who is meant, and what is noted of it.
#[derive(Debug, clap::Args)]
struct Target {
    /// Id or name of the child; of an id, as much as no other child's begins with. Not with options that choose children
    #[arg(value_name = "CHILD")]
    id: Option<String>,
    #[command(flatten)]
    chosen: Chosen,
}

/// Children that options choose.
#[derive(Debug, clap::Args)]
struct Chosen {
    #[command(flatten)]
    selector: Selector,
    /// Do nothing where more children than so many are chosen
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = client::most)]
    limit: usize,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

/// What is done to children.
#[derive(Debug)]
enum Action {
    Forget { force: bool },
    Revoke,
    Cordon,
    Uncordon,
    Drain,
    Label(Vec<Label>),
}

/// A label to set, or to remove.
#[derive(Debug, Clone)]
struct Label {
    key: String,
    value: Option<String>,
}

fn label(text: &str) -> Result<Label, Failure> {
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Label { key: key.to_owned(), value: Some(value.to_owned()) });
    }
    let key = text.strip_suffix('-').ok_or_else(|| {
        Failure::user(format!("{text:?} is no label: it looks like tier=edge to set, tier- to remove"))
    })?;
    Ok(Label { key: key.to_owned(), value: None })
}

impl Action {
    /// What is asked before it is done to several: `20 children`.
    fn question(&self, children: &str) -> String {
        match self {
            Self::Forget { .. } => format!("Forget {children}?"),
            Self::Revoke => format!("Revoke the tokens of {children}?"),
            Self::Cordon => format!("Cordon {children}?"),
            Self::Uncordon => format!("Let {children} take part again?"),
            Self::Drain => format!("Drain {children}?"),
            Self::Label(_) => format!("Label {children} ({})?", self.done()),
        }
    }

    /// What can be said of a child to which it was done.
    fn done(&self) -> String {
        let done = match self {
            Self::Forget { .. } => "forgotten",
            Self::Revoke => "token revoked",
            Self::Cordon => "cordoned",
            Self::Uncordon => "takes part again",
            Self::Drain => "drained",
            Self::Label(labels) => {
                let all = labels.iter().map(|Label { key, value }| match value {
                    Some(value) => format!("{key}={value}"),
                    None => format!("{key} removed"),
                });
                return all.collect::<Vec<_>>().join(", ");
            }
        };
        done.to_owned()
    }

    /// Does it to the child with this id, written in full.
    async fn carry_out(&self, client: &Client, id: &str, noted: &AuditNote) -> Result<(), CallError> {
        let (method, verb) = match self {
            Self::Forget { force } => {
                let request = client.request(Method::DELETE, &[&CHILDREN[..], &[id]].concat());
                let request = request.query(&[("force", force)]).json(&noted.body()).timeout(ANSWER_TIMEOUT);
                return client.send(request).await.map(drop);
            }
            Self::Label(labels) => {
                for label in labels {
                    label.put(client, id, noted).await?;
                }
                return Ok(());
            }
            Self::Revoke => (Method::DELETE, "token"),
            Self::Cordon => (Method::POST, "cordon"),
            Self::Uncordon => (Method::POST, "uncordon"),
            Self::Drain => (Method::POST, "drain"),
        };
        client.act(method, &[&CHILDREN[..], &[id, verb]].concat(), &noted.body()).await
    }
}

impl Label {
    async fn put(&self, client: &Client, id: &str, noted: &AuditNote) -> Result<(), CallError> {
        let path = [&CHILDREN[..], &[id, "labels", &self.key]].concat();
        let Note { by, note } = noted.body();
        match self.value.clone() {
            Some(value) => client.act(Method::PUT, &path, &LabelValue { value, by, note }).await,
            None => client.act(Method::DELETE, &path, &Note { by, note }).await,
        }
    }
}

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    let (action, target) = match args.command {
        Command::List(args) => return list(&args, out).await,
        Command::Show { id, common } => return one(&id, &common, out).await,
        Command::Unknown { common } => return unknown(&common, out).await,
        Command::Forget { force, target } => (Action::Forget { force }, target),
        Command::Revoke(target) => (Action::Revoke, target),
        Command::Cordon(target) => (Action::Cordon, target),
        Command::Uncordon(target) => (Action::Uncordon, target),
        Command::Drain(target) => (Action::Drain, target),
        Command::Label { words, chosen } => labelled(words, chosen)?,
    };
    act(&action, &target, out).await
}

/// The first word is a child, unless options choose children.
fn labelled(mut words: Vec<String>, chosen: Chosen) -> Result<(Action, Target), Failure> {
    let id = chosen.selector.query().is_empty().then(|| words.remove(0));
    let labels = words.iter().map(|word| label(word)).collect::<Result<Vec<_>, _>>()?;
    if labels.is_empty() {
        return Err(Failure::user("say what to set (KEY=VALUE) or to remove (KEY-)"));
    }
    Ok((Action::Label(labels), Target { id, chosen }))
}

async fn act(action: &Action, target: &Target, out: &mut impl Write) -> Result<u8, Failure> {
    let Target { id, chosen } = target;
    let client = Client::new(&chosen.connection)?;
    match (id, chosen.selector.query().is_empty()) {
        (Some(id), true) => act_on_one(&client, action, id, chosen, out).await,
        (None, false) => bulk::run(&client, action, chosen, out).await,
        (Some(id), false) => Err(Failure::user(format!(
            "both {id} and options that choose children are given: leave out one or the other"
        ))),
        (None, true) => Err(Failure::user(
            "name a child, or choose some: --label, --kind, --cordon, --silent-for or --outside",
        )),
    }
}

async fn act_on_one(
    client: &Client,
    action: &Action,
    given: &str,
    chosen: &Chosen,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    // One that has joined and never called is on no list: its token is revoked where it is named in full.
    let id = if matches!(action, Action::Revoke) { given.to_owned() } else { client.child_id(given).await? };
    let id = match action.carry_out(client, &id, &chosen.noted).await {
        Err(CallError::Refused(problem)) if problem.status == 404 => {
            let id = client.child_id(given).await?;
            action.carry_out(client, &id, &chosen.noted).await?;
            id
        }
        done => done.map(|()| id)?,
    };
    writeln!(out, "{id}: {}", action.done())?;
    Ok(0)
}

async fn list(args: &List, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.common.connection)?;
    let query = args.selector.query();
    let found = if args.here || args.selector.outside {
        client.list(&CHILDREN, &query, args.limit).await?
    } else {
        let tree = client.list_tree::<Child>(&CHILDREN, &query, args.limit).await?;
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
