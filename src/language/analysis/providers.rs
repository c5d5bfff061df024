//! The file that says who can be asked for measurements, as text and as values. Who asks is `provider`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use model::name_variants;

use super::{
    amount,
    spec::{CHILDREN, ROUTER},
};
use crate::{
    diagnostic::{Diagnostic, quoted},
    fields::{FieldEntry, Fields},
    findings::Findings,
    node::{At, Node, NodeKind},
    raw,
    reading::{read_name, read_scalar, read_word},
    scalar::{self, ScalarFault, fault},
};

/// Most providers of a manager.
pub const MAX_PROVIDERS: usize = 64;

/// How long an answer is waited for, where a provider doesn't say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time an answer can be waited for.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(5);

/// Time between two points of a series, where neither a provider nor the range of a query says.
pub const DEFAULT_STEP: Duration = Duration::from_secs(15);

/// Shortest time between two points of a series: nobody measures more often.
pub const LEAST_STEP: Duration = Duration::from_millis(100);

/// Most points that an answer may have, where a provider doesn't say. Prometheus itself gives no more of a series.
pub const DEFAULT_MAX_POINTS: usize = 11_000;

/// Most points that can be allowed.
pub const MAX_POINTS: usize = 1_000_000;

/// Those who can be asked, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Providers(BTreeMap<String, ProviderSettings>);

/// How one is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    pub kind: ProviderKind,
    /// Without a slash at its end; `http` or `https`.
    pub url: String,
    pub timeout: Duration,
    pub auth: Option<Auth>,
    /// PEM: the authorities that its certificate may be of; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Of `prometheus`: the least time between two points.
    pub step: Duration,
    pub max_points: usize,
    /// Of `web`: where the values stand, unless a metric says.
    pub json_path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    Prometheus,
    Web,
}

name_variants!(ProviderKind {
    Prometheus => "prometheus",
    Web => "web",
});

impl ProviderKind {
    /// The keys that have a meaning only with it.
    const fn own_keys(self) -> &'static [&'static str] {
        match self {
            Self::Prometheus => &["step"],
            Self::Web => &["json_path"],
        }
    }

    /// Whether one of its kind is usually called by the word for the kind. There may be many of the others, each called by
    /// what it is.
    pub(super) const fn names_its_providers(self) -> bool {
        match self {
            Self::Prometheus => true,
            Self::Web => false,
        }
    }

    /// Whether its answers are documents, in which a path says where the values stand.
    pub(super) const fn reads_paths(self) -> bool {
        match self {
            Self::Prometheus => false,
            Self::Web => true,
        }
    }

    /// Whether it tells what was at an earlier time without being asked for that in the query.
    pub(super) const fn keeps_history(self) -> bool {
        match self {
            Self::Prometheus => true,
            Self::Web => false,
        }
    }
}

/// The files are read again for each call, so that a secret can be changed while the manager runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    Bearer { token_file: PathBuf },
    Basic { username: String, password_file: PathBuf },
}

/// The rule whose faults show no line, for there is a secret in it.
const SECRET: &str = "secret-in-url";

const KEYS: [&str; 9] = [
    "type",
    "url",
    "timeout",
    "bearer_token_file",
    "basic_auth",
    "ca_file",
    "step",
    "max_points",
    "json_path",
];

impl Providers {
    /// Reads the text of the file: `providers:` and below it each by its name. With any error there are none.
    pub fn read(text: &str) -> (Self, Vec<Diagnostic>) {
        let mut findings = Findings::new(text);
        let mut found = Self::default();
        if let Some(root) = raw::read(text, &mut findings)
            && let Some(fields) = Fields::open(&root, "the file".to_owned(), &["providers"], &mut findings)
            && let Some(entry) = fields.required("providers", "and below it providers by name", &mut findings)
        {
            found.take(entry, &mut findings);
        }
        if findings.has_errors() {
            found.0.clear();
        }
        let mut faults = findings.finish();
        let secrets: Vec<u32> = faults.iter().filter(|f| f.code == SECRET).map(|f| f.line).collect();
        for fault in faults.iter_mut().filter(|fault| secrets.contains(&fault.line)) {
            fault.source_line.clear();
        }
        (found, faults)
    }

