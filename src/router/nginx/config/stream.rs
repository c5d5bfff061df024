//! Services of TCP and UDP, as nginx's stream module leads them: a file of its own, which the operator's `stream { … }` includes.
//!
//! ```nginx
//! # Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.
//! # digest 5b0f7c2a91e4d366
//! map $connection $cm_1f00_key { default "$connection $msec"; }
//! split_clients "release-7${cm_1f00_key}" $cm_1f00_h { 1% 00; 1% 01; …; * 99; }
//! split_clients "release-7${cm_1f00_key}#" $cm_1f00_l { 1% 00; 1% 01; …; * 99; }
//! map $cm_1f00_h $cm_1f00_bucket { default "0.$cm_1f00_h.0.$cm_1f00_l"; }
//! geo $cm_1f00_bucket $cm_1f00_to { ranges; default cm_1f00_0; 0.0.0.0-0.4.0.99 cm_1f00_1; }
//! upstream cm_1f00_0 { server 127.0.0.1:9101; … }
//! upstream cm_1f00_1 { server 127.0.0.1:9111; … }
//! server { listen 127.0.0.1:5432; proxy_pass $cm_1f00_to; }
//! ```
//!
//! - **A change of shares is a load.** A stream can't look for a file, so the table stands in the configuration: as ranges of addresses, which
//!   nginx finds without a walk over them. Connections that were accepted stay where they are; none is lost by a load.
//! - **Who is known by what.** Without a key each connection of TCP goes to any variation, and each flow of UDP: its key is the address and
//!   port that it comes from, so that whichever worker reads a datagram gives it the same variation, and the same target.
//! - **Of UDP, answers that are on their way at a load are lost**: the workers that end have closed the socket by which they would go.
//!   The next datagram of a flow comes to its variation by the new table.
//! - **The end of a drain is seen**, as in HTTP, by `limit_conn`. A stream has no paths, so its server of ours is asked with a PROXY header, whose
//!   address of the caller is the key: of hexadecimal digits and colons, which nginx takes as they are.
//! - **Half-closed connections stay open** (`proxy_half_close`): else callers who say that nothing more will come get no answer.
//! - **What isn't known.** Whether a target refused datagrams, or broke a connection that it had taken: nginx logs either as a session that
//!   ended in order. So sessions of UDP are in no count. Nor does nginx say how many sessions ended, and so lines of theirs are lost unseen.
//! - All of the file stands in the include too, as comments, so that both follow from it.

use std::{collections::BTreeSet, fmt::Write as _, net::SocketAddr};

use super::{
    Layout, adopt,
    buckets::table_from,
    digest_of, id_of,
    parse::{ParseError, port_of, variations},
    parts::LINE,
    text::{FIRST_LINE, FLIGHTS_ROOM, MOST_FLIGHTS, TRIES, Text, push_lanes},
    words::{self, Directive},
};
use crate::log_line;
use model::traffic::Socket;
use traffic::{
    BUCKETS, Table, Variation as Which,
    desired::{Listen, Name, Protocol, Service, Target},
};

/// What comes before the file in the include.
const NOTED: &str = "#stream";

/// As in HTTP.
const FLIGHTS: &str = "choirmaster_sessions";

/// Limits as the embedded proxy has them.
const CONNECT: &str = "1s";
const IDLE_OF_TCP: &str = "1h";
const IDLE_OF_UDP: &str = "30s";

/// A service as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamService {
    pub name: Name,
    pub sockets: BTreeSet<Socket>,
    pub variations: Vec<(Name, Vec<Target>)>,
    pub table: Table,
}

