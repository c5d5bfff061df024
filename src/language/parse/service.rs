//! One service: where it takes calls, its variations and their targets, and by what calls stay with one of them.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use traffic::{
    HashFunction, MAX_VARIATIONS, Variation as Which,
    desired::{
        HeaderName, HeaderValue, Health, IN_A_ROW, INTERVALS, Listen, MAX_HOSTS, MAX_TARGETS, MAX_VALUES,
        Name, Protocol, Rule, StickyTo, TIMEOUTS, Target, TlsEnd, Variation, WordError, is_host, is_path,
    },
};

use super::draft::DraftService;
use crate::{
    diagnostic::{nearest, quoted},
    fields::{FieldEntry, Fields, Located},
    findings::Findings,
    node::{At, Node, NodeKind},
    reading::{read_scalar, read_word, title_of},
    retry,
    run::{CPU_RULE, MEMORY_RULE, Resources, Run},
    scalar,
    scalar::{ScalarFault, fault},
    service::{self, AtRollback, Base, ProxyProtocol, Salt, Service},
    target,
};

/// The most ports of a service.
pub(crate) const MAX_PORTS: usize = 16;

const KEYS: [&str; 13] = [
    "name",
    "routers",
    "ports",
    "sticky",
    "header",
    "variations",
    "salt",
    "hash",
    "base",
    "at_rollback",
    "retry",
    "proxy_protocol",
    "drain",
];

