//! Shares, orders and services as they are printed.

use std::io::{self, Write};

use jiff::Timestamp;

use crate::cli::show;
use protocol::api::{RoutedService, RoutedVariation, RouterOrder, ServiceVariationSum, ShareRange};

/// Percent, without needless zeros.
pub fn percent(share: f64) -> String {
    let text = format!("{share:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// Percent, or a dash.
pub fn known(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

/// One share, or the lowest and the highest.
pub fn range(range: ShareRange) -> String {
    let (lowest, highest) = (percent(range.lowest), percent(range.highest));
    if lowest == highest { lowest } else { format!("{lowest} to {highest}") }
}

/// Errors of calls.
fn errors(errors: u64, calls: u64) -> String {
    if calls == 0 { "-".to_owned() } else { format!("{errors} of {calls}") }
}

/// `1 of 2`.
fn healthy(healthy: Option<u32>, targets: u32) -> String {
    healthy.map_or_else(|| format!("unknown of {targets}"), |healthy| format!("{healthy} of {targets}"))
}

/// The variations of a service over all its routers.
pub fn sums(variations: &[ServiceVariationSum]) -> String {
    let rows = variations.iter().map(|one| {
        vec![
            one.name.clone(),
            range(one.wanted),
            one.seen.map_or_else(|| "-".to_owned(), range),
            known(one.measured),
            errors(one.errors, one.calls),
            healthy(one.healthy_targets, one.total_targets),
        ]
    });
    show::table(&["VARIATION", "WANTED", "SEEN", "MEASURED", "ERRORS", "HEALTHY"], rows)
}

/// The variations of a service at each router.
pub fn by_router(routed: &[RoutedService]) -> String {
    let row = |service: &RoutedService, one: &RoutedVariation| {
        let drained = one.draining.as_ref().map(|drained| match drained.left {
            Some(left) => format!("drains, {left} left"),
            None => "drains".to_owned(),
        });
        vec![
            service.router.clone(),
            service.service.clone(),
            format!("{}.{}", service.epoch, service.generation),
            one.name.clone(),
            percent(one.wanted),
            known(one.seen),
            known(one.measured),
            errors(one.errors.unwrap_or_default(), one.calls.unwrap_or_default()),
            healthy(one.healthy_targets, one.total_targets),
            show::or_dash(drained.as_deref()),
        ]
    };
    let rows = routed.iter().flat_map(|service| service.variations.iter().map(move |one| row(service, one)));
    let head = [
        "ROUTER",
        "SERVICE",
        "STATE",
        "VARIATION",
        "WANTED",
        "SEEN",
        "MEASURED",
        "ERRORS",
        "HEALTHY",
        "DRAIN",
    ];
    show::table(&head, rows)
}

/// Ports of a service at which another program still takes a part of the calls, and what to do.
pub fn shared_ports(service: &RoutedService) -> impl Iterator<Item = String> {
    service.led.ports.iter().filter(|listen| listen.shared).map(|listen| {
        format!(
            "port-shared: another program takes a part of the calls to {listen}, of {}, past the router: let it close that port, or end it",
            service.service
        )
    })
}

/// Where a service stands without a release in hand.
pub fn stands(out: &mut impl Write, service: &RoutedService, now: Timestamp) -> io::Result<()> {
    let Some(stands) = &service.stands else { return Ok(()) };
    let shares: Vec<String> =
        stands.shares.iter().map(|(name, share)| format!("{name} {}", percent(*share))).collect();
    let release = stands.release.as_deref().map_or_else(String::new, |id| format!(", from release {id}"));
    let line = format!(
        "{} at {} stands at {}{release}, since {}",
        service.service,
        service.router,
        shares.join(", "),
        show::ago(Some(&stands.since), now)
    );
    writeln!(out, "{}", show::one_line(&line))
}

/// An order, and what came of it.
pub fn order(out: &mut impl Write, order: &RouterOrder) -> io::Result<()> {
    let service = order.service.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    let head = format!("{}: {}{service} ({}): {}", order.router, order.what, order.number, order.state);
    writeln!(out, "{}", show::one_line(&head))?;
    let Some(answer) = &order.answer else { return Ok(()) };
    for line in answer.text.lines() {
        writeln!(out, "  {}", show::one_line(line))?;
    }
    for what in &answer.left_over {
        writeln!(out, "  left over: {}", show::one_line(what))?;
    }
    Ok(())
}