    pub fn get(&self, name: &str) -> Option<&ProviderSettings> {
        self.0.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &ProviderSettings)> {
        self.0.iter().map(|(name, settings)| (name.as_str(), settings))
    }

    fn take(&mut self, entry: FieldEntry<'_>, findings: &mut Findings<'_>) {
        let NodeKind::Mapping(pairs) = &entry.node.kind else {
            let found = findings.error(entry.at, "wrong-type", "providers is not a mapping");
            found.fix("write NAME: and below it type: and url:");
            return;
        };
        if pairs.len() > MAX_PROVIDERS {
            let message =
                format!("there are {} providers, at most {MAX_PROVIDERS} are possible", pairs.len());
            findings.error(entry.at, "too-many", message).fix("remove those that nobody uses");
            return;
        }
        for (key, node) in pairs {
            let NodeKind::Scalar(name) = &key.kind else {
                findings.error(key.at, "wrong-type", "the name of a provider is not a word");
                continue;
            };
            if name == CHILDREN {
                let message = "children is what stands for the results of children";
                findings.error(key.at, "reserved-name", message).fix("call the provider otherwise");
            }
            if name == ROUTER {
                let message = "router is what stands for what routers tell of services";
                findings.error(key.at, "reserved-name", message).fix("call the provider otherwise");
            }
            let Some(settings) = one(name, node, findings) else { continue };
            if self.0.insert(name.clone(), settings).is_some() {
                let message = format!("there are two providers {}", quoted(name));
                findings.error(key.at, "duplicate-name", message).fix("rename one of them");
            }
        }
    }
}

fn one(name: &str, node: &Node, findings: &mut Findings<'_>) -> Option<ProviderSettings> {
    let fields = Fields::open(node, format!("provider {}", quoted(name)), &KEYS, findings)?;
    let kinds = ProviderKind::ALL.map(|kind| (kind.name(), kind));
    let kind = fields.required("type", "prometheus", findings);
    let kind = kind.and_then(|e| read_word(e, "type of a provider", &kinds, findings));
    let url = fields.required("url", "http://127.0.0.1:9090", findings);
    let has_secret =
        |e: &FieldEntry<'_>| matches!(&e.node.kind, NodeKind::Scalar(url) if host(url).contains('@'));
    let code = if url.as_ref().is_some_and(has_secret) { SECRET } else { "bad-url" };
    let url = url.and_then(|e| read_scalar(e, code, address, findings));
    let timeout = value(&fields, "timeout", "10s", "bad-duration", timeout, findings);
    let step = value(&fields, "step", "15s", "bad-duration", step, findings);
    let max_points = value(&fields, "max_points", "11000", "bad-count", points, findings);
    let json_path =
        value(&fields, "json_path", "$.values[*]", "bad-path-expression", amount::json_path, findings);
    let ca_file = value(&fields, "ca_file", "/etc/ca.pem", "bad-path", file, findings);
    let auth = auth(&fields, findings);
    if let Some(kind) = kind {
        report_foreign_keys(&fields, kind, findings);
    }
    if let (Some(at), Some(false)) =
        (fields.place("ca_file"), url.as_ref().map(|url| url.starts_with("https:")))
    {
        let message = "ca_file has a meaning only with https";
        findings.error(at, "no-effect", message).fix("leave ca_file out, or call it with https");
    }
    Some(ProviderSettings {
        kind: kind?,
        url: url?,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        auth,
        ca_file,
        step: step.unwrap_or(DEFAULT_STEP),
        max_points: max_points.unwrap_or(DEFAULT_MAX_POINTS),
        json_path,
    })
}

