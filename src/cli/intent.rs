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
    /// Ids of nodes
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Target {
    /// Id of the node
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

pub async fn run(args: Args, out: &mut impl Write) -> Result<u8, Failure> {
    let (intent, value, common) = match args.command {
        Command::Migrate(Migrate { logical, nodes, common }) => {
            (format!("intent:migrate:{logical}"), nodes.join(","), common)
        }
        Command::Cordon(Target { node, common }) => {
            (format!("intent:cordon:{node}"), "yes".to_owned(), common)
        }
        Command::Uncordon(Target { node, common }) => {
            (format!("intent:cordon:{node}"), "no".to_owned(), common)
        }
    };
    let client = Client::new(&common.connection)?;
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

fn line(answer: &IntentAnswer) -> String {
    if answer.accepted {
        return "accepted".to_owned();
    }
    format!("refused: {}", show::one_line(answer.reason.as_deref().unwrap_or_default()))
}
