//! Services of TCP and UDP, as nginx's stream module leads them: a file of its own, which the operator's `stream { … }` includes.
//!
//! ```nginx
//! # Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.
//! # digest 5b0f7c2a91e4d366
//! map "$protocol:$server_port" $cm_key { default ""; "TCP:5432" "release-7$connection $msec"; … }
//! split_clients "${cm_key}" $cm_high { 1% 00; 1% 01; …; * 99; }
//! split_clients "${cm_key}#" $cm_low { 1% 00; 1% 01; …; * 99; }
//! map "$protocol:$server_port" $cm_bucket { default ""; "TCP:5432" "0.0.$cm_high.$cm_low"; … }
//! geo $cm_bucket $cm_variation { ranges; default 0; 0.0.0.0-0.0.4.99 1; … }
//! map $cm_variation $cm_1f00_to { default "cm_1f00_$cm_variation"; }
//! upstream cm_1f00_0 { server 127.0.0.1:9101; … }
//! upstream cm_1f00_1 { server 127.0.0.1:9111; … }
//! server { listen 127.0.0.1:5432; proxy_pass $cm_1f00_to; }
//! ```
//!
//! - **A change of shares is a reload.** A stream can't look for a file, so the tables stand in the configuration: as ranges of addresses, of
//!   which nginx has an index. The index takes 512 KiB in each process, so all services share one: the first two parts of an address are the
//!   place of the service in the file, the others its bucket.
//! - **A reload cuts no connection by itself**: the workers that were replaced go on with those that they have accepted, for as long as these
//!   last, or until the operator's `worker_shutdown_timeout` cuts them ([`shutdown_timeout`]).
//! - **Who is known by what.** Without a key each connection of TCP goes to any variation, and each flow of UDP: its key is the address and
//!   port that it comes from, so that whichever worker reads a datagram gives it the same variation, and the same target.
//! - **Of UDP, answers that are on their way at a reload are lost**: the workers that end have closed the socket by which they would go.
//!   The next datagram of a flow comes to its variation by the new table.
//! - **The end of a drain is seen**, as in HTTP, by `limit_conn`. A stream has no paths, so its server of ours is asked with a PROXY header, whose
//!   address of the caller is the key: of hexadecimal digits and colons, which nginx takes as they are.
//! - **Half-closed connections stay open** (`proxy_half_close`): else callers who say that nothing more will come get no answer.
//! - **What counts.** A session of TCP failed if no target took the connection (status 502, or no target left). One in which no byte came from
//!   either side is no call: somebody tried whether the port is open. Every other one succeeded, also where the target broke it off: nginx
//!   logs that as an end in order, or with status 500, as it does where the caller broke it off.
//! - **What isn't known.** Whether a target refused datagrams: nginx logs that as a session that ended in order. So sessions of UDP are in no
//!   count. Nor does nginx say how many sessions ended, and so nobody knows how many of their log lines are lost.
//! - All of the file stands in the include too, as comments, so that both follow from it.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
};

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

/// The line before the comments of the include that have the file.
const MARKER: &str = "#stream";

/// The memory in which each open session stands under its variation.
const SESSIONS: &str = "choirmaster_sessions";

