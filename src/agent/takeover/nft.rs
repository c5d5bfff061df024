//! The table of nftables, as text that puts it in force and as what is read back. Pure.
//!
//! Both hooks are needed: what comes from elsewhere passes `prerouting`, what programs of this machine send passes `output`. Only what is
//! for an address of this machine is sent elsewhere, and nothing that the proxy itself sends, which is marked. From elsewhere it goes to
//! the address that the machine has there, so that answers to datagrams come from there; programs of this machine keep the address that
//! they have called. A connection that was made before goes on as it is: only what begins one is sent elsewhere. Who was sent elsewhere stays
//! there as long as there is the table, whatever it has, and is cut with its end.

use std::collections::BTreeMap;

use model::traffic::Socket;
use proxy::nftables::{HOOKS, MARK, PRIORITY, table};
use serde::Deserialize;
use serde_json::{Value, json};

/// Where connections to a port are sent, by the port that is called.
pub type Redirects = BTreeMap<Socket, u16>;

/// Puts these in force, and nothing else of ours: all at once, whatever was there. With none, what was sent before goes on.
#[must_use]
pub fn render(redirects: &Redirects) -> String {
    table(|hook| redirects.iter().map(|(socket, to)| rule(hook, *socket, *to)).collect())
}

fn rule(hook: &str, socket: Socket, to: u16) -> String {
    // A connection that the kernel meets on its way isn't a new one.
    let begins = if socket.is_udp { "" } else { " tcp flags & (fin | syn | rst | ack) == syn" };
    let (protocol, port, action) = (protocol(socket), socket.port, action(hook));
    format!(
        "    meta mark != {MARK:#x} fib daddr type local{begins} {protocol} dport {port} {action} to :{to}\n"
    )
}

/// What is done there.
fn action(hook: &str) -> &'static str {
    if hook == "output" { "dnat" } else { "redirect" }
}

fn protocol(Socket { is_udp, .. }: Socket) -> &'static str {
    if is_udp { "udp" } else { "tcp" }
}

/// What the table does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// It has all that it has whatever is sent.
    pub is_there: bool,
    /// What both hooks have, and in the same way.
    pub redirects: Redirects,
    /// How many rules and chains are there beside these, or are missing of what is always there.
    pub others: usize,
}

impl Found {
    /// Whether it is these, and nothing else.
    #[must_use]
    pub fn is(&self, wanted: &Redirects) -> bool {
        self.is_there && self.others == 0 && self.redirects == *wanted
    }

    /// Whether there is no table at all.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
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
    // Chains, and the rule at the end of each.
    let (mut chains, mut ends) = (0, 0);
    for one in nftables {
        if let Some(chain) = one.chain {
            let is_ours = |hook: &&str| {
                chain.name == **hook && chain.hook.as_deref() == Some(*hook) && chain.prio == Some(PRIORITY)
            };
            if HOOKS.iter().any(is_ours) {
                chains += 1;
            } else {
                others += 1;
            }
        }
        let Some(rule) = one.rule else { continue };
        if is_end(&rule) {
            ends += 1;
        } else if let Some((socket, to)) = redirect(&rule) {
            by_chain.entry(rule.chain).or_default().insert(socket, to);
        } else {
            others += 1;
        }
    }
    let [output, prerouting] = HOOKS.map(|hook| by_chain.remove(hook).unwrap_or_default());
    let is_in_both = |(socket, to): &(&Socket, &u16)| prerouting.get(socket) == Some(*to);
    let redirects: Redirects = output.iter().filter(is_in_both).map(|(socket, to)| (*socket, *to)).collect();
    others += output.len() + prerouting.len() - 2 * redirects.len();
    let wanted = HOOKS.len();
    others += wanted.abs_diff(chains) + wanted.abs_diff(ends);
    Ok(Found { is_there: chains == wanted && ends == wanted, redirects, others })
}

fn is_end(rule: &Rule) -> bool {
    let is_ours = HOOKS.contains(&rule.chain.as_str());
    let [state, accept] = &rule.expr[..] else { return false };
    is_ours
        && *state == of("in", &json!({"ct": {"key": "state"}}), &"new".into())
        && accept.get("accept").is_some()
}

/// What a rule of ours does; none of anybody else's.
fn redirect(rule: &Rule) -> Option<(Socket, u16)> {
    let hook = HOOKS.into_iter().find(|hook| rule.chain == *hook)?;
    let ([_, _, called, sent] | [_, _, _, called, sent]) = &rule.expr[..] else { return None };
    let to = u16::try_from(sent.get(action(hook))?.get("port")?.as_u64()?).ok()?;
    let port = u16::try_from(called.get("match")?.get("right")?.as_u64()?).ok()?;
    let is_this = |socket: &Socket| {
        let (protocol, begins) = (protocol(*socket), ["fin", "syn", "rst", "ack"]);
        let mut expected = vec![of("!=", &json!({"meta": {"key": "mark"}}), &MARK.into())];
        expected.push(of("==", &json!({"fib": {"result": "type", "flags": ["daddr"]}}), &"local".into()));
        if !socket.is_udp {
            let flags = json!({"payload": {"protocol": "tcp", "field": "flags"}});
            expected.push(of("==", &json!({"&": [flags, begins]}), &"syn".into()));
        }
        expected.push(of("==", &json!({"payload": {"protocol": protocol, "field": "dport"}}), &port.into()));
        expected.push(sent.clone());
        expected == rule.expr
    };
    let socket = [false, true].map(|is_udp| Socket { port, is_udp }).into_iter().find(is_this)?;
    Some((socket, to))
}

fn of(op: &str, left: &Value, right: &Value) -> Value {
    json!({"match": {"op": op, "left": left, "right": right}})
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
    expr: Vec<Value>,
}
