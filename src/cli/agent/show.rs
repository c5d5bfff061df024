//! What is printed of an agent.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use agent::{
    control::form::{
        Added, Draining, FunctionStatus, ManagerStatus, ProxyStatus, Removed, RouterPhase, RouterStatus,
        RuntimeStatus, ServiceStatus, Status, TableNumber, Undone, VariationStatus, VersionStatus,
        WorkStatus,
    },
    runtime::Phase,
};
use domain::release::offer::{OfferKind, OfferName};
use jiff::Timestamp;

use crate::cli::show;

/// Digits of a version that are shown: those that name its folder.
const DIGITS: usize = 16;

pub fn status(out: &mut impl Write, status: &Status, as_json: bool, now: Timestamp) -> io::Result<()> {
    if as_json {
        return show::json(out, status);
    }
    let id = match &status.id {
        Some(id) => format!("known as {}", show::one_line(show::short_id(id))),
        None => "not known to its manager yet".to_owned(),
    };
    let name =
        if status.name.is_empty() { String::new() } else { format!(" {}", show::one_line(&status.name)) };
    writeln!(out, "agent{name}, {id}, process {} of {}", status.pid, status.program)?;
    writeln!(out, "{}", manager(&status.manager, now))?;
    if let Some(proxy) = &status.proxy {
        writeln!(out, "{}", self::proxy(proxy))?;
    }
    if let Some(router) = &status.router {
        write!(out, "{}", self::router(router, now))?;
    }
    if let Some(why) = &status.unsaved {
        let why = show::one_line(why);
        writeln!(out, "state: can't be kept, and nothing new is begun until it can: {why}")?;
    }
    for runtime in &status.runtimes {
        writeln!(out, "{}", self::runtime(runtime))?;
    }
    if let Some(work) = &status.work {
        writeln!(out, "{}", self::work(work))?;
        if let Some(why) = &work.failed {
            write!(out, "{}", failed(status, &work.offer, why))?;
        }
    }
    if status.owed.results > 0 {
        let results = show::counted(status.owed.results, "result", "results");
        let next = status.owed.next_try_ms.map(|at| format!(", tried again {}", until(at, now)));
        writeln!(out, "{results} not answered by the manager yet{}", next.unwrap_or_default())?;
    }
    if !status.functions.is_empty() {
        write!(out, "\n{}", table(&status.functions, now))?;
    }
    if !status.services.is_empty() {
        write!(out, "\n{}", services(&status.services))?;
    }
    Ok(())
}

fn services(services: &[ServiceStatus]) -> String {
    let rows = services.iter().flat_map(|service| {
        let ports = service.ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let each = service.variations.iter().enumerate();
        each.map(move |(at, variation)| {
            let role = match (at, service.is_tried) {
                (0, _) => "stable",
                (_, true) => "tried",
                (_, false) => "",
            };
            vec![
                show::one_line(&service.name),
                ports.clone(),
                show::one_line(&variation.name),
                role.to_owned(),
                show::hundredths(variation.share.into()),
                variation.seen.map_or_else(|| "-".to_owned(), |seen| show::hundredths(seen.into())),
                healthy(variation),
                show::one_line(&variation.targets.join(",")),
            ]
        })
    });
    show::table(&["SERVICE", "PORTS", "VARIATION", "ROLE", "SHARE", "SEEN", "HEALTHY", "TARGETS"], rows)
}

/// How many targets of a variation are healthy, and how many connections are left to one that is drained.
fn healthy(variation: &VariationStatus) -> String {
    let total = variation.targets.len();
    let healthy = variation.healthy.map_or_else(|| "-".to_owned(), |healthy| format!("{healthy} of {total}"));
    let drains = match variation.draining {
        None => String::new(),
        Some(Draining { left: Some(left) }) => {
            format!(", drained: {} left", show::counted(left, "connection", "connections"))
        }
        Some(Draining { left: None }) => ", drained".to_owned(),
    };
    healthy + &drains
}

