//! One function: who runs it, its two versions, and by what its calls stay with one of them.

use super::draft::DraftFunction;
use crate::{
    diagnostic::quoted,
    fields::Fields,
    findings::Findings,
    node::Node,
    places::VersionPlace,
    reading::{read_name, read_scalar, title_of},
    retry, runtime, scalar, sticky,
    strategy::Version,
    target,
};

pub(super) fn read_function(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<DraftFunction> {
    let keys = ["name", "agents", "base_version", "new_version", "sticky", "retry"];
    let fields = Fields::open(node, title_of("function", node, index), &keys, findings)?;
    let version = |key: &str, findings: &mut Findings<'_>| {
        let entry = fields.required(key, "and below it path: and env:", findings)?;
        let what = format!("{key} of {}", fields.what());
        let version = Fields::open(entry.node, what, &["path", "env"], findings)?;
        let path = version.required("path", "fns/sample_f1", findings);
        let path_at = path.map_or(version.at(), |e| e.at);
        let path = path.and_then(|e| read_scalar(e, "bad-path", scalar::folder, findings));
        let env = version.required("env", "nodejs", findings).and_then(|e| read_name(e, findings));
        let env = env?;
        if let Some(meant) = runtime::meant(&env.value) {
            let message = format!("no platform is known for a runtime called {}", quoted(&env.value));
            findings.warning(env.at, "unknown-runtime", message).fix(format!("did you mean {meant}?"));
        }
        let place = VersionPlace { path: findings.place(path_at), env: findings.place(env.at) };
        Some((Version { path: path?, env: env.value, content: None }, place))
    };
    let (base, new) = (version("base_version", findings), version("new_version", findings));
    let place = |version: &Option<(Version, VersionPlace)>| {
        version.as_ref().map(|(_, place)| place.clone()).unwrap_or_default()
    };
    let places = [place(&base), place(&new)];
    Some(DraftFunction {
        at: fields.at(),
        name: fields.required("name", "sieve", findings).and_then(|e| read_name(e, findings)),
        agents: fields
            .filled("agents", "{labels: {tier: edge}}", findings)
            .and_then(|entry| target::selector("agents", entry, findings))
            .unwrap_or_default(),
        base: base.map(|(version, _)| version),
        new: new.map(|(version, _)| version),
        sticky: fields
            .filled("sticky", "{cookie: session}", findings)
            .and_then(|entry| sticky::read(entry, findings)),
        retry: fields.filled("retry", "failed", findings).and_then(|entry| retry::read(entry, findings)),
        places,
    })
}
