use std::{fmt::Write as _, net::IpAddr, time::Duration};

use super::{
    Folder, LAST_RESORT, MARK, STATE, Structure, backend, frontend,
    maps::{CLOSED, rule_name, switch_key, table_name},
};
use crate::log_line::{self, LANES, LogPath};
use traffic::{
    BUCKETS, HashFunction,
    desired::{DesiredConfig, Health, Host, Listen, Protocol, Service, StickyTo, Target, Variant},
};

/// What is set of a router, whatever it is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub folder: Folder,
    /// Where services listen, each at its ports.
    pub addresses: Vec<IpAddr>,
    /// What callers of HTTPS are shown: a file in PEM with its key in it or beside it (`.key`), or a folder of such, one for each host. None:
    /// there can be no services of HTTPS.
    pub certificate: Option<Folder>,
    /// How long a process that was replaced may go on with connections that it has. None: what the operator's own file says.
    pub hard_stop_after: Option<Duration>,
    /// Where a line of each call to a service of ours goes, as `HAProxy` sees it; none: nowhere.
    pub log: Option<LogPath>,
}

/// A wanted state as `HAProxy` is told it, but for its maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Of everything that takes a reload.
    pub structure: Structure,
    /// The whole file.
    pub text: String,
}

/// What a service asks for and `HAProxy` can't do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    #[error("service {0} takes {1:?}; HAProxy is led for HTTP, HTTPS and TCP")]
    Protocol(String, Protocol),
    #[error("service {0} takes HTTPS, and no certificate is set: haproxy.certificate")]
    Certificate(String),
    #[error("service {0} has a host or a path, and each port is one service's")]
    Routes(String),
    #[error("the keys of service {0} are hashed by {1:?}; HAProxy has Xxh32")]
    Hash(String, HashFunction),
}

/// Of the two sections of settings that ours begin with.
const HTTP: &str = "choirmaster::http";
const TCP: &str = "choirmaster::tcp";

/// Limits as the embedded proxy has them.
const DEFAULTS: &str = "
    timeout connect 1s
    timeout queue 1s
    timeout check 1s
    option redispatch 1
    retries 2
    balance roundrobin
";
const HTTP_DEFAULTS: &str = "    mode http
    option idle-close-on-response
    timeout http-request 10s
    timeout http-keep-alive 75s
    timeout client 60s
    timeout server 60s
    timeout tunnel 1h";
const TCP_DEFAULTS: &str = "    mode tcp
    timeout client 1h
    timeout server 1h";

/// One field is gone on with; behind several stands another, which means the same.
const FORWARDED: &str =
    "    http-request set-header X-Forwarded-For \"%[req.fhdr(X-Forwarded-For)], %[src]\" \
    if { req.fhdr_cnt(X-Forwarded-For) eq 1 }
    http-request add-header X-Forwarded-For %[src] unless { req.fhdr_cnt(X-Forwarded-For) eq 1 }
    http-request set-header X-Forwarded-Proto http
";
const SECURED: &str = "    http-request set-header X-Forwarded-Proto https if { ssl_fc }\n";

const EXPLAINED: &str = "\
# Written as a whole by choirmaster, by the wanted state of that number: what is changed here by hand is lost.
# Give it to HAProxy as its last -f. What shares calls stands in maps, and changes without a reload.
";

/// Writes a wanted state down.
///
/// # Errors
///
/// A service that takes UDP, or HTTPS without a certificate, or a part of a port, or whose keys are hashed by another function.
pub fn section(wanted: &DesiredConfig, frame: &Frame) -> Result<Section, Unable> {
    wanted.services().iter().try_for_each(|service| check(service, frame))?;
    let unplaced = body(wanted, frame, &frame.folder.below("-"));
    let structure = Structure::of(&unplaced);
    let placed = body(wanted, frame, &frame.folder.maps(&structure));
    let text = format!("# choirmaster {}\n{EXPLAINED}{placed}", wanted.number);
    Ok(Section { structure, text })
}

fn check(service: &Service, frame: &Frame) -> Result<(), Unable> {
    if service.protocol() == Protocol::Udp {
        return Err(Unable::Protocol(service.name.to_string(), Protocol::Udp));
    }
    if service.protocol() == Protocol::Https && frame.certificate.is_none() {
        return Err(Unable::Certificate(service.name.to_string()));
    }
    if service.listens.iter().any(Listen::is_routed) {
        return Err(Unable::Routes(service.name.to_string()));
    }
    match service.hash {
        HashFunction::Murmur2 if service.sticky.is_some() => {
            Err(Unable::Hash(service.name.to_string(), service.hash))
        }
        HashFunction::Murmur2 | HashFunction::Xxh32 => Ok(()),
    }
}