pub(super) fn read_service(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<DraftService> {
    let fields = Fields::open(node, title_of("service", node, index), &KEYS, findings)?;
    let name = fields.required("name", "checkout", findings);
    let name = name.and_then(|entry| {
        Some(Located { value: read_scalar(entry, "bad-name", word::<Name>, findings)?, at: entry.at })
    });
    let (variations, runs) = match variations(&fields, findings) {
        Some((all, runs)) => (Some(all), runs),
        None => (None, BTreeMap::new()),
    };
    let names: Vec<&str> = variations.iter().flatten().map(|one| one.name.as_str()).collect();
    let rule = fields.filled("header", "{name: X-Variation, values: {B: B}}", findings);
    let rule = rule.map(|entry| rule_of(entry, &names, findings));
    let ports = ports(&fields, findings);
    let routers = fields.filled("routers", "{labels: {env: prod}}", findings);
    let routers = routers.map(|entry| target::selector("routers", entry, findings));
    let sticky = fields.filled("sticky", "{cookie: session}", findings);
    let sticky = sticky.map(|entry| sticky_of(entry, findings));
    let salts = [("release", Salt::Release), ("service", Salt::Service)];
    let salt = fields.optional("salt").map(|entry| read_word(entry, "salt", &salts, findings));
    let hashes = HashFunction::ALL.map(|function| (function.name(), function));
    let hash = fields.filled("hash", "xxh32", findings);
    let hash = hash.map(|entry| read_word(entry, "hash", &hashes, findings));
    let bases = [("serving", Base::Serving), ("replace", Base::Replace)];
    let base = fields.optional("base").map(|entry| read_word(entry, "base", &bases, findings));
    let after = [("keep", AtRollback::Keep), ("retire", AtRollback::Retire)];
    let at_rollback =
        fields.optional("at_rollback").map(|entry| read_word(entry, "at_rollback", &after, findings));
    let retry = fields.filled("retry", "failed", findings).map(|entry| retry::read(entry, findings));
    let headers = ProxyProtocol::ALL.map(|version| (version.name(), version));
    let proxy_protocol = fields.filled("proxy_protocol", "v2", findings);
    let proxy_protocol = proxy_protocol.map(|entry| read_word(entry, "proxy_protocol", &headers, findings));
    let drain = fields.filled("drain", "1h", findings);
    let drain = drain.map(|entry| read_scalar(entry, "bad-duration", drain_of, findings));
    let service = || {
        let mut service = Service::new(&name.as_ref()?.value, ports?, variations.clone()?);
        // What is there and can't be read is a fault already, and never the same as what isn't there.
        service.runs = runs;
        service.rule = rule.map_or(Some(None), |rule| rule.map(Some))?;
        service.routers = routers.unwrap_or_else(|| Some(BTreeMap::new()))?;
        service.sticky = sticky.map_or(Some(None), |sticky| sticky.map(Some))?;
        service.salt = salt.unwrap_or(Some(Salt::default()))?;
        service.hash = hash.map_or(Some(None), |hash| hash.map(Some))?;
        service.base = base.unwrap_or(Some(Base::default()))?;
        service.at_rollback = at_rollback.unwrap_or(Some(AtRollback::default()))?;
        service.retry = retry.map_or(Some(None), |retry| retry.map(Some))?;
        service.proxy_protocol = proxy_protocol.map_or(Some(None), |version| version.map(Some))?;
        service.drain = drain.map_or(Some(None), |drain| drain.map(Some))?;
        Some(service)
    };
    let service = service();
    if let Some(service) = &service {
        check_fit(service, fields.at(), findings);
    }
    let name = name.map(|name| Located { value: name.value.to_string(), at: name.at });
    Some(DraftService { at: fields.at(), name, service })
}

fn drain_of(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    // What is no time at all is told as such.
    scalar::duration(text)?;
    service::drain(text).ok_or_else(|| {
        fault(
            format!("{} is no time for connections to stay", quoted(text)),
            "write whole seconds, from 0s to 30d",
        )
    })
}

/// A word that routers take, by its own rule.
fn word<W: FromStr<Err = traffic::desired::WordError>>(text: &str) -> Result<W, ScalarFault<W>> {
    text.parse().map_err(|error: traffic::desired::WordError| fault(error.to_string(), "write another one"))
}

fn target_of(text: &str) -> Result<Target, ScalarFault<Target>> {
    text.parse()
        .map_err(|error: traffic::desired::TargetError| fault(error.to_string(), "name a host and a port"))
}

fn ports(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<Listen>> {
    let entry = fields.required("ports", "[{port: 8080, protocol: HTTP}]", findings)?;
    let protocols = Protocol::ALL.map(|protocol| (protocol.name(), protocol));
    let ends = TlsEnd::ALL.map(|end| (end.name(), end));
    let items = entry.items(MAX_PORTS, findings);
    if items.is_empty() {
        findings
            .error(entry.at, "missing-value", "ports is empty")
            .fix("name at least one, as in {port: 8080, protocol: HTTP}");
    }
    let mut ports: Vec<Listen> = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let what = format!("port {} of {}", index + 1, fields.what());
        let item = Fields::open(node, what, &["port", "protocol", "hosts", "path", "tls"], findings)?;
        let port = item.required("port", "8080", findings);
        let port = port.and_then(|entry| read_scalar(entry, "bad-port", port_of, findings));
        let protocol = item.optional("protocol");
        let protocol =
            protocol.map_or(Some(Protocol::Http), |entry| read_word(entry, "protocol", &protocols, findings));
        let hosts = hosts(&item, findings);
        let path = item.filled("path", "/api", findings);
        let path = path.map(|entry| read_scalar(entry, "bad-path", path_of, findings));
        let tls = item.optional("tls");
        let tls = tls.map_or(Some(TlsEnd::default()), |entry| read_word(entry, "tls", &ends, findings));
        let listen = Listen {
            port: port?,
            protocol: protocol?,
            hosts: hosts?,
            path: path.map_or(Some(None), |path| path)?,
            tls: tls?,
            at: None,
            shared: false,
        };
        if ports.iter().any(|other| other.port == listen.port) {
            let message = format!("{} names port {} twice", fields.what(), listen.port);
            findings.error(item.at(), "duplicate-name", message).fix("keep one of the two");
        }
        ports.push(listen);
    }
    Some(ports).filter(|ports| !ports.is_empty())
}

fn port_of(text: &str) -> Result<u16, ScalarFault<u16>> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| plain && *port > 0);
    port.ok_or_else(|| fault(format!("{} is no port", quoted(text)), "write a whole number from 1 to 65535"))
}

fn hosts(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let Some(entry) = fields.filled("hosts", "[shop.example]", findings) else { return Some(Vec::new()) };
    let items = entry.items(MAX_HOSTS, findings);
    if items.is_empty() {
        let fix = "name at least one, as in shop.example, or leave hosts out";
        findings.error(entry.at, "missing-value", "hosts is empty").fix(fix);
        return None;
    }
    let mut hosts = Vec::new();
    for node in items {
        let item = FieldEntry { key: "a host", node, at: node.at };
        let host = read_scalar(item, "bad-host", host_of, findings)?;
        if hosts.contains(&host) {
            let message = format!("{} names the host {host} twice", fields.what());
            findings.error(node.at, "duplicate-name", message).fix("keep one of the two");
        }
        hosts.push(host);
    }
    Some(hosts)
}

