//! The include, read back: what it says that services are, whoever wrote it last.

use std::collections::BTreeSet;

use super::{
    asked_name, digest_of, loaded,
    text::FIRST_LINE,
    words::{self, Directive},
};
use traffic::desired::{CookieName, HeaderName, HeaderValue, Name, StickyTo, Target};

/// The head of an include of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub digest: String,
    pub load: u64,
    /// Everything below is as it was written.
    pub is_whole: bool,
}

/// A service as the include has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedService {
    pub name: Name,
    pub id: String,
    pub structure: String,
    pub ports: Vec<u16>,
    /// Names of headers are in small letters.
    pub sticky: Option<StickyTo>,
    /// The header by which callers ask, and its values; which variation each leads to stands in files.
    pub rule: Option<(HeaderName, Vec<HeaderValue>)>,
    pub salt: Name,
    pub variations: Vec<(Name, Vec<Target>)>,
}

/// The include doesn't say what one of ours says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the include was changed so that it can't be read any more: {0}")]
pub struct ParseError(pub(super) &'static str);

/// What the head says of the include; none where it isn't one of ours.
#[must_use]
pub fn header(text: &str) -> Option<Header> {
    let (line, body) = text.strip_prefix(FIRST_LINE)?.split_once('\n')?;
    let (digest, load) = line.strip_prefix("# digest ")?.split_once(" load ")?;
    let load = load.parse().ok()?;
    let is_digest = digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let body = body.replacen(&loaded(digest, load), &loaded("", 0), 1);
    is_digest.then(|| Header { digest: digest.to_owned(), load, is_whole: digest_of(&body) == digest })
}

/// The same include for another load.
#[must_use]
pub fn with_load(text: &str, header: &Header, load: u64) -> String {
    let Header { digest, load: before, .. } = header;
    let head = |load| format!("# digest {digest} load {load}\n");
    let text = text.replacen(&head(*before), &head(load), 1);
    text.replacen(&loaded(digest, *before), &loaded(digest, load), 1)
}

/// The services that the include has, in its order.
///
/// # Errors
///
/// It has something that no include of ours has, where a service's own words are expected.
pub fn parse(text: &str) -> Result<Vec<ParsedService>, ParseError> {
    let all = words::read(text).ok_or(ParseError("its braces, quotes and semicolons don't match"))?;
    let own = all.iter().filter(|one| one.name() == "server").find_map(own_locations);
    let own = own.ok_or(ParseError("the server that answers questions is gone"))?;
    own.into_iter().map(|(id, answer)| service(&all, &id, &answer)).collect()
}

/// The ids of services, each with what its location answers.
fn own_locations(server: &Directive) -> Option<Vec<(String, String)>> {
    let is_own = server.block.iter().any(|one| one.word(2) == super::path::LOADED);
    let locations = server.block.iter().filter_map(|location| {
        let id = location.word(2).strip_prefix("/choirmaster/of/")?;
        let answer = location.block.iter().find(|one| one.name() == "return")?;
        Some((id.to_owned(), answer.word(2).to_owned()))
    });
    is_own.then(|| locations.collect())
}

fn service(all: &[Directive], id: &str, answer: &str) -> Result<ParsedService, ParseError> {
    let mut words = answer.split(' ');
    let name = words.next().and_then(|name| name.parse().ok()).ok_or(ParseError("a service has no name"))?;
    let structure = words.next().unwrap_or_default().to_owned();
    let variations = variations(all, id)?;
    Ok(ParsedService {
        name,
        structure,
        ports: ports(all, id)?,
        sticky: sticky(all, id)?,
        rule: rule(all, id)?,
        salt: salt(all, id)?,
        variations,
        id: id.to_owned(),
    })
}

/// The directive that gives this variable of a service its value.
fn made<'a>(all: &'a [Directive], id: &str, which: &str) -> Option<&'a Directive> {
    let variable = format!("$cm_{id}_{which}");
    all.iter().find(|one| one.word(2) == variable && matches!(one.name(), "map" | "split_clients"))
}

/// The ports at which servers of ours listen, other than the one that answers questions.
///
/// # Errors
///
/// As [`parse`].
pub fn listens(text: &str) -> Result<BTreeSet<u16>, ParseError> {
    let all = words::read(text).ok_or(ParseError("its braces, quotes and semicolons don't match"))?;
    let servers = all.iter().filter(|one| one.name() == "server" && own_locations(one).is_none());
    let listens = servers.flat_map(|server| &server.block).filter(|one| one.name() == "listen");
    listens.map(port_of).collect()
}

/// At which a server listens.
pub(super) fn port_of(listen: &Directive) -> Result<u16, ParseError> {
    let port = listen.word(1).rsplit(':').next().and_then(|port| port.parse().ok());
    port.ok_or(ParseError("a service listens at something that is no port"))
}