/// All but the first lines. `maps` is the folder of the maps.
fn body(wanted: &DesiredConfig, frame: &Frame, maps: &str) -> String {
    let mut text = String::new();
    if let Some(time) = frame.hard_stop_after {
        line(&mut text, format_args!("global\n    hard-stop-after {}", milliseconds(time)));
    }
    for (name, settings) in [(HTTP, HTTP_DEFAULTS), (TCP, TCP_DEFAULTS)] {
        line(&mut text, format_args!("defaults {name}\n{settings}{}", DEFAULTS.trim_end()));
    }
    // It takes no calls, and says by its map which file this process loaded, also where there is no service.
    line(&mut text, format_args!("backend {MARK}:state from {HTTP}"));
    line(
        &mut text,
        format_args!("    http-request deny if {{ str(number),map_str({maps}/{STATE}) -m found }}"),
    );
    for service in wanted.services() {
        write_frontend(&mut text, service, frame, maps);
        for variant in service.variants() {
            write_backend(&mut text, service, variant);
        }
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a string can't fail.
    let _ = writeln!(text, "{line}");
}

/// At most what `HAProxy` takes, which is 24 days.
fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis().clamp(1, 2_000_000_000))
}

fn write_frontend(text: &mut String, service: &Service, frame: &Frame, maps: &str) {
    let name = service.name.as_str();
    let is_http = service.protocol().is_http();
    let defaults = if is_http { HTTP } else { TCP };
    line(text, format_args!("frontend {} from {defaults}", frontend(name)));
    for listen in &service.listens {
        let certificate = frame.certificate.as_ref().filter(|_| listen.protocol == Protocol::Https);
        let ssl = certificate.map(|path| format!(" ssl crt {}", path.path().display())).unwrap_or_default();
        for address in &frame.addresses {
            match address {
                IpAddr::V4(address) => {
                    line(text, format_args!("    bind {address}:{}{ssl}", listen.port));
                }
                IpAddr::V6(address) => {
                    line(text, format_args!("    bind [{address}]:{} v6only{ssl}", listen.port));
                }
            }
        }
    }
    if is_http {
        text.push_str(FORWARDED);
    }
    if service.protocol() == Protocol::Https {
        text.push_str(SECURED);
    }
    if let Some(log) = &frame.log {
        write_log(text, service, log);
    }
    write_choice(text, service, maps, frame.log.is_some());
    for variant in service.variants().filter(|variant| !variant.which.is_stable()) {
        let variation = variant.variation.name.as_str();
        let to = backend(name, variation);
        let alive = match variant.variation.health {
            Some(_) => format!(" {{ nbsrv({to}) gt 0 }}"),
            None => String::new(),
        };
        line(text, format_args!("    use_backend {to} if {{ var(txn.cm_to) -m str -- {variation} }}{alive}"));
    }
    let stable = service.variants().next().map(|variant| backend(name, variant.variation.name.as_str()));
    line(text, format_args!("    default_backend {}", stable.unwrap_or_default()));
}

/// A line a call: see [`line`]. It is sent as a datagram, for which nobody waits.
fn write_log(text: &mut String, service: &Service, log: &LogPath) {
    for lane in 0..LANES {
        let (path, one) = (log.lane(lane), lane + 1);
        line(
            text,
            format_args!(
                "    log {path} len {} format raw sample {one}:{LANES} local0 info",
                log_line::LONGEST
            ),
        );
    }
    // Connections that somebody only tried out were no calls.
    line(text, format_args!("    option dontlognull"));
    let status = if service.protocol().is_http() { "%ST" } else { "" };
    let head = if service.protocol().is_http() { "%Tr" } else { "0" };
    let bucket = service.sticky.as_ref().map(|_| "%[var(txn.cm_bucket)]").unwrap_or_default();
    let rule = service.rule.as_ref().map(|_| "%[var(txn.cm_asked)]").unwrap_or_default();
    line(
        text,
        format_args!(
            "    log-format {}|{}|{}|%b|{bucket}|{rule}|%[var(txn.cm_at)]|{status}|%Tw|%Tc|{head}|%Td|%ts|%rc|%U|%B|%pid",
            log_line::FORM,
            log_line::HAPROXY,
            service.name
        ),
    );
}

