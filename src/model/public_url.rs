//! The address under which people reach a manager's own page. A manager tells it to the one above, which leads people there: so
//! it is checked on both sides, and can be nothing but the address of a page.

use std::net::Ipv4Addr;

/// Longest address, in bytes.
pub const MAX_PUBLIC_URL_BYTES: usize = 512;

/// Why an address is none of a page, to be put behind its name.
pub fn check(url: &str) -> Result<(), &'static str> {
    const FORM: &str = "is https://HOST[:PORT][/PATH], or http:// on a loopback address";
    if url.len() > MAX_PUBLIC_URL_BYTES {
        return Err("has at most 512 bytes");
    }
    let (is_secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(FORM),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("must not hold a user or a password");
    }
    let (host, port) = parted(authority).ok_or(FORM)?;
    let of_path = |c: char| c.is_ascii_alphanumeric() || "/-._~%+".contains(c);
    if !is_host(host) || !port.is_none_or(is_port) || !path.chars().all(of_path) {
        return Err(FORM);
    }
    if is_secure || is_loopback(host) { Ok(()) } else { Err(FORM) }
}

/// Why an address is none where a node takes events, to be put behind its name.
pub fn check_node(url: &str) -> Result<(), &'static str> {
    const FORM: &str = "is http://HOST:PORT or https://HOST:PORT";
    let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or(FORM)?;
    let (host, port) = parted(authority).ok_or(FORM)?;
    let is_one = url.len() <= MAX_PUBLIC_URL_BYTES && is_host(host) && port.is_some_and(is_port);
    if is_one { Ok(()) } else { Err(FORM) }
}

/// Host and port. An address of IPv6 stands in brackets.
fn parted(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = if authority.starts_with('[') { authority.find(']')? + 1 } else { 0 };
    match authority.get(end..)?.find(':') {
        Some(at) => Some((authority.get(..end + at)?, Some(authority.get(end + at + 1..)?))),
        None => Some((authority, None)),
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !host.is_empty() && host.len() <= 253 && host.chars().all(of_name)
}

fn is_port(port: &str) -> bool {
    port.chars().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host == "[::1]"
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}