/// Where it takes calls, alone or not.
fn ports(all: &[Directive], id: &str) -> Result<Vec<u16>, ParseError> {
    let shared = made(all, id, "ports").and_then(|map| map.block.first()).map(|one| one.word(1));
    let shared = shared.unwrap_or_default().split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>();
    let mut ports = shared.map_err(|_| ParseError("the ports that a service shares were changed"))?;
    let upstream = format!("http://cm_{id}_0");
    let leads_there = |server: &&Directive| {
        let locations = server.block.iter().filter(|one| one.name() == "location");
        let mut passes = locations.flat_map(|one| &one.block).filter(|one| one.name() == "proxy_pass");
        server.name() == "server" && passes.any(|one| one.word(1) == upstream)
    };
    let own = all.iter().filter(leads_there).flat_map(|server| &server.block);
    for listen in own.filter(|one| one.name() == "listen") {
        ports.push(port_of(listen)?);
    }
    if ports.is_empty() {
        return Err(ParseError("a service takes calls nowhere"));
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

fn sticky(all: &[Directive], id: &str) -> Result<Option<StickyTo>, ParseError> {
    const NONE: ParseError = ParseError("what a service knows users by is gone");
    let source = made(all, id, "key").ok_or(NONE)?.word(1);
    if source == "$request_id" {
        return Ok(None);
    }
    if source == "$remote_addr" {
        return Ok(Some(StickyTo::Address));
    }
    if let Some(name) = source.strip_prefix("$http_") {
        return Ok(Some(StickyTo::Header(header_name(name).ok_or(NONE)?)));
    }
    if let Some(name) = source.strip_prefix("$cookie_") {
        return Ok(Some(StickyTo::Cookie(name.parse().map_err(|_| NONE)?)));
    }
    let pattern = made(all, id, "cookie").and_then(|map| map.block.last()).ok_or(NONE)?.word(0);
    let name = pattern.strip_prefix("~(?:^|;)[ \\x09]*").and_then(|rest| rest.strip_suffix("=([^;]*)"));
    let name: Option<CookieName> = name.and_then(words::literal).and_then(|name| name.parse().ok());
    Ok(Some(StickyTo::Cookie(name.ok_or(NONE)?)))
}

fn header_name(of_variable: &str) -> Option<HeaderName> {
    of_variable.replace('_', "-").parse().ok()
}

fn salt(all: &[Directive], id: &str) -> Result<Name, ParseError> {
    let source = made(all, id, "h").map(|split| split.word(1));
    let salt = source.and_then(|source| source.strip_suffix(&format!("${{cm_{id}_key}}")));
    salt.and_then(|salt| salt.parse().ok()).ok_or(ParseError("a service draws users by something else"))
}

fn rule(all: &[Directive], id: &str) -> Result<Option<(HeaderName, Vec<HeaderValue>)>, ParseError> {
    const NONE: ParseError = ParseError("a header rule was changed");
    let Some(map) = made(all, id, "rule") else { return Ok(None) };
    let name = map.word(1).strip_prefix("$http_").and_then(header_name).ok_or(NONE)?;
    let values = map.block.iter().filter(|one| one.name() != "default").enumerate();
    let value = |(at, value): (usize, &Directive)| {
        let text = words::exact_text(value.word(0)).and_then(|text| text.parse().ok());
        text.filter(|_| value.word(1) == asked_name(at))
    };
    let values: Option<Vec<HeaderValue>> = values.map(value).collect();
    Ok(Some((name, values.ok_or(NONE)?)))
}

pub(super) fn variations(all: &[Directive], id: &str) -> Result<Vec<(Name, Vec<Target>)>, ParseError> {
    const NONE: ParseError = ParseError("the names of a service's variations are gone");
    let names = made(all, id, "name").ok_or(NONE)?;
    let names = names.block.iter().filter(|one| one.name() != "default");
    let mut variations = Vec::new();
    for (at, name) in names.enumerate() {
        let upstream = format!("cm_{id}_{at}");
        if name.word(0) != upstream {
            return Err(NONE);
        }
        let block = all.iter().find(|one| one.name() == "upstream" && one.word(1) == upstream);
        let block = block.ok_or(ParseError("a variation leads nowhere"))?;
        let servers = block.block.iter().filter(|one| one.name() == "server");
        let targets = servers.map(|server| target(server.word(1))).collect::<Option<Vec<_>>>();
        let targets = targets.ok_or(ParseError("a variation leads to something that is no target"))?;
        variations.push((name.word(1).parse().map_err(|_| NONE)?, targets));
    }
    if variations.is_empty() || variations.len() > traffic::MAX_VARIATIONS {
        return Err(NONE);
    }
    Ok(variations)
}

fn target(text: &str) -> Option<Target> {
    match text.strip_prefix("unix.:") {
        Some(port) => format!("unix:{port}").parse().ok(),
        None => text.parse().ok(),
    }
}
