//! The table of nftables, as text that puts it in force, and what can be told of one that is listed. Pure.
//!
//! Both hooks are needed: what comes from elsewhere passes `prerouting`, what programs of this machine send passes `output`. Only what is
//! for an address of this machine at which the other program listens is sent elsewhere, and nothing that the proxy itself sends, which is
//! marked. Where that program listens at all addresses, callers from elsewhere are sent to the address that the machine has there, so that
//! answers to datagrams come from there; all others keep the address that they have called. A connection that was made before goes on as it
//! is: only what begins one is sent elsewhere. Who was sent elsewhere stays there as long as there is the table, whatever it has. Flows of UDP
//! are marked for the kernel, so that it can be told to forget them.
//!
//! Each version of nft lists the same table in words of its own. So what it lists is compared with what it listed once the table was put
//! in force, and is read for no more than what people are told.

use std::{collections::BTreeMap, net::IpAddr};

use model::traffic::Socket;
use proxy::nftables::{MARK, flow_mark, table};

/// Where callers of a port are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub to: u16,
    /// Of which addresses of this machine: as of [`super::listeners`].
    pub of: Vec<IpAddr>,
}

/// Where connections to a port are sent, by the port that is called.
pub type Redirects = BTreeMap<Socket, Redirect>;

/// Puts these in force, and nothing else of ours: all at once, whatever was there. With none, what was sent before goes on.
#[must_use]
pub fn render(redirects: &Redirects) -> String {
    table(|hook| redirects.iter().map(|(socket, redirect)| rules(hook, *socket, redirect)).collect())
}

fn rules(hook: &str, socket: Socket, Redirect { to, of }: &Redirect) -> String {
    let whole = |family: &str| {
        let action = if hook == "output" { "dnat" } else { "redirect" };
        rule(&format!("{family}fib daddr type local"), socket, action, *to)
    };
    let one = |address: &IpAddr| match address {
        IpAddr::V4(all) if all.is_unspecified() => whole("meta nfproto ipv4 "),
        IpAddr::V4(address) => rule(&format!("ip daddr {address}"), socket, "dnat", *to),
        IpAddr::V6(address) => rule(&format!("ip6 daddr {address}"), socket, "dnat", *to),
    };
    if of.is_empty() { whole("") } else { of.iter().map(one).collect() }
}

fn rule(called: &str, socket: Socket, action: &str, to: u16) -> String {
    let Socket { port, is_udp } = socket;
    // A connection of TCP that the kernel meets on its way isn't a new one.
    let (begins, flow) = if is_udp {
        (String::new(), format!(" ct mark set {:#x}", flow_mark(to)))
    } else {
        (" tcp flags & (fin | syn | rst | ack) == syn".to_owned(), String::new())
    };
    let protocol = protocol(socket);
    format!("    meta mark != {MARK:#x} {called}{begins} {protocol} dport {port}{flow} {action} to :{to}\n")
}

fn protocol(Socket { is_udp, .. }: Socket) -> &'static str {
    if is_udp { "udp" } else { "tcp" }
}

/// Where callers are sent, by the port that is called.
pub type Sent = BTreeMap<Socket, u16>;

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// There is a table.
    pub is_there: bool,
    /// It is listed as it was right after it was put in force here.
    pub is_as_put: bool,
    pub sent: Sent,
}

impl Found {
    /// Whether it is these, and nothing else.
    #[must_use]
    pub fn is(&self, wanted: &Redirects) -> bool {
        self.is_there && self.is_as_put && self.sent == sent(wanted)
    }
}

/// What is seen of redirects in a table that is listed.
#[must_use]
pub fn sent(redirects: &Redirects) -> Sent {
    redirects.iter().map(|(socket, redirect)| (*socket, redirect.to)).collect()
}

/// Reads where a table sends callers that nft has listed, as far as it is understood.
#[must_use]
pub fn read(listed: &str) -> Sent {
    listed.lines().filter_map(redirect).collect()
}

fn redirect(line: &str) -> Option<(Socket, u16)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "dport")?;
    let is_udp = match *words.get(at.checked_sub(1)?)? {
        "tcp" => false,
        "udp" => true,
        _ => return None,
    };
    let port = words.get(at + 1)?.parse().ok()?;
    let to = words.last()?.strip_prefix(':')?.parse().ok()?;
    Some((Socket { port, is_udp }, to))
}

/// For people.
#[must_use]
pub fn written(sent: &Sent) -> String {
    let one = |(socket, to): (&Socket, &u16)| format!("{} {} at {to}", protocol(*socket), socket.port);
    let all: Vec<String> = sent.iter().map(one).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