/// What a session is known by before it is known which service it is of.
const SOCKET: &str = "\"$protocol:$server_port\"";

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
    push_tables(&mut text, services);
    push_own_server(&mut text, ask);
    // A session that is no call has no lane.
    let lanes = lanes.max(2);
    if layout.log.is_some() {
        text.line("map \"$status:$bytes_received:$bytes_sent\" $cm_call { default 1; \"200:0:0\" \"\"; }");
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

/// By what sessions of a variation are counted while they are open. It can stand in a PROXY header.
#[must_use]
pub fn session(id: &str, variation: &str) -> String {
    format!("{id}:{}", id_of(variation))
}

/// What all services share: who a session is known by, its bucket, and the number of the variation that has it.
fn push_tables(text: &mut Text, services: &[&Service]) {
    text.line(&format!("limit_conn_zone $cm_session zone={SESSIONS}:{FLIGHTS_ROOM};"));
    let sessions = |_: u16, service: &Service| format!("$cm_{}_session", id_of(service.name.as_str()));
    push_by_socket(text, services, ("$cm_session", "$proxy_protocol_addr"), sessions);
    let keys = |_: u16, service: &Service| {
        let key = match (&service.sticky, service.protocol().is_udp()) {
            (Some(_), _) => "$remote_addr",
            (None, true) => "$remote_addr:$remote_port",
            (None, false) => "$connection $msec",
        };
        format!("\"{}{key}\"", service.salt)
    };
    push_by_socket(text, services, ("$cm_key", "\"\""), keys);
    text.split("${cm_key}", ["$cm_high", "$cm_low"]);
    let buckets = |place: u16, _: &Service| {
        let [high, low] = place.to_be_bytes();
        format!("\"{high}.{low}{DIGITS}\"")
    };
    push_by_socket(text, services, ("$cm_bucket", "\"\""), buckets);
    text.line("geo $cm_bucket $cm_variation {\n    ranges;\n    default 0;");
    for (place, service) in (0..).zip(services) {
        for run in service.table.runs().into_iter().filter(|run| !run.variation.is_stable()) {
            let (from, to) = (bucket_address(place, run.from), bucket_address(place, run.to - 1));
            text.line(&format!("    {from}-{to} {};", run.variation.0));
        }
    }
    text.line("}");
}

/// A variable that has a value of the service whose socket a session came to. `value`: by the place of the service, and itself.
fn push_by_socket(
    text: &mut Text,
    services: &[&Service],
    (variable, default): (&str, &str),
    value: impl Fn(u16, &Service) -> String,
) {
    text.line(&format!("map {SOCKET} {variable} {{\n    default {default};"));
    for (place, service) in (0..).zip(services.iter().copied()) {
        for socket in service.listens.iter().map(Listen::socket) {
            text.line(&format!("    \"{}\" {};", socket_name(socket), value(place, service)));
        }
    }
    text.line("}");
}

/// What [`SOCKET`] is for a session that came there.
fn socket_name(Socket { port, is_udp }: Socket) -> String {
    let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
    format!("{}:{port}", protocol.name())
}

/// The server that is asked.
fn push_own_server(text: &mut Text, ask: SocketAddr) {
    text.line(&format!("server {{\n    listen {ask} proxy_protocol;\n    access_log off;"));
    text.line(&format!("    limit_conn {SESSIONS} 1;\n    limit_conn_dry_run on;"));
    text.line(&format!("    limit_conn_log_level info;\n    return {};\n}}", answer("")));
}

fn push_service(text: &mut Text, service: &Service, layout: &Layout, lanes: usize) {
    let (name, id) = (&service.name, id_of(service.name.as_str()));
    let is_udp = service.protocol().is_udp();
    text.line(&format!("\n# service {name}"));
    // For whoever reads whose this is: nothing asks for it.
    text.line(&format!("map $server_port $cm_{id}_service {{ default \"{name}\"; }}"));
    text.line(&format!("map $cm_variation $cm_{id}_to {{ default \"cm_{id}_$cm_variation\"; }}"));
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
    // Nobody is refused: sessions beyond it pass all the same.
    text.line(&format!("    limit_conn {SESSIONS} {MOST_FLIGHTS};\n    limit_conn_dry_run on;"));
    text.line(&format!("    proxy_connect_timeout {CONNECT};\n    proxy_next_upstream_tries {TRIES};"));
    // What its operator says for all servers of the stream isn't what these targets expect.
    text.line("    proxy_protocol off;");
    if is_udp {
        text.line(&format!("    proxy_timeout {IDLE_OF_UDP};"));
    } else {
        text.line(&format!("    proxy_timeout {IDLE_OF_TCP};\n    proxy_half_close on;"));
    }
    text.line(&format!("    proxy_pass $cm_{id}_to;\n}}"));
}

/// What follows the place of a service in the address of a bucket.
const DIGITS: &str = ".$cm_high.$cm_low";

/// A bucket as an address: the place of its service as the first two parts of four, and its digits as the others.
fn bucket_address(place: u16, bucket: u16) -> Ipv4Addr {
    let [high, low] = place.to_be_bytes();
    Ipv4Addr::new(high, low, (bucket / 100) as u8, (bucket % 100) as u8)
}

/// The place and the bucket of which [`bucket_address`] wrote this.
fn bucket_of(address: &str) -> Option<(u16, u16)> {
    let [high, low, front, back] = address.parse::<Ipv4Addr>().ok()?.octets();
    let bucket = 100 * u16::from(front) + u16::from(back);
    (front < 100 && back < 100).then(|| (u16::from_be_bytes([high, low]), bucket))
}

/// What a line of a session is: see [`log_line`].
fn push_log_format(text: &mut Text, service: &Service, id: &str) {
    let bucket = service.sticky.as_ref().map_or("", |_| "$cm_high$cm_low");
    let (form, name) = (log_line::FORM, &service.name);
    text.line(&format!(
        "log_format cm_{id} '{form}|{}|{name}|$cm_{id}_name|{bucket}|$msec|$status|$session_time|'\n    \
         '$bytes_received|$bytes_sent|$upstream_addr|$pid';",
        log_line::NGINX_STREAM
    ));
}

/// The file as the include has it.
pub(super) fn commented(file: Option<&str>) -> String {
    let Some(file) = file else { return String::new() };
    let mut text = format!("{MARKER}\n");
    for line in file.lines() {
        let _ = writeln!(text, "{LINE}{line}");
    }
    text
}

/// What [`commented`] wrote into an include.
#[must_use]
pub fn stream_of(include: &str) -> Option<String> {
    let lines = include.lines().skip_while(|line| *line != MARKER).skip(1);
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
    let sockets = sockets(all, id)?;
    let table = table(all, &sockets, variations.len())?;
    Ok(StreamService { name, sockets, variations, table })
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

const CHANGED: ParseError = ParseError("which buckets lead to which variation was changed");

/// The directive that gives this variable its value.
fn made<'a>(all: &'a [Directive], name: &str, variable: &str) -> Option<&'a Directive> {
    all.iter().find(|one| one.name() == name && one.word(2) == variable)
}

