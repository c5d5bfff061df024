//! `choirmaster intent …`: what programs put into Redis, without Redis.

use std::io::Write;

use clap::Subcommand;
use reqwest::Method;

use super::{
    client::{AuditNote, Client, Connection},
    failure::Failure,
    show,
};
use protocol::api::{Intent, IntentAnswer, IntentAnswers, Intents};

/// Move functions by their logical ids, and cordon nodes, as programs do
///
/// What programs put into the Redis of the mirror as intents goes to the manager itself, and is answered.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Migrate(Migrate),
    /// Let nothing new come to a node; what runs there stays
    ///
    /// Ends with 0 if it is accepted, with 1 if it is refused.
    #[command(after_help = "Example: choirmaster intent cordon fda6ce79-46df-4f96-a0d2-456f720f606c")]
    Cordon(Target),
    /// Let functions come to a node again
    ///
    /// Ends with 0 if it is accepted, with 1 if it is refused.
    #[command(after_help = "Example: choirmaster intent uncordon fda6ce79-46df-4f96-a0d2-456f720f606c")]
    Uncordon(Target),
}

/// Move a function or a resource to the first of some nodes that may run it
///
/// Logical ids are those that workflow show NAME --json prints. Ends with 0 if it is accepted, with 1 if it is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster intent migrate e7f15354-8917-442f-9a98-3cd80cccb94e fda6ce79-46df-4f96-a0d2-456f720f606c\n  \
    choirmaster intent migrate LOGICAL NODE-1 NODE-2 --note \"NODE-3 is slow\"")]
struct Migrate {
    /// Logical id of the function or the resource
    #[arg(value_name = "LOGICAL")]
    logical: String,
    /// Ids or names of nodes
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Target {
    /// Id or name of the node
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    noted: AuditNote,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let common = match &args.command {
        Command::Migrate(Migrate { common, .. })
        | Command::Cordon(Target { common, .. })
        | Command::Uncordon(Target { common, .. }) => common,
    };
    let client = Client::new(&common.connection)?;
    let (intent, value) = match &args.command {
        Command::Migrate(Migrate { logical, nodes, .. }) => {
            let mut ids = Vec::new();
            for node in nodes {
                ids.push(client.child_id_or_given(node).await?);
            }
            (format!("intent:migrate:{logical}"), ids.join(","))
        }
        Command::Cordon(Target { node, .. }) => (cordon_of(&client, node).await?, "yes".to_owned()),
        Command::Uncordon(Target { node, .. }) => (cordon_of(&client, node).await?, "no".to_owned()),
    };
    let note = common.noted.body();
    let body = Intents { intents: vec![Intent { intent, value }], by: note.by, note: note.note };
    let request = client.request(Method::POST, &["api", "v1", "intents"]).json(&body);
    let answered: IntentAnswers = client.post(request).await?;
    if common.json {
        show::json(out, &answered)?;
    } else {
        for answer in &answered.answers {
            writeln!(out, "{}", line(answer))?;
        }
    }
    Ok(u8::from(answered.answers.iter().any(|answer| !answer.accepted)))
}

async fn cordon_of(client: &Client, node: &str) -> Result<String, Failure> {
    let id = client.child_id_or_given(node).await?;
    Ok(format!("intent:cordon:{id}"))
}

fn line(answer: &IntentAnswer) -> String {
    if answer.accepted {
        return "accepted".to_owned();
    }
    format!("refused: {}", show::one_line(answer.reason.as_deref().unwrap_or_default()))
}