/// Reports keys of other kinds, which would do nothing here.
fn report_foreign_keys(fields: &Fields<'_>, kind: ProviderKind, findings: &mut Findings<'_>) {
    for of in ProviderKind::ALL.into_iter().filter(|of| *of != kind) {
        for key in of.own_keys() {
            if let Some(at) = fields.place(key) {
                let message = format!("{key} has a meaning only with type: {}", of.name());
                findings.error(at, "no-effect", message).fix(format!("leave {key} out"));
            }
        }
    }
}

fn value<T>(
    fields: &Fields<'_>,
    key: &str,
    example: &str,
    code: &'static str,
    read: fn(&str) -> Result<T, ScalarFault<T>>,
    findings: &mut Findings<'_>,
) -> Option<T> {
    fields.filled(key, example, findings).and_then(|entry| read_scalar(entry, code, read, findings))
}

fn auth(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Auth> {
    let bearer = value(fields, "bearer_token_file", "/etc/token", "bad-path", file, findings);
    let basic = fields.filled("basic_auth", "and below it username: and password_file:", findings);
    let basic = basic.and_then(|entry| {
        let keys = ["username", "password_file"];
        let basic = Fields::open(entry.node, "basic_auth".to_owned(), &keys, findings)?;
        let username = basic.required("username", "choirmaster", findings);
        let username = username.and_then(|e| read_name(e, findings));
        basic.required("password_file", "/etc/password", findings)?;
        let password_file = value(&basic, "password_file", "/etc/password", "bad-path", file, findings)?;
        Some(Auth::Basic { username: username?.value, password_file })
    });
    if let (Some(at), Some(_)) = (fields.place("basic_auth"), fields.place("bearer_token_file")) {
        both(at, findings);
    }
    basic.or(bearer.map(|token_file| Auth::Bearer { token_file }))
}

fn both(at: At, findings: &mut Findings<'_>) {
    findings
        .error(
            at,
            "contradiction",
            "basic_auth and bearer_token_file are both given, and one header holds either",
        )
        .fix("keep one of the two");
}

/// What stands between the scheme and the path.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn address(text: &str) -> Result<String, ScalarFault<String>> {
    let wrong = |why: &str| {
        fault(
            format!("the address {} {why}", quoted(text)),
            "write it as in http://127.0.0.1:9090 or https://metrics.example/prometheus",
        )
    };
    if host(text).contains('@') {
        return Err(fault(
            "the address holds a user or a password, which would be shown in messages",
            "leave it out, and write basic_auth with a password_file",
        ));
    }
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return Err(wrong("begins with neither http:// nor https://"));
    }
    if host(text).is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(wrong("has no host, or a space in it"));
    }
    if text.contains(['?', '#']) {
        return Err(wrong("has a query or a fragment, which belong to the query of a metric"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn timeout(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    let timeout = scalar::duration(text)?;
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(fault(
            format!("an answer can't be waited for {}", quoted(text)),
            format!("write a time above 0 and at most {}m", MAX_TIMEOUT.as_secs() / 60),
        ));
    }
    Ok(timeout)
}

fn step(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    scalar::duration(text).and_then(|step| {
        if step < LEAST_STEP {
            let least = LEAST_STEP.as_millis();
            let message = format!("points can't be less than {least}ms apart");
            return Err(fault(message, "write a longer step, as in 15s"));
        }
        Ok(step)
    })
}

fn points(text: &str) -> Result<usize, ScalarFault<usize>> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|points| digits && (1..=MAX_POINTS).contains(points)).ok_or_else(|| {
        fault(format!("{} is no number of points", quoted(text)), format!("write one from 1 to {MAX_POINTS}"))
    })
}

fn file(text: &str) -> Result<PathBuf, ScalarFault<PathBuf>> {
    if text.trim().is_empty() || text.contains('\0') {
        return Err(fault("the path of the file is empty", "write where the file is"));
    }
    Ok(PathBuf::from(text))
}