/// The place of the service that has these sockets.
fn place(all: &[Directive], sockets: &BTreeSet<Socket>) -> Option<u16> {
    let map = made(all, "map", "$cm_bucket")?;
    let mut places = sockets.iter().map(|socket| {
        let line = map.block.iter().find(|line| line.name() == socket_name(*socket))?;
        let (high, low) = line.word(1).strip_suffix(DIGITS)?.split_once('.')?;
        Some(u16::from_be_bytes([high.parse().ok()?, low.parse().ok()?]))
    });
    let first = places.next()??;
    places.all(|place| place == Some(first)).then_some(first)
}

/// Which buckets lead to which variation of the service that has these sockets.
fn table(all: &[Directive], sockets: &BTreeSet<Socket>, variations: usize) -> Result<Table, ParseError> {
    let place = place(all, sockets).ok_or(CHANGED)?;
    let geo = made(all, "geo", "$cm_variation").ok_or(CHANGED)?;
    let which = |line: &Directive| {
        let which = line.word(1).parse().ok().map(Which);
        which.filter(|which| which.index() < variations).ok_or(CHANGED)
    };
    let mut of = vec![Which::STABLE; usize::from(BUCKETS)];
    for line in &geo.block {
        match line.name() {
            "ranges" => {}
            "default" => of.fill(which(line)?),
            range => {
                let (from, to) = range.split_once('-').ok_or(CHANGED)?;
                let ((first, from), (last, to)) = bucket_of(from).zip(bucket_of(to)).ok_or(CHANGED)?;
                if first != last {
                    return Err(CHANGED);
                }
                if first == place {
                    let buckets = of.get_mut(usize::from(from)..=usize::from(to)).ok_or(CHANGED)?;
                    buckets.fill(which(line)?);
                }
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
            "services of TCP and UDP stand in {path}, and nginx doesn't include it: add `stream {{ {line} }}` next to http {{ … }}, and \
             where it doesn't know that word, its stream module (libnginx-mod-stream in Debian and Ubuntu)"
        )
    })
}

/// The `worker_shutdown_timeout` that nginx printed with its configuration: after so long, workers that were replaced cut what they have.
#[must_use]
pub fn shutdown_timeout(printed: &str) -> Option<String> {
    let files = adopt::files(printed);
    let mut all = files.iter().filter_map(|(_, text)| words::read(text)).flatten();
    let line = all.find(|one| one.name() == "worker_shutdown_timeout")?;
    // With 0 they cut nothing.
    Some(line.word(1).to_owned()).filter(|time| time.bytes().any(|byte| matches!(byte, b'1'..=b'9')))
}