/// The file; none where there is no such service. `lanes`: among how many sockets lines are spread.
pub(super) fn render(services: &[&Service], layout: &Layout, lanes: usize) -> Option<String> {
    let ask = layout.ask_stream.filter(|_| !services.is_empty())?;
    let mut text = Text(String::new());
    push_frame(&mut text, services, ask);
    // What was no call has no lane.
    let lanes = lanes.max(2);
    if layout.log.is_some() {
        // Nobody called who said nothing, unless that couldn't be heard.
        text.line("map \"$status:$bytes_received\" $cm_call { default 1; \"200:0\" \"\"; }");
        push_lanes(&mut text.0, lanes, "$msec$connection", Some("$cm_call"));
    }
    for service in services {
        push_service(&mut text, service, layout, lanes);
    }
    let digest = digest_of(&text.0);
    let body = text.0.replacen(&answer(""), &answer(&digest), 1);
    Some(format!("{FIRST_LINE}{}{body}", digest_line(&digest)))
}

fn digest_line(digest: &str) -> String {
    format!("# digest {digest}\n")
}

/// What the server of ours answers for the file with this digest.
fn answer(digest: &str) -> String {
    format!("\"choirmaster {digest} $limit_conn_status\\n\"")
}

/// By what sessions of a variation are counted while they go on. It can stand in a PROXY header.
#[must_use]
pub fn session(id: &str, variation: &str) -> String {
    format!("{id}:{}", id_of(variation))
}

/// What stands there once, whatever services there are.
fn push_frame(text: &mut Text, services: &[&Service], ask: SocketAddr) {
    text.line(&format!("limit_conn_zone $cm_session zone={FLIGHTS}:{FLIGHTS_ROOM};"));
    text.line("map \"$protocol:$server_port\" $cm_session {\n    default $proxy_protocol_addr;");
    for service in services {
        let id = id_of(service.name.as_str());
        for Socket { port, is_udp } in service.listens.iter().map(Listen::socket) {
            let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
            text.line(&format!("    \"{}:{port}\" $cm_{id}_session;", protocol.name()));
        }
    }
    text.line("}");
    text.line(&format!("server {{\n    listen {ask} proxy_protocol;\n    access_log off;"));
    text.line(&format!("    limit_conn {FLIGHTS} 1;\n    limit_conn_dry_run on;"));
    text.line(&format!("    limit_conn_log_level info;\n    return {};\n}}", answer("")));
}

fn push_service(text: &mut Text, service: &Service, layout: &Layout, lanes: usize) {
    let (name, id) = (&service.name, id_of(service.name.as_str()));
    let is_udp = service.protocol().is_udp();
    text.line(&format!("\n# service {name}"));
    // For whoever reads whose this is: nothing asks for it.
    text.line(&format!("map $server_port $cm_{id}_service {{ default \"{name}\"; }}"));
    let key = match (&service.sticky, is_udp) {
        (Some(_), _) => "$remote_addr",
        (None, true) => "$remote_addr:$remote_port",
        (None, false) => "$connection $msec",
    };
    text.line(&format!("map $connection $cm_{id}_key {{ default \"{key}\"; }}"));
    text.split(service.salt.as_str(), &id);
    text.line(&format!("map $cm_{id}_h $cm_{id}_bucket {{ default \"0.$cm_{id}_h.0.$cm_{id}_l\"; }}"));
    push_table(text, &service.table, &id);
    text.names(&service.variations, &id, &format!("$cm_{id}_to"));
    let mut sessions = String::new();
    for (at, variation) in service.variations.iter().enumerate() {
        // Writing into a string can't fail.
        let _ = write!(sessions, " cm_{id}_{at} \"{}\";", session(&id, variation.name.as_str()));
    }
    text.line(&format!("map $cm_{id}_to $cm_{id}_session {{ default \"\";{sessions} }}"));
    for (at, variation) in service.variations.iter().enumerate() {
        text.upstream(variation, &id, at);
        // Workers take turns each for itself, and any of them may have the next datagram.
        text.line(if is_udp { "    hash \"$remote_addr:$remote_port\" consistent;\n}" } else { "}" });
    }
    let log = layout.log.as_ref().filter(|_| !is_udp);
    if log.is_some() {
        push_log_format(text, service, &id);
    }
    text.line("server {");
    for listen in &service.listens {
        // Each worker has a socket of its own, so that a flow is one session.
        let how = if is_udp { " udp reuseport" } else { "" };
        for address in &layout.listen_on {
            text.line(&format!("    listen {}{how};", SocketAddr::new(*address, listen.port)));
        }
    }
    if let Some(log) = log {
        text.access_logs(log, &format!("cm_{id}"), lanes);
    }
    // It holds nobody up: what is beyond it passes all the same.
    text.line(&format!("    limit_conn {FLIGHTS} {MOST_FLIGHTS};\n    limit_conn_dry_run on;"));
    text.line(&format!("    proxy_connect_timeout {CONNECT};\n    proxy_next_upstream_tries {TRIES};"));
    if is_udp {
        text.line(&format!("    proxy_timeout {IDLE_OF_UDP};"));
    } else {
        text.line(&format!("    proxy_timeout {IDLE_OF_TCP};\n    proxy_half_close on;"));
    }
    text.line(&format!("    proxy_pass $cm_{id}_to;\n}}"));
}