fn host_of(text: &str) -> Result<String, ScalarFault<String>> {
    let host = text.to_ascii_lowercase();
    if is_host(&host) {
        return Ok(host);
    }
    let fix = if text.starts_with("*.") {
        "name each host: routers don't agree on what * fits"
    } else {
        "write a name alone, as in shop.example"
    };
    Err(fault(format!("{} is no host", quoted(text)), fix))
}

/// None: whatever path.
fn path_of(text: &str) -> Result<Option<String>, ScalarFault<Option<String>>> {
    if text == "/" {
        return Ok(None);
    }
    if is_path(text) {
        return Ok(Some(text.to_owned()));
    }
    Err(fault(
        format!("{} is no path of whole segments", quoted(text)),
        "write one as in /api, of letters, digits and - . _ ~ between slashes, without one at its end",
    ))
}

/// Variations, and those of them that are started, by their names.
type Variations = (Vec<Variation>, BTreeMap<String, Run>);

fn variations(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Variations> {
    let entry = fields.required("variations", "and a list of two or more below it", findings)?;
    let items = entry.members(MAX_VARIATIONS, findings);
    if items.len() < 2 {
        let message =
            format!("{} has {} variations, and nothing to share calls among", fields.what(), items.len());
        findings
            .error(entry.at, "missing-value", message)
            .fix("name the one that serves now first, and the others behind it");
    }
    let read = |(index, node)| variation(node, index, fields.what(), findings);
    let all: Vec<Option<(Variation, Option<Run>)>> = items.iter().enumerate().map(read).collect();
    let (all, runs): (Vec<Variation>, Vec<Option<Run>>) =
        all.into_iter().collect::<Option<Vec<_>>>()?.into_iter().unzip();
    for (at, one) in all.iter().enumerate() {
        if all[..at].iter().any(|before| before.name == one.name) {
            let message = format!("{} has two variations {}", fields.what(), quoted(one.name.as_str()));
            findings.error(items[at].at, "duplicate-name", message).fix("rename one of them");
            return None;
        }
    }
    if all.len() < 2 {
        return None;
    }
    let named = all.iter().zip(runs).filter_map(|(one, run)| Some((one.name.to_string(), run?)));
    let runs = named.collect();
    Some((all, runs))
}

fn variation(
    node: &Node,
    index: usize,
    service: &str,
    findings: &mut Findings<'_>,
) -> Option<(Variation, Option<Run>)> {
    let what = format!("{} of {service}", title_of("variation", node, index));
    let fields = Fields::open(node, what, &["name", "targets", "run", "health"], findings)?;
    let name = fields.required("name", "B", findings);
    let name = name.and_then(|entry| read_scalar(entry, "bad-name", word::<Name>, findings));
    let run = fields.filled("run", "{path: shop_v2, env: program}", findings);
    let targets = match (run, fields.optional("targets")) {
        (None, _) => targets(&fields, findings),
        (Some(_), None) => Some(Vec::new()),
        (Some(_), Some(entry)) => {
            let message = format!("{} has targets, and is to be run as well", fields.what());
            findings.error(entry.at, "contradiction", message).fix("leave one of the two out");
            None
        }
    };
    let run = run.map(|entry| run_of(entry, findings));
    let health = fields.filled("health", "{path: /ready}", findings);
    let health = health.map(|entry| health_of(entry, findings));
    let variation = Variation {
        name: name?,
        targets: targets?,
        health: health.map_or(Some(None), |health| health.map(Some))?,
    };
    Some((variation, run.map_or(Some(None), |run| run.map(Some))?))
}

/// `{path: FOLDER, env: program, limits: {cpu: 500m, memory: 128Mi}}`.
fn run_of(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Run> {
    let fields = Fields::open(entry.node, "run".to_owned(), &["path", "env", "limits"], findings)?;
    let path = fields.required("path", "shop_v2", findings);
    let path = path.and_then(|entry| read_scalar(entry, "bad-path", scalar::folder, findings));
    let env = match fields.optional("env") {
        Some(entry) => read_scalar(entry, "bad-env", form_of, findings),
        None => Some(Run::FORMS[0].to_owned()),
    };
    let limits = match fields.filled("limits", "{memory: 128Mi}", findings) {
        Some(entry) => limits_of(entry, findings),
        None => Some(Resources::default()),
    };
    Some(Run { path: path?, env: env?, limits: limits? })
}

fn form_of(text: &str) -> Result<String, ScalarFault<String>> {
    if Run::FORMS.contains(&text) {
        return Ok(text.to_owned());
    }
    let forms = Run::FORMS.join(" or ");
    Err(fault(
        format!("{} doesn't listen at a port", quoted(text)),
        format!("write {forms}, which takes calls at $HOST:$PORT"),
    ))
}

fn limits_of(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Resources> {
    let fields = Fields::open(entry.node, "limits".to_owned(), &["cpu", "memory"], findings)?;
    let cpu = fields.optional("cpu").map(|entry| read_scalar(entry, "bad-quantity", cpu_of, findings));
    let memory =
        fields.optional("memory").map(|entry| read_scalar(entry, "bad-quantity", memory_of, findings));
    Some(Resources {
        cpu: cpu.map_or(Some(None), |cpu| cpu.map(Some))?,
        memory: memory.map_or(Some(None), |memory| memory.map(Some))?,
    })
}

fn cpu_of(text: &str) -> Result<u32, ScalarFault<u32>> {
    Resources::read_cpu(text)
        .ok_or_else(|| fault(format!("{} is no limit of processors", quoted(text)), CPU_RULE))
}

fn memory_of(text: &str) -> Result<u64, ScalarFault<u64>> {
    Resources::read_memory(text)
        .ok_or_else(|| fault(format!("{} is no limit of memory", quoted(text)), MEMORY_RULE))
}

fn targets(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<Target>> {
    let entry = fields.required("targets", "[\"127.0.0.1:9000\"]", findings)?;
    let items = entry.items(MAX_TARGETS, findings);
    if items.is_empty() {
        let message = format!("{} has no target", fields.what());
        findings.error(entry.at, "missing-value", message).fix("name at least one, as in \"127.0.0.1:9000\"");
        return None;
    }
    let mut targets = Vec::new();
    for node in items {
        let item = FieldEntry { key: "a target", node, at: node.at };
        let target = read_scalar(item, "bad-target", target_of, findings)?;
        if targets.contains(&target) {
            let message = format!("{} names the target {target} twice", fields.what());
            findings.error(node.at, "duplicate-name", message).fix("keep one of the two");
        }
        targets.push(target);
    }
    Some(targets)
}

fn health_of(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Health> {
    let keys = ["path", "interval", "timeout", "healthy_after", "unhealthy_after"];
    let fields = Fields::open(entry.node, "health".to_owned(), &keys, findings)?;
    let usual = Health::default();
    let interval = match fields.optional("interval") {
        Some(entry) => read_scalar(entry, "bad-duration", interval_of, findings),
        None => Some(usual.interval),
    };
    let timeout = match fields.optional("timeout") {
        Some(entry) => read_scalar(entry, "bad-duration", timeout_of, findings),
        None => Some(usual.timeout),
    };
    let count = |key: &str, usual: u32, findings: &mut Findings<'_>| match fields.optional(key) {
        Some(entry) => read_scalar(entry, "bad-count", in_a_row, findings),
        None => Some(usual),
    };
    let path = fields.optional("path").map(|entry| read_scalar(entry, "bad-path", check_path, findings));
    let healthy_after = count("healthy_after", usual.healthy_after, findings);
    let unhealthy_after = count("unhealthy_after", usual.unhealthy_after, findings);
    Some(Health {
        path: path.map_or(Some(None), |path| path.map(Some))?,
        interval: interval?,
        timeout: timeout?,
        healthy_after: healthy_after?,
        unhealthy_after: unhealthy_after?,
    })
}

fn interval_of(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    let time = scalar::duration(text)?;
    if INTERVALS.contains(&time) {
        return Ok(time);
    }
    Err(fault(format!("{} is no time between two checks", quoted(text)), "write one from 100ms to 1h"))
}

/// As short as nobody would set an interval is refused as well.
fn timeout_of(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    let time = scalar::duration(text)?;
    if (*INTERVALS.start()..=*TIMEOUTS.end()).contains(&time) {
        return Ok(time);
    }
    Err(fault(format!("{} is no time for a check to take", quoted(text)), "write one from 100ms to 1m"))
}

fn in_a_row(text: &str) -> Result<u32, ScalarFault<u32>> {
    let count = text.parse().ok().filter(|count| IN_A_ROW.contains(count));
    count.ok_or_else(|| {
        fault(format!("{} is no number of checks", quoted(text)), "write a whole number from 1 to 100")
    })
}

fn check_path(text: &str) -> Result<Box<str>, ScalarFault<Box<str>>> {
    if traffic::desired::is_check_path(text) {
        return Ok(text.into());
    }
    Err(fault(
        format!("{} is no path of a check", quoted(text)),
        "write one that begins with /, as in /ready, without spaces, quotes, \\, braces, ; $ and #",
    ))
}

/// `{cookie: NAME}`, `{header: NAME}` or `address`.
fn sticky_of(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<StickyTo> {
    let sticky = StickyTo::try_from(crate::sticky::read(entry, findings)?);
    let refuse = |error: WordError| {
        findings.error(entry.at, "bad-name", error.to_string()).fix("use letters, digits, _ and -");
    };
    sticky.map_err(refuse).ok()
}

/// `{name: X-Variation, values: {VALUE: VARIATION}}`.
fn rule_of(entry: FieldEntry<'_>, variations: &[&str], findings: &mut Findings<'_>) -> Option<Rule> {
    let fields = Fields::open(entry.node, "header".to_owned(), &["name", "values"], findings)?;
    let name = fields.required("name", "X-Variation", findings);
    let name = name.and_then(|entry| read_scalar(entry, "bad-name", word::<HeaderName>, findings));
    let entry = fields.required("values", "{B: B}", findings)?;
    let NodeKind::Mapping(pairs) = &entry.node.kind else {
        findings
            .error(entry.at, "wrong-type", "values is not a mapping")
            .fix("write values: {VALUE: VARIATION}");
        return None;
    };
    if pairs.is_empty() || pairs.len() > MAX_VALUES {
        let message = format!("values names {} values; 1 to {MAX_VALUES} are possible", pairs.len());
        findings.error(entry.at, "too-many", message).fix("name those that callers send");
        return None;
    }
    let mut values: Vec<(HeaderValue, Which)> = Vec::new();
    for (key, node) in pairs {
        let value = FieldEntry { key: "a value of a header", node: key, at: key.at };
        let value = read_scalar(value, "bad-name", word::<HeaderValue>, findings);
        let which =
            variation_named(FieldEntry { key: "a variation", node, at: node.at }, variations, findings);
        let (value, which) = (value?, which?);
        if values.iter().any(|(before, _)| *before == value) {
            let message = format!("values has {} twice", quoted(value.as_str()));
            findings.error(key.at, "duplicate-key", message).fix("keep one of the two");
            return None;
        }
        values.push((value, which));
    }
    Some(Rule { name: name?, values })
}

fn variation_named(entry: FieldEntry<'_>, known: &[&str], findings: &mut Findings<'_>) -> Option<Which> {
    let text = entry.text(findings)?;
    let found = known.iter().position(|name| *name == text.value);
    if found.is_none() && !known.is_empty() {
        unknown_variation(text.value, text.at, known, findings);
    }
    found.and_then(|at| u8::try_from(at).ok()).map(Which)
}

pub(crate) fn unknown_variation(name: &str, at: At, known: &[&str], findings: &mut Findings<'_>) {
    let message = format!("there is no variation {}", quoted(name));
    let fault = findings.error(at, "unknown-variation", message);
    match nearest(name, known.iter().copied()) {
        Some(near) => fault.fix(format!("did you mean {near}?")),
        None => fault.fix(format!("it is one of {}", known.join(", "))),
    }
}

/// What can't stand beside each other.
fn check_fit(service: &Service, at: At, findings: &mut Findings<'_>) {
    if let Err(error) = service.check() {
        findings.error(at, "contradiction", error.to_string()).fix("change one of the two");
    }
    if !service.runs.is_empty() && service.protocol().is_udp() {
        let message = format!(
            "service {} is of UDP, and of that nobody can tell when what is started answers",
            service.name()
        );
        findings.error(at, "contradiction", message).fix("give each variation its targets");
    }
}
