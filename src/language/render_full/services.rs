//! Services, and the stages that share their calls out.

use std::fmt::Write as _;

use traffic::desired::{Health, Listen, Variation};

use crate::{
    AtRollback, Base, Run, Salt, Service, Stage, StageKind,
    render::quoted,
    scalar::{go_duration, percent},
};

pub(super) fn push(text: &mut String, services: &[Service]) {
    if services.is_empty() {
        return;
    }
    text.push_str("services:\n");
    for service in services {
        push_service(text, service);
    }
}

fn push_service(text: &mut String, service: &Service) {
    let Service { routers, ports, sticky, rule, variations, salt, hash, base, at_rollback, retry, .. } =
        service;
    let Service { proxy_protocol, drain, runs, .. } = service;
    let _ = writeln!(text, "  - name: {}", quoted(service.name()));
    super::push_selector(text, "routers", routers);
    let _ = writeln!(text, "    ports: {}", Listen::list(ports));
    super::push_sticky(text, sticky.as_ref().map(Into::into).as_ref());
    if let Some(rule) = rule {
        let values = rule.values.iter().filter_map(|(value, which)| {
            let variation = variations.get(which.index())?;
            Some(format!("{}: {}", quoted(value.as_str()), quoted(variation.name.as_str())))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "    header: {{name: {}, values: {{{values}}}}}", quoted(rule.name.as_str()));
    }
    if *salt == Salt::Service {
        text.push_str("    salt: service\n");
    }
    if let Some(hash) = hash {
        let _ = writeln!(text, "    hash: {}", hash.name());
    }
    if *base == Base::Replace {
        text.push_str("    base: replace\n");
    }
    if *at_rollback == AtRollback::Retire {
        text.push_str("    at_rollback: retire\n");
    }
    if let Some(retry) = retry {
        let _ = writeln!(text, "    retry: {}", retry.name());
    }
    if let Some(version) = proxy_protocol {
        let _ = writeln!(text, "    proxy_protocol: {}", version.name());
    }
    if let Some(drain) = drain {
        let _ = writeln!(text, "    drain: {}", go_duration(*drain));
    }
    text.push_str("    variations:\n");
    for variation in variations {
        push_variation(text, variation, runs.get(variation.name.as_str()));
    }
}

fn push_variation(text: &mut String, variation: &Variation, run: Option<&Run>) {
    let Variation { name, targets, health } = variation;
    let _ = writeln!(text, "      - name: {}", quoted(name.as_str()));
    if let Some(Run { path, env, limits }) = run {
        let limits = limits.quantities();
        let limits: Vec<_> = limits.iter().map(|(key, value)| format!("{key}: {}", quoted(value))).collect();
        let limits =
            if limits.is_empty() { String::new() } else { format!(", limits: {{{}}}", limits.join(", ")) };
        let _ = writeln!(text, "        run: {{path: {}, env: {}{limits}}}", quoted(path), quoted(env));
    } else {
        let targets: Vec<_> = targets.iter().map(|target| quoted(&target.to_string())).collect();
        let _ = writeln!(text, "        targets: [{}]", targets.join(", "));
    }
    let Some(Health { path, interval, timeout, healthy_after, unhealthy_after }) = health else { return };
    let path = path.as_ref().map(|path| format!("path: {}, ", quoted(path))).unwrap_or_default();
    let (interval, timeout) = (go_duration(*interval), go_duration(*timeout));
    let _ = writeln!(
        text,
        "        health: {{{path}interval: {interval}, timeout: {timeout}, healthy_after: {healthy_after}, unhealthy_after: \
         {unhealthy_after}}}"
    );
}

/// The beginning of a stage that shares out a service's calls.
pub(super) fn push_shares(text: &mut String, service: &Service, stage: &Stage) {
    let kind = match stage.kind {
        StageKind::AB => "Traffic",
        StageKind::WaitForSignal => "WaitForSignal",
    };
    let named = service.variations.iter().zip(&stage.shares);
    let shares = named.map(|(one, share)| format!("{}: {}", quoted(one.name.as_str()), percent(*share)));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let (name, service) = (quoted(&stage.name), quoted(service.name()));
    let _ = write!(
        text,
        "  - name: {name}\n    type: {kind}\n    service: {service}\n    shares: {{{shares}}}\n"
    );
    if stage.with_next {
        text.push_str("    with_next: true\n");
    }
    if let Some(least) = stage.healthy_targets {
        let _ = writeln!(text, "    healthy_targets: {}", percent(least));
    }
}