/// Which upstream each bucket leads to. A bucket is written as an address, its two digits in front as the second part of four and those
/// behind as the last: nginx finds those of the first two parts at once, and looks through the ranges of these alone.
fn push_table(text: &mut Text, table: &Table, id: &str) {
    text.line(&format!("geo $cm_{id}_bucket $cm_{id}_to {{\n    ranges;\n    default cm_{id}_0;"));
    for run in table.runs().into_iter().filter(|run| !run.variation.is_stable()) {
        let (from, to) = (bucket_address(run.from), bucket_address(run.to - 1));
        text.line(&format!("    {from}-{to} cm_{id}_{};", run.variation.0));
    }
    text.line("}");
}

fn bucket_address(bucket: u16) -> String {
    format!("0.{}.0.{}", bucket / 100, bucket % 100)
}

/// What [`bucket_address`] wrote.
fn bucket_of(address: &str) -> Option<u16> {
    let (high, low) = address.strip_prefix("0.")?.split_once(".0.")?;
    let digits = |text: &str| text.parse::<u16>().ok().filter(|digits| *digits < 100);
    Some(100 * digits(high)? + digits(low)?)
}

/// What a line of a session is: see [`log_line`].
fn push_log_format(text: &mut Text, service: &Service, id: &str) {
    let bucket = service.sticky.as_ref().map(|_| format!("$cm_{id}_h$cm_{id}_l")).unwrap_or_default();
    let (form, name) = (log_line::FORM, &service.name);
    text.line(&format!(
        "log_format cm_{id} '{form}|{}|{name}|$cm_{id}_name|{bucket}|$msec|$status|$session_time|'\n    \
         '$bytes_received|$bytes_sent|$upstream_addr|$pid';",
        log_line::NGINX_STREAM
    ));
}

/// The file as the include has it.
pub(super) fn noted(file: Option<&str>) -> String {
    let Some(file) = file else { return String::new() };
    let mut text = format!("{NOTED}\n");
    for line in file.lines() {
        let _ = writeln!(text, "{LINE}{line}");
    }
    text
}

/// What [`noted`] wrote into an include.
#[must_use]
pub fn stream_of(include: &str) -> Option<String> {
    let lines = include.lines().skip_while(|line| *line != NOTED).skip(1);
    let lines = lines.map_while(|line| line.strip_prefix(LINE));
    let file: String = lines.flat_map(|line| [line, "\n"]).collect();
    Some(file).filter(|file| !file.is_empty())
}

/// Of a file of ours that has services.
#[must_use]
pub fn stream_digest(file: &str) -> Option<&str> {
    let (digest, _) = file.strip_prefix(FIRST_LINE)?.strip_prefix("# digest ")?.split_once('\n')?;
    let is_digest = digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some(digest)
}

