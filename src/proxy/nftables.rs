//! The kernel's rules by which an agent sends connections here that are made to ports of other programs: what whoever holds the sockets
//! has to know of them.
//!
//! All of them are in one table. Without it nothing is sent here, so it goes when nobody takes connections any more: whatever was there
//! before answers then. Who puts rules into it is the agent (`agent/takeover`).

use std::{future::Future, io, path::Path, pin::Pin, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// What marks connections of the proxy to versions, so that none of them is sent back to it: "choi".
pub const MARK: u32 = 0x6368_6f69;

/// The table, with its family.
pub const TABLE: [&str; 2] = ["inet", "choirmaster"];

/// The hooks of its chains, each called like its own.
pub const HOOKS: [&str; 2] = ["output", "prerouting"];

/// Their place before rules of others, which are at -100 by custom.
pub const PRIORITY: i32 = -110;

/// How long the program may take. It has milliseconds of work.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why rules couldn't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    #[error("{program} can't be run: {source}; install nftables, or say in takeover.program where nft is")]
    Program { program: String, source: io::Error },
    #[error(
        "rules of nftables may not be read or changed: {0}; give whoever runs this the right to (CAP_NET_ADMIN)"
    )]
    Forbidden(String),
    #[error("nftables: {0}")]
    Refused(String),
    #[error("nft did not end within {} seconds", PATIENCE.as_secs())]
    Late,
}

/// Removes the table, if it is there: in a form that does nothing where it isn't.
#[must_use]
pub fn removal() -> String {
    let [family, name] = TABLE;
    format!("table {family} {name}\ndelete table {family} {name}\n")
}

/// Puts the table in force with these rules for each hook, and none beside them: all at once, whatever was there.
///
/// While nothing else has the kernel keep connections in mind, those that were sent here are sent here no more: so the last rule, which changes
/// nothing, has it do so until the table is removed.
#[must_use]
pub fn table(rules: impl Fn(&str) -> String) -> String {
    let [family, name] = TABLE;
    let chains = HOOKS.map(|hook| {
        let rules = rules(hook);
        format!(
            "  chain {hook} {{\n    type nat hook {hook} priority {PRIORITY}; policy accept;\n{rules}    ct state new accept\n  }}\n"
        )
    });
    format!("{}table {family} {name} {{\n{}}}\n", removal(), chains.concat())
}

/// What a run of the program comes to.
pub type Ran = Pin<Box<dyn Future<Output = Result<String, NftError>> + Send>>;

/// Runs the program, and gives what it wrote. All that it reads as `input` is done at once, or nothing.
pub fn run(program: &Path, arguments: &[&str], input: String) -> Ran {
    let mut command = Command::new(program);
    // Its words are looked at.
    command.args(arguments).env("LC_ALL", "C").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = program.display().to_string();
    let ran = async move {
        let mut child = command.spawn().map_err(|source| NftError::Program { program, source })?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that doesn't read to the end says why below.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(|error| NftError::Refused(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("it says nothing").trim().to_owned();
        if said.contains("Operation not permitted") {
            return Err(NftError::Forbidden(said));
        }
        Err(NftError::Refused(said))
    };
    Box::pin(async move { timeout(PATIENCE, ran).await.unwrap_or(Err(NftError::Late)) })
}

/// Whether connections may be marked here.
///
/// # Errors
///
/// Why not: the right is missing, or the system has no marks.
pub fn check_mark() -> io::Result<()> {
    crate::mark::set(&std::net::UdpSocket::bind(("127.0.0.1", 0))?, Some(MARK))
}
