//! The kernel's rules by which an agent sends connections here that are made to ports of other programs: what whoever holds the sockets
//! has to know of them.
//!
//! All of them are in one table. Without it nothing is sent here, so it goes when nobody takes connections any more: whatever was there
//! before answers then. Who puts rules into it is the agent (`agent/takeover`).

use std::{collections::BTreeSet, future::Future, io, path::Path, pin::Pin, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// What marks connections of the proxy to versions, so that none of them is sent back to it: "choi".
pub const MARK: u32 = 0x6368_6f69;

/// What marks flows that are sent here, for the kernel alone: these bits, and the port to which they are sent.
const FLOWS: u32 = 0x6368_0000;
const FLOWS_MASK: u32 = 0xffff_0000;

/// The table, with its family.
pub const TABLE: [&str; 2] = ["inet", "choirmaster"];

/// The hooks of its chains, each called like its own.
pub const HOOKS: [&str; 2] = ["output", "prerouting"];

/// Their place before rules of others, which are at -100 by custom.
pub const PRIORITY: i32 = -110;

/// The last rule of each chain.
pub const END: &str = "ct state new accept";

/// How long a connection may need to be there for whoever takes it, from the moment when the kernel has decided who that is: the way to
/// the caller and back.
pub const HANDSHAKE: Duration = Duration::from_secs(1);

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
            "  chain {hook} {{\n    type nat hook {hook} priority {PRIORITY}; policy accept;\n{rules}    {END}\n  }}\n"
        )
    });
    format!("{}table {family} {name} {{\n{}}}\n", removal(), chains.concat())
}

/// What a run of the program comes to.
pub type Ran<T = String> = Pin<Box<dyn Future<Output = Result<T, NftError>> + Send>>;

/// Puts rules in force. All that is read as `text` is done at once, or nothing.
pub fn put(program: &Path, text: String) -> Ran<()> {
    let ran = run(program, &["-f", "-"], text);
    Box::pin(async move { ran.await.map(drop) })
}

/// The table as the program writes it; none: it isn't there. Each version of the program has words of its own.
pub fn listed(program: &Path) -> Ran<Option<String>> {
    let [family, name] = TABLE;
    let ran = run(program, &["list", "table", family, name], String::new());
    Box::pin(async move {
        match ran.await {
            Ok(text) => Ok(Some(text)),
            Err(NftError::Refused(why)) if why.contains("Error: No such file or directory") => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// The ports to which a table that was listed sends connections.
#[must_use]
pub fn leads_to(listed: &str) -> BTreeSet<u16> {
    let ends = listed.lines().filter_map(|line| line.trim_end().rsplit_once(" to :"));
    ends.filter_map(|(_, port)| port.parse().ok()).collect()
}

/// Runs the program, and gives what it wrote.
fn run(program: &Path, arguments: &[&str], input: String) -> Ran {
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
        // It may warn of tables of others first.
        let is_fault = |line: &&str| line.contains("Error:") || line.contains("not permitted");
        let first = said.lines().find(is_fault).or_else(|| said.lines().next());
        let first = first.unwrap_or("nft failed, and says nothing").trim().to_owned();
        if said.contains("Operation not permitted") {
            return Err(NftError::Forbidden(first));
        }
        Err(NftError::Refused(first))
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

/// What marks flows of UDP that are sent to this port.
#[must_use]
pub fn flow_mark(at: u16) -> u32 {
    FLOWS | u32::from(at)
}

/// Has the kernel forget flows of UDP that were sent to this port, or to any: the next datagram of each goes where it is called. Else it
/// goes on as long as it doesn't pause, whatever the rules say by then, wherever anything else has the kernel change addresses.
///
/// # Errors
///
/// They aren't forgotten, and why.
#[cfg(target_os = "linux")]
pub fn forget_flows(at: Option<u16>) -> io::Result<()> {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    };

    /// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`: of all that fits, since it names none.
    const DELETE: u16 = 0x0102;
    /// `NLM_F_REQUEST | NLM_F_ACK`
    const FLAGS: u16 = 5;
    const CTA_MARK: u16 = 8;
    const CTA_MARK_MASK: u16 = 21;
    const LENGTH: u32 = 36;

    let (mark, mask) = at.map_or((FLOWS, FLOWS_MASK), |at| (flow_mark(at), u32::MAX));
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend([DELETE, FLAGS].map(u16::to_ne_bytes).concat());
    // A number, and a sender, both of which the kernel knows; any family, the first version of the form, and nothing.
    message.extend([0; 12]);
    for (kind, value) in [(CTA_MARK, mark), (CTA_MARK_MASK, mask)] {
        message.extend([8, kind].map(u16::to_ne_bytes).concat());
        message.extend(value.to_be_bytes());
    }
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let kernel = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    send(&kernel, &message, SendFlags::empty())?;
    // It has answered by now: a length, a kind, flags, a number, who asked, and what came of it.
    let mut answer = [0_u8; 64];
    let (_, read) = recv(&kernel, &mut answer, RecvFlags::DONTWAIT)?;
    let code: Option<[u8; 4]> = answer[..read.min(64)].get(16..20).and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// As on Linux, where alone there is anything to forget.
///
/// # Errors
///
/// None.
#[cfg(not(target_os = "linux"))]
pub fn forget_flows(_: Option<u16>) -> io::Result<()> {
    Ok(())
}