/// The services that the file has, in its order.
///
/// # Errors
///
/// It has something that no file of ours has, where a service's own words are expected.
pub fn parse_stream(file: &str) -> Result<Vec<StreamService>, ParseError> {
    let all = words::read(file).ok_or(ParseError("its braces, quotes and semicolons don't match"))?;
    let named = all.iter().filter(|one| one.name() == "map").filter_map(|map| {
        let id = map.word(2).strip_prefix("$cm_")?.strip_suffix("_service")?;
        Some((id, map.block.first().map_or("", |one| one.word(1))))
    });
    named.map(|(id, name)| service(&all, id, name)).collect()
}

fn service(all: &[Directive], id: &str, name: &str) -> Result<StreamService, ParseError> {
    let name = name.parse().map_err(|_| ParseError("a service has no name"))?;
    let variations = variations(all, id)?;
    let table = table(all, id, variations.len())?;
    Ok(StreamService { name, sockets: sockets(all, id)?, variations, table })
}

fn sockets(all: &[Directive], id: &str) -> Result<BTreeSet<Socket>, ParseError> {
    let to = format!("$cm_{id}_to");
    let leads_there = |server: &&Directive| {
        server.name() == "server"
            && server.block.iter().any(|one| one.name() == "proxy_pass" && one.word(1) == to)
    };
    let lines = all.iter().filter(leads_there).flat_map(|server| &server.block);
    let socket = |listen: &Directive| -> Result<Socket, ParseError> {
        let is_udp = listen.words.iter().any(|word| word == "udp");
        Ok(Socket { port: port_of(listen)?, is_udp })
    };
    let sockets: BTreeSet<Socket> =
        lines.filter(|one| one.name() == "listen").map(socket).collect::<Result<_, _>>()?;
    if sockets.is_empty() { Err(ParseError("a service takes calls nowhere")) } else { Ok(sockets) }
}

fn table(all: &[Directive], id: &str, variations: usize) -> Result<Table, ParseError> {
    const CHANGED: ParseError = ParseError("which buckets lead to which variation was changed");
    let to = format!("$cm_{id}_to");
    let geo = all.iter().find(|one| one.name() == "geo" && one.word(2) == to).ok_or(CHANGED)?;
    let which = |upstream: &str| {
        let number = upstream.strip_prefix(&format!("cm_{id}_"))?.parse().ok()?;
        Some(Which(number)).filter(|which| which.index() < variations)
    };
    let mut of = vec![Which::STABLE; usize::from(BUCKETS)];
    for line in &geo.block {
        match line.name() {
            "ranges" => {}
            "default" => of.fill(which(line.word(1)).ok_or(CHANGED)?),
            range => {
                let (from, to) = range.split_once('-').ok_or(CHANGED)?;
                let (from, to) = bucket_of(from).zip(bucket_of(to)).ok_or(CHANGED)?;
                let buckets = of.get_mut(usize::from(from)..=usize::from(to)).ok_or(CHANGED)?;
                buckets.fill(which(line.word(1)).ok_or(CHANGED)?);
            }
        }
    }
    table_from(variations, &of).map_err(|_| CHANGED)
}

/// Why services of TCP and UDP aren't served from the file at this path, by what `nginx -T` printed; none: it is included.
#[must_use]
pub fn stream_not_included(path: &str, printed: &str) -> Option<String> {
    let files = adopt::files(printed);
    if files.iter().any(|(file, _)| *file == path) {
        return None;
    }
    let mut all = files.iter().filter_map(|(_, text)| words::read(text)).flatten();
    let line = format!("include {path};");
    Some(if all.any(|one| one.name() == "stream") {
        format!(
            "services of TCP and UDP stand in {path}, and nginx doesn't include it: add `{line}` to stream {{ … }}"
        )
    } else {
        format!(
            "services of TCP and UDP stand in {path}, and nginx doesn't include it: add `stream {{ {line} }}` beside http {{ … }}, and \
             where it doesn't know that word, its stream module (libnginx-mod-stream in Debian and Ubuntu)"
        )
    })
}
