//! `choirmaster store`: backup, moving between databases, and a look at what is there.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};

use super::show;
use model::text;
use store::{
    StoreError,
    options::OpenOptions,
    transfer::{self, Info},
    url,
};

/// A line of progress is shown after this many rows.
const PROGRESS_ROWS: u64 = 100_000;

/// Bytes that are read from or written to a file at once.
const FILE_BUFFER_BYTES: usize = 1024 * 1024;

/// How a store is named, in the help of every command that takes one.
const STORE_HELP: &str = "The store: sqlite://PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE";

/// Exit codes.
const DONE: u8 = 0;
const USERS_FAULT: u8 = 1;
const OUR_FAULT: u8 = 2;

/// Look into a store, back it up, or move it to another database.
#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Write everything in a store to a file, while a manager may work on it.
    ///
    /// The file is a consistent picture of one instant. It can be imported into a store of either kind.
    Export {
        #[arg(long, help = STORE_HELP, env = "CHOIRMASTER_STORE", hide_env_values = true)]
        store: String,
        /// The file to write; standard output if not given. It appears once the export is whole.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Replace the file if there is one.
        #[arg(long, requires = "out")]
        force: bool,
    },
    /// Fill an empty store with what an export wrote. All or nothing.
    Import {
        #[arg(long, help = STORE_HELP, env = "CHOIRMASTER_STORE", hide_env_values = true)]
        store: String,
        /// The export; - for standard input.
        file: PathBuf,
    },
    /// Tell a store's schema version, who holds its lease, and how many rows each table has.
    Info {
        #[arg(long, help = STORE_HELP, env = "CHOIRMASTER_STORE", hide_env_values = true)]
        store: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command; answers the exit code. What was asked for goes to `out`, all else to standard error.
pub async fn run(args: StoreArgs, out: &mut (dyn Write + Send)) -> u8 {
    let done = match args.command {
        StoreCommand::Export { store, out: file, force } => export(&store, file.as_deref(), force, out).await,
        StoreCommand::Import { store, file } => import(&store, &file).await,
        StoreCommand::Info { store, json } => info(&store, json, out).await,
    };
    match done {
        Ok(()) => DONE,
        Err(error) => {
            // What is refused is what the caller wanted of it.
            let said = match &error {
                StoreError::Refused(why) => why.clone(),
                error => error.to_string(),
            };
            eprintln!("error: {}", text::lines(&said));
            match error {
                StoreError::Refused(_)
                | StoreError::Held { .. }
                | StoreError::Newer { .. }
                | StoreError::Older { .. } => USERS_FAULT,
                StoreError::Unavailable(_)
                | StoreError::Full(_)
                | StoreError::LeaseLost(_)
                | StoreError::BadRow { .. } => OUR_FAULT,
            }
        }
    }
}

async fn export(
    store: &str,
    file: Option<&Path>,
    force: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), StoreError> {
    let is_there = |file: &Path| {
        StoreError::Refused(format!("{} is there already: name another, or add --force", file.display()))
    };
    // Said before the work; what appears meanwhile is not replaced either.
    if let Some(file) = file.filter(|file| !force && file.exists()) {
        return Err(is_there(file));
    }
    let source = url::open_source(store).await?;
    let Some(file) = file else {
        transfer::export(&source, out, &mut |_| {}).await?;
        return Ok(());
    };
    let cannot = |error: std::io::Error| StoreError::Refused(format!("{}: {error}", file.display()));
    // An export that fails leaves the last good one where it was.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    let mut writer = BufWriter::with_capacity(FILE_BUFFER_BYTES, part.as_file_mut());
    let rows = transfer::export(&source, &mut writer, &mut progress("exported")).await?;
    writer.into_inner().map_err(|error| cannot(error.into_error()))?.sync_all().map_err(cannot)?;
    if force {
        part.persist(file).map_err(|error| cannot(error.error))?;
    } else {
        part.persist_noclobber(file).map_err(|error| match error.error.kind() {
            std::io::ErrorKind::AlreadyExists => is_there(file),
            _ => cannot(error.error),
        })?;
    }
    eprintln!("exported {} to {}", show::counted(rows, "row", "rows"), file.display());
    Ok(())
}

async fn import(store: &str, file: &Path) -> Result<(), StoreError> {
    let mut input: Box<dyn BufRead + Send> = if file == Path::new("-") {
        Box::new(BufReader::with_capacity(FILE_BUFFER_BYTES, std::io::stdin()))
    } else {
        let opened =
            File::open(file).map_err(|error| StoreError::Refused(format!("{}: {error}", file.display())))?;
        Box::new(BufReader::with_capacity(FILE_BUFFER_BYTES, opened))
    };
    let mut target = url::open_target(store, &OpenOptions::new()).await?;
    let done = transfer::import(&mut *target, &mut *input, &mut progress("imported")).await;
    // Whether it was filled or not, a manager shall not have to wait for the lease.
    let finished = target.finish().await;
    let rows = done?;
    finished?;
    eprintln!("imported {}", show::counted(rows, "row", "rows"));
    Ok(())
}

/// Shows progress to a person, not to a log.
fn progress(what: &'static str) -> impl FnMut(u64) + Send {
    let mut next = PROGRESS_ROWS;
    let shown = std::io::stderr().is_terminal();
    move |rows| {
        if shown && rows >= next {
            eprintln!("{what} {rows} rows …");
            next = rows + PROGRESS_ROWS;
        }
    }
}

async fn info(store: &str, json: bool, out: &mut (dyn Write + Send)) -> Result<(), StoreError> {
    let info = url::open_source(store).await?.info().await?;
    let text = if json {
        serde_json::to_string(&info).map_err(|error| StoreError::Refused(error.to_string()))? + "\n"
    } else {
        describe(&info)
    };
    out.write_all(text.as_bytes()).map_err(|error| StoreError::Unavailable(error.to_string()))
}

fn describe(Info { schema_version, lease, rows }: &Info) -> String {
    let holder = if lease.holder.is_empty() { "nobody" } else { &lease.holder };
    let mut text = format!(
        "schema version    {schema_version}\nlease held by     {holder}\nepoch             {}\ncommits           {}\n\
         served            {} s\n",
        lease.epoch,
        lease.seq,
        lease.served_ms / 1000
    );
    text.extend(rows.iter().map(|(table, count)| format!("{table:<18}{count}\n")));
    text
}