/// Lines by which `txn.cm_to` names the variation that a call gets. Where it is empty, that is the stable one.
fn write_choice(text: &mut String, service: &Service, maps: &str, is_logged: bool) {
    let name = service.name.as_str();
    let do_set = if service.protocol().is_http() { "http-request" } else { "tcp-request content" };
    let mut set = |variable: &str, line_end: String| {
        line(text, format_args!("    {do_set} set-var(txn.{variable}) {line_end}"));
    };

    if is_logged {
        set("cm_at", "date(0,ms)".to_owned());
    }
    let switch = format!("str({}),map_str({maps}/{STATE},off)", switch_key(name));
    let mut unless_asked = "";
    if let Some(rule) = &service.rule {
        let asked = format!("req.fhdr({},1),hex,map_str({maps}/{})", rule.name, rule_name(name));
        set("cm_to", format!("{asked} unless {{ {switch} -m str {CLOSED} }}"));
        unless_asked = " !{ var(txn.cm_to) -m found }";
        if is_logged {
            set("cm_asked", "bool(true) if { var(txn.cm_to) -m found }".to_owned());
        }
    }
    let seed = xxhash_rust::xxh32::xxh32(service.salt.as_str().as_bytes(), 0);
    let hashed = format!("xxh32({seed}),mod({BUCKETS})");
    let drawn = format!("rand({BUCKETS})");
    let bucket = match &service.sticky {
        None => drawn,
        // By the converter an address becomes a text, which is what is hashed elsewhere.
        Some(StickyTo::Address) => format!("src,lower,{hashed}"),
        Some(StickyTo::Header(header)) => {
            set("cm_bucket", format!("req.fhdr({header},1),{hashed}"));
            set("cm_bucket", format!("{drawn} if !{{ var(txn.cm_bucket) -m found }}"));
            "var(txn.cm_bucket)".to_owned()
        }
        Some(StickyTo::Cookie(cookie)) => {
            set("cm_key", format!("req.cook({cookie})"));
            let absent = "!{ var(txn.cm_key) -m found }";
            set("cm_new", format!("uuid,xxh64(0),hex,lower if {absent}{unless_asked}"));
            set("cm_key", "var(txn.cm_new) if { var(txn.cm_new) -m found }".to_owned());
            format!("var(txn.cm_key),{hashed}")
        }
    };
    let bucket = if is_logged && service.sticky.is_some() && bucket != "var(txn.cm_bucket)" {
        set("cm_bucket", bucket);
        "var(txn.cm_bucket)".to_owned()
    } else {
        bucket
    };
    let is_on = format!("{{ {switch} -m str on }}");
    set("cm_to", format!("{bucket},map_str({maps}/{}) if {is_on}{unless_asked}", table_name(name)));
    if let Some(StickyTo::Cookie(cookie)) = &service.sticky {
        let field = format!("{cookie}=%[var(txn.cm_new)]; Path=/; HttpOnly; SameSite=Lax");
        line(
            text,
            format_args!(
                "    http-after-response add-header Set-Cookie \"{field}\" if {{ var(txn.cm_new) -m found }}"
            ),
        );
    }
}

fn write_backend(text: &mut String, service: &Service, variant: Variant<'_>) {
    let variation = variant.variation;
    let is_http = service.protocol().is_http();
    let defaults = if is_http { HTTP } else { TCP };
    let name = backend(service.name.as_str(), variation.name.as_str());
    line(text, format_args!("backend {name} from {defaults}"));
    if is_http {
        line(text, format_args!("    http-response set-header X-Choirmaster-Version {}", variation.name));
    }
    let mut checked = String::new();
    if let Some(health) = &variation.health {
        write_check(text, health);
        let (rise, fall) = (health.healthy_after.max(1), health.unhealthy_after.max(1));
        checked = format!(" check inter {} rise {rise} fall {fall}", milliseconds(health.interval));
    }
    let mut server = |target: &Target, name_end: &str, settings: &str| {
        let named = match &target.host {
            Host::Address(_) => "",
            // What a name led to when the process started, or nothing: a process that can't look it up starts all the same.
            Host::Name(_) => " init-addr libc,none",
        };
        let name = server_name(target);
        line(text, format_args!("    server {name}{name_end} {target}{named}{settings}"));
    };
    variation.targets.iter().for_each(|target| server(target, "", &checked));
    if variation.health.is_some() && variant.which.is_stable() {
        variation.targets.iter().for_each(|target| server(target, LAST_RESORT, " backup"));
        line(text, format_args!("    option allbackups"));
    }
}

fn write_check(text: &mut String, health: &Health) {
    line(text, format_args!("    timeout check {}", milliseconds(health.timeout)));
    let Some(path) = &health.path else {
        return line(text, format_args!("    option tcp-check"));
    };
    line(text, format_args!("    option httpchk"));
    line(text, format_args!("    http-check send meth GET uri {path} ver HTTP/1.1 hdr Host localhost"));
    line(text, format_args!("    http-check expect status 200-399"));
}

/// A server's name is its target's, without brackets: `HAProxy` takes none in names.
pub(super) fn server_name(target: &Target) -> String {
    match &target.host {
        Host::Address(address) => format!("{address}:{}", target.port),
        Host::Name(name) => format!("{name}:{}", target.port),
    }
}
