//! The table of nftables, as text that puts it in force and as what is read back. Pure.
//!
//! Both hooks are needed: what comes from elsewhere passes `prerouting`, what programs of this machine send passes `output`. Only what is
//! for an address of this machine is sent elsewhere, and nothing that the proxy itself sends, which is marked. From elsewhere it goes to
//! the address that the machine has there, so that answers to datagrams come from there; programs of this machine keep the address that
//! they have called. A connection that was made before goes on as it is, also once the table is gone: the kernel asks for the first packet
//! of each alone.

use std::{collections::BTreeMap, fmt::Write as _};

use model::traffic::Socket;
use proxy::nftables::{MARK, TABLE, removal};
use serde::Deserialize;

/// Where connections to a port are sent, by the port that is called.
pub type Redirects = BTreeMap<Socket, u16>;

/// Before rules of others, which are at -100 by custom.
const PRIORITY: i32 = -110;

/// A hook, and what is done there.
const CHAINS: [(&str, &str); 2] = [("output", "dnat"), ("prerouting", "redirect")];

/// Puts these in force, and nothing else of ours: all at once, whatever was there.
#[must_use]
pub fn render(redirects: &Redirects) -> String {
    let mut text = removal();
    if redirects.is_empty() {
        return text;
    }
    let [family, name] = TABLE;
    let _ = writeln!(text, "table {family} {name} {{");
    for (hook, action) in CHAINS {
        let _ = writeln!(text, "  chain {hook} {{");
        let _ = writeln!(text, "    type nat hook {hook} priority {PRIORITY}; policy accept;");
        for (socket, to) in redirects {
            let protocol = protocol(*socket);
            let _ = writeln!(
                text,
                "    meta mark != {MARK:#x} fib daddr type local {protocol} dport {} {action} to :{to}",
                socket.port
            );
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

fn protocol(Socket { is_udp, .. }: Socket) -> &'static str {
    if is_udp { "udp" } else { "tcp" }
}

/// What the table does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What both hooks have, and in the same way.
    pub redirects: Redirects,
    /// How many rules and chains are there beside these.
    pub others: usize,
}

impl Found {
    /// Whether it is these, and nothing else.
    #[must_use]
    pub fn is(&self, wanted: &Redirects) -> bool {
        self.others == 0 && self.redirects == *wanted
    }
}

/// Reads what `nft -j list table` says.
///
/// # Errors
///
/// It isn't that.
pub fn read(json: &str) -> Result<Found, String> {
    let Listed { nftables } = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let (mut by_chain, mut others) = (BTreeMap::<String, Redirects>::new(), 0);
    for one in nftables {
        if let Some(chain) = one.chain {
            let is_ours = CHAINS.iter().any(|(hook, _)| {
                chain.name == *hook && chain.hook.as_deref() == Some(*hook) && chain.prio == Some(PRIORITY)
            });
            others += usize::from(!is_ours);
        }
        if let Some(rule) = one.rule {
            match redirect(&rule) {
                Some((socket, to)) => {
                    by_chain.entry(rule.chain).or_default().insert(socket, to);
                }
                None => others += 1,
            }
        }
    }
    let [output, prerouting] = CHAINS.map(|(hook, _)| by_chain.remove(hook).unwrap_or_default());
    let redirects: Redirects = output
        .iter()
        .filter(|(socket, to)| prerouting.get(socket) == Some(*to))
        .map(|(socket, to)| (*socket, *to))
        .collect();
    others += output.len() + prerouting.len() - 2 * redirects.len();
    others += by_chain.values().map(BTreeMap::len).sum::<usize>();
    Ok(Found { redirects, others })
}

/// What a rule of ours does; none of anybody else's.
fn redirect(rule: &Rule) -> Option<(Socket, u16)> {
    let (_, action) = CHAINS.iter().find(|(hook, _)| rule.chain == *hook)?;
    let [mark, local, called, sent] = &rule.expr[..] else { return None };
    let is_marked = *mark == of("!=", &serde_json::json!({"meta": {"key": "mark"}}), &MARK.into());
    let fib = serde_json::json!({"fib": {"result": "type", "flags": ["daddr"]}});
    // Later programs write one flag without a list.
    let fib_alone = serde_json::json!({"fib": {"result": "type", "flags": "daddr"}});
    let is_local = [fib, fib_alone].iter().any(|fib| *local == of("==", fib, &"local".into()));
    let to = u16::try_from(sent.get(action)?.get("port")?.as_u64()?).ok()?;
    let port = u16::try_from(called.get("match")?.get("right")?.as_u64()?).ok()?;
    let socket = [false, true].map(|is_udp| Socket { port, is_udp }).into_iter().find(|socket| {
        let field = serde_json::json!({"payload": {"protocol": protocol(*socket), "field": "dport"}});
        *called == of("==", &field, &port.into())
    })?;
    (is_marked && is_local).then_some((socket, to))
}

fn of(op: &str, left: &serde_json::Value, right: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({"match": {"op": op, "left": left, "right": right}})
}

#[derive(Deserialize)]
struct Listed {
    nftables: Vec<Item>,
}

/// One of these, or something else.
#[derive(Deserialize)]
struct Item {
    chain: Option<Chain>,
    rule: Option<Rule>,
}

#[derive(Deserialize)]
struct Chain {
    name: String,
    hook: Option<String>,
    prio: Option<i32>,
}

#[derive(Deserialize)]
struct Rule {
    chain: String,
    #[serde(default)]
    expr: Vec<serde_json::Value>,
}
