//! What `HAProxy` lists of its servers and of what they have to do.

use std::net::IpAddr;

use super::Fault;

/// A server, from `show servers state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server<'a> {
    /// Grows with the place in the configuration.
    pub(super) backend_id: u64,
    pub(super) backend: &'a str,
    pub(super) name: &'a str,
    /// None where a name leads nowhere.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    /// None where nothing has looked yet.
    pub(super) is_healthy: Option<bool>,
}

/// What a proxy or server has to do, from `show stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Load<'a> {
    pub(super) proxy: &'a str,
    /// `FRONTEND` and `BACKEND` stand for the proxy itself.
    pub(super) name: &'a str,
    /// Calls and connections that are under way or wait for a server.
    pub(super) under_way: u64,
    /// Those that are over.
    pub(super) ended: u64,
}

/// Version 1 is the only one that there ever was.
const VERSION: &str = "1";
/// Of the state of a check: that there is one.
const IS_CONFIGURED: u32 = 0x02;
/// Of the result of a check: that there is none yet.
const NOT_LOOKED: &str = "0";

pub(super) fn servers(answer: &str) -> Result<Vec<Server<'_>>, Fault> {
    let mut lines = answer.lines().filter(|line| !line.is_empty());
    let version = lines.next().unwrap_or_default();
    if version != VERSION {
        return Err(Fault::of(version));
    }
    let names: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(' ').collect();
    let of = |line| server(line, &names).ok_or_else(|| Fault::of(line));
    lines.filter(|line| !line.starts_with('#')).map(of).collect()
}

fn server<'a>(line: &'a str, names: &[&str]) -> Option<Server<'a>> {
    let fields: Vec<&str> = line.split(' ').collect();
    let field = |name: &str| fields.get(names.iter().position(|there| *there == name)?).copied();
    let check: u32 = field("srv_check_state")?.parse().ok()?;
    let is_up = field("srv_op_state")? != "0";
    let is_in_use = field("srv_admin_state")? == "0";
    let has_looked = check & IS_CONFIGURED != 0 && field("srv_check_result")? != NOT_LOOKED;
    Some(Server {
        backend_id: field("be_id")?.parse().ok()?,
        backend: field("be_name")?,
        name: field("srv_name")?,
        address: field("srv_addr")?.parse().ok(),
        port: field("srv_port")?.parse().ok()?,
        is_healthy: (has_looked || !is_in_use).then_some(is_up && is_in_use),
    })
}

pub(super) fn loads(answer: &str) -> Result<Vec<Load<'_>>, Fault> {
    let mut lines = answer.lines().filter(|line| !line.is_empty());
    let header = lines.next().unwrap_or_default();
    let names: Vec<&str> = header.strip_prefix("# ").ok_or_else(|| Fault::of(header))?.split(',').collect();
    let of = |line| load(line, &names).ok_or_else(|| Fault::of(line));
    lines.map(of).collect()
}

/// All fields that are read come before the first that may be quoted.
fn load<'a>(line: &'a str, names: &[&str]) -> Option<Load<'a>> {
    let fields: Vec<&str> = line.split(',').collect();
    let field = |name: &str| fields.get(names.iter().position(|there| *there == name)?).copied();
    let number = |name: &str| match field(name)? {
        "" => Some(0),
        number => number.parse::<u64>().ok(),
    };
    let under_way = number("scur")?.saturating_add(number("qcur")?);
    let ended = number("stot")?.saturating_sub(number("scur")?);
    Some(Load { proxy: field("pxname")?, name: field("svname")?, under_way, ended })
}