fn router(router: &RouterStatus, now: Timestamp) -> String {
    let number = |number: Option<TableNumber>| {
        number.map_or_else(|| "none".to_owned(), |of| format!("{}.{}", of.epoch, of.generation))
    };
    let phase = match router.phase {
        RouterPhase::Idle => "nothing is wanted of it",
        RouterPhase::Waiting => "waits for addresses of targets, or to be read",
        RouterPhase::Telling => "is being told",
        RouterPhase::InForce => "does what is wanted",
        RouterPhase::Paused => "differs, and is left alone",
        RouterPhase::Accepted => "differs, and may",
        RouterPhase::Superseded => "is led by somebody else",
    };
    let reached = if router.answers { "" } else { "does not answer, " };
    let (wanted, seen) = (number(router.wanted), number(router.seen));
    let read = router.seen_ms.map(|at| format!(", read {} ago", lasted(at, now))).unwrap_or_default();
    let mut text = format!(
        "router {}: {reached}{phase}; wanted {wanted}, seen {seen}{read}\n",
        show::one_line(&router.kind)
    );
    let mut line = |what: &str, of: &str| {
        let _ = writeln!(text, "  {what}: {}", show::one_line(of));
    };
    if let Some(trouble) = &router.trouble {
        line("trouble", trouble);
    }
    router.departures.iter().for_each(|departure| line("away", departure));
    for drift in &router.drifts {
        line(&format!("drift {} ago", lasted(drift.at_ms, now)), &drift.text);
    }
    text
}

fn manager(manager: &ManagerStatus, now: Timestamp) -> String {
    let since = manager.since_ms.map(|since| format!(" for {}", lasted(since, now))).unwrap_or_default();
    let url = show::one_line(&manager.url);
    match (manager.reached, &manager.trouble) {
        (true, _) => format!("manager {url}: reached{since}"),
        (false, Some(why)) => format!("manager {url}: not reached{since}: {}", show::one_line(why)),
        (false, None) => format!("manager {url}: not reached{since}"),
    }
}

fn proxy(proxy: &ProxyStatus) -> String {
    let control = proxy.control.display();
    if !proxy.answers {
        let why = proxy.trouble.as_deref().map(|why| format!(": {}", show::one_line(why)));
        return format!("proxy {control}: does not answer{}", why.unwrap_or_default());
    }
    let pid = proxy.pid.map(|pid| format!("process {pid} ")).unwrap_or_default();
    let program = proxy.program.as_deref().map(|program| format!("of {} ", show::one_line(program)));
    let listen: Vec<_> = proxy.listen.iter().map(|listen| show::one_line(listen)).collect();
    let table = proxy.table.map(|table| format!(", table {}.{}", table.epoch, table.generation));
    let (program, table) = (program.unwrap_or_default(), table.unwrap_or_default());
    format!("proxy {control}: {pid}{program}serves on {}{table}", listen.join(", "))
}

fn runtime(runtime: &RuntimeStatus) -> String {
    let (name, runners) = (&runtime.name, runtime.runners.join(", "));
    match (runtime.reached, &runtime.trouble) {
        (true, _) => format!("runtime {name}: {runners}"),
        (false, Some(why)) => format!("runtime {name}: not reached: {} (for {runners})", show::one_line(why)),
        (false, None) => format!("runtime {name}: not asked yet (for {runners})"),
    }
}

fn work(work: &WorkStatus) -> String {
    let stage = work.stage.as_ref().map(|stage| format!(", stage {}", show::one_line(stage)));
    let waits = match work {
        WorkStatus { failed: Some(_), .. } => ", which has failed and keeps its shares",
        WorkStatus { waits_for_signal: true, .. } => ", waits for the manager to end it",
        _ => "",
    };
    let stopped = work.stopped.as_ref().map(|why| format!("\n  taken back here: {}", show::one_line(why)));
    format!(
        "release {}: {}{}{waits}{}",
        show::one_line(show::short_id(&work.offer)),
        show::one_line(&work.phase),
        stage.unwrap_or_default(),
        stopped.unwrap_or_default()
    )
}

/// A stage that has failed and keeps its shares: why, which, and what people do about it.
fn failed(status: &Status, offer: &str, why: &str) -> String {
    let functions = status.functions.iter().filter_map(|function| {
        let share = function.candidate.as_ref()?.share;
        Some(format!("{} {} new", show::one_line(&function.name), show::hundredths(share.into())))
    });
    let services = status.services.iter().filter(|service| service.is_tried).map(|service| {
        let share = |of: &VariationStatus| {
            format!("{} {}", show::one_line(&of.name), show::hundredths(of.share.into()))
        };
        let shares: Vec<_> = service.variations.iter().map(share).collect();
        format!("{} {}", show::one_line(&service.name), shares.join(", "))
    });
    let shares: Vec<_> = functions.chain(services).collect();
    let attempts = OfferName::candidates(offer).filter(|(_, name)| name.kind == OfferKind::First);
    let release = show::one_line(attempts.last().map_or(offer, |(release, _)| release));
    format!(
        "  why: {}\n  shares: {}\n  people decide, at the manager where it was submitted:\n    choirmaster release resume {release}  goes \
         on to what follows\n    choirmaster release abort {release}  takes it back\n",
        show::one_line(why),
        shares.join("; "),
    )
}

