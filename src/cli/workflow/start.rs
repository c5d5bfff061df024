//! `choirmaster workflow start`.

use std::{io::Write, path::Path};

use reqwest::{Method, multipart};

use super::{plan::read, show::print};
use crate::cli::{
    client::{Client, Connection},
    failure::Failure,
};
use language::functions::{self, Limits, NamedFolder};
use placement::{FunctionTypes, Workflow};
use protocol::api::WorkflowDetail;

/// Start a workflow: each of its functions is placed on a node that may run it, and kept there.
///
/// The folders of the functions (code) are taken from beside the file, and sent along. What no node may run now waits for one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster workflow start workflow.json\n  \
    choirmaster workflow start workflow.json --name cameras\n  \
    choirmaster workflow start workflow.json --of-manager")]
pub struct Args {
    /// The workflow, in the form of EDGELESS
    #[arg(value_name = "FILE")]
    file: String,
    /// What the workflow is called; by default the name of its file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How one of several nodes is chosen: random, round_robin, spread or nearest; by default the manager's placement.strategy
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// The manager has the functions, in its own folder
    #[arg(long)]
    of_manager: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let text = read(&args.file)?;
    let path = Path::new(&args.file);
    let by_file = || path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(by_file).unwrap_or_default();
    let mut form = multipart::Form::new().part("workflow", multipart::Part::bytes(text.clone()));
    if !args.of_manager
        && let Some(zip) = zip(&text, path.parent().unwrap_or(Path::new(".")))?
    {
        form = form.part("functions", multipart::Part::bytes(zip));
    }
    let request = client.request(Method::POST, &["api", "v1", "workflows"]).query(&[("name", name)]);
    let request = request.query(&[("strategy", &args.strategy)]);
    let started: WorkflowDetail = client.post(request.multipart(form)).await?;
    print(args.json, &started, out)
}

/// The folders of the functions; none where the workflow has faults, of which the manager tells.
fn zip(text: &[u8], beside: &Path) -> Result<Option<Vec<u8>>, Failure> {
    // Which runtime runs which type only the manager knows, and it makes no difference here.
    let Ok((workflow, _)) = Workflow::read(text, &FunctionTypes::any()) else { return Ok(None) };
    let folder = |function: &placement::Function| Some((function.name.clone(), function.folder().ok()?));
    let wanted: Option<Vec<NamedFolder>> = workflow.functions.iter().map(folder).collect();
    let Some(wanted) = wanted else { return Ok(None) };
    let archive = functions::folders_from_folder(beside, &wanted, &Limits::default());
    let archive =
        archive.map_err(|error| Failure::user(format!("{error}; looked in {}", beside.display())))?;
    Ok(Some(archive.bytes.to_vec()))
}