pub fn functions(
    out: &mut impl Write,
    functions: &[FunctionStatus],
    as_json: bool,
    now: Timestamp,
) -> io::Result<()> {
    if as_json {
        return show::json(out, &functions);
    }
    if functions.is_empty() {
        return writeln!(out, "nothing is served yet: choirmaster agent functions add NAME FOLDER");
    }
    write!(out, "{}", table(functions, now))
}

fn table(functions: &[FunctionStatus], now: Timestamp) -> String {
    let head = ["FUNCTION", "ROLE", "SHARE", "CALLS", "ERRORS", "STATE", "RESTARTS", "VERSION", "AT"];
    show::table(&head, functions.iter().flat_map(|function| rows(function, now)))
}

fn rows(function: &FunctionStatus, now: Timestamp) -> Vec<Vec<String>> {
    let none = String::new;
    let new = function.candidate.as_ref();
    let share = show::hundredths(10_000 - new.map_or(0, |new| u32::from(new.share)));
    let mut rows = vec![row(function, "base", [share, none(), none()], &function.stable, "")];
    if let Some(new) = new {
        let counts = [show::hundredths(new.share.into()), new.calls.to_string(), new.errors.to_string()];
        rows.push(row(function, "new", counts, &new.version, ""));
    }
    if let Some(kept) = &function.kept {
        let until = kept.until_ms.map(|at| format!(", kept for {}", lasted_until(at, now)));
        let counts = [show::hundredths(0), none(), none()];
        rows.push(row(function, "kept", counts, &kept.version, &until.unwrap_or_default()));
    }
    rows
}

fn row(
    function: &FunctionStatus,
    role: &str,
    counts: [String; 3],
    version: &VersionStatus,
    more: &str,
) -> Vec<String> {
    let exit = version.last_exit.as_ref().filter(|_| version.phase != Phase::Runs || version.restarts > 0);
    let exit = exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
    let state = phase(version.phase).to_owned() + more + &exit;
    let [share, calls, errors] = counts;
    let digits = version.version.get(..DIGITS).unwrap_or(&version.version).to_owned();
    let restarts = version.restarts.to_string();
    let at = format!("{} {}", version.runner, version.target);
    [function.name.as_str(), role]
        .map(str::to_owned)
        .into_iter()
        .chain([share, calls, errors, state, restarts, digits, at])
        .collect()
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Runs => "runs",
        Phase::Pauses => "ended, started again soon",
        Phase::Stops => "stops",
        Phase::Silent => "its watcher does not answer",
    }
}

pub fn undone(out: &mut impl Write, undone: &Undone, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, undone);
    }
    writeln!(out, "{}: {}", show::one_line(&undone.functions.join(", ")), show::one_line(&undone.text))
}

pub fn added(out: &mut impl Write, added: &Added, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, added);
    }
    let digits = added.version.get(..DIGITS).unwrap_or(&added.version);
    let at = if added.at.is_empty() { String::new() } else { format!(" at {}", added.at.join(", ")) };
    writeln!(
        out,
        "{} is served{}, version {}",
        show::one_line(&added.name),
        show::one_line(&at),
        show::one_line(digits)
    )
}

pub fn removed(out: &mut impl Write, removed: &Removed, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, removed);
    }
    writeln!(out, "{} is served no longer", show::one_line(&removed.name))
}

fn lasted(since_ms: i64, now: Timestamp) -> String {
    show::lasted((now.as_millisecond() - since_ms) / 1_000)
}

fn lasted_until(at_ms: i64, now: Timestamp) -> String {
    show::lasted((at_ms - now.as_millisecond()) / 1_000)
}

fn until(at_ms: i64, now: Timestamp) -> String {
    if at_ms <= now.as_millisecond() { "now".to_owned() } else { format!("in {}", lasted_until(at_ms, now)) }
}
