//! How the agent stands, for people.

use std::collections::BTreeMap;

use tokio::time::Instant;
use traffic::{RouterKind, desired::Number};

use super::{control_handler::ControlHandler, effects::Tools, report::phase};
use crate::{
    control::form::{
        CandidateStatus, Draining, DriftStatus, FunctionStatus, KeptStatus, ManagerStatus, PendingReports,
        ProxyStatus, RouterStatus, ServiceStatus, Status, TableNumber, VariationStatus, VersionStatus,
        WorkStatus,
    },
    data_plane::View,
    runtime::{self, VersionId},
    settings::Settings,
    state_machine::{Function, LedService, Now, Phase, StateMachine, Work},
};

/// How a version stands.
pub fn version(core: &StateMachine, handler: &ControlHandler, version: &VersionId) -> VersionStatus {
    if let Some(running) = handler.running.get(version) {
        return running.into();
    }
    let runner = core.note(version).map_or_else(String::new, |note| note.runner.clone());
    let target = core.target(version).map_or_else(String::new, ToString::to_string);
    // It was started, or is being started, since the runtimes were asked last.
    let phase = runtime::Phase::Runs;
    VersionStatus {
        version: version.to_string(),
        runner,
        phase,
        target,
        pid: None,
        restarts: 0,
        last_exit: None,
    }
}

pub fn status(
    core: &StateMachine,
    handler: &ControlHandler,
    tools: &Tools,
    settings: &Settings,
    now: Now,
) -> Status {
    let wall = |ms: u64| now.wall_ms.saturating_sub(i64::try_from(now.ms.saturating_sub(ms)).unwrap_or(0));
    let (state, link) = (core.state(), core.link());
    let functions = state.functions.iter();
    let view = tools.front.view();
    let proxy = tools.front.proxy().map(|proxy| ProxyStatus {
        answers: proxy.answers && core.proxy_trouble().is_none(),
        table: core.in_force(),
        trouble: core.proxy_trouble().map(str::to_owned),
        ..proxy
    });
    Status {
        program: settings.program.to_owned(),
        pid: std::process::id(),
        name: settings.name.clone(),
        id: state.id.clone(),
        manager: ManagerStatus {
            url: settings.manager.url.clone(),
            reached: link.reached,
            since_ms: Some(wall(link.since_ms)),
            trouble: link.trouble.clone(),
        },
        router: proxy.is_none().then(|| router(tools.front.kind(), core, &view, now)),
        proxy,
        unsaved: handler.unsaved.clone(),
        runtimes: tools.runtimes.status(),
        functions: functions.map(|(name, function)| of_function(core, handler, name, function)).collect(),
        services: services(core, &view),
        work: state.work.as_ref().map(|work| of_work(core, work)),
        owed: PendingReports {
            results: state.owed.len() as u64,
            next_try_ms: core.next_send_ms().map(wall_after(now)),
        },
        stops: core.stops(),
    }
}

fn wall_after(now: Now) -> impl Fn(u64) -> i64 {
    move |ms| now.wall_ms.saturating_add(i64::try_from(ms.saturating_sub(now.ms)).unwrap_or(0))
}

/// How the router stands that is led.
fn router(kind: RouterKind, core: &StateMachine, view: &View, now: Now) -> RouterStatus {
    let wall =
        |at: Instant| now.wall_ms.saturating_sub(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX));
    let of_number = |Number { epoch, generation }| TableNumber { epoch, generation };
    let drifts = view.drifts.iter().map(|drift| DriftStatus {
        at_ms: wall(drift.at),
        text: format!("{}: {}", drift.differences, drift.then),
    });
    RouterStatus {
        kind: kind.name().to_owned(),
        answers: view.is_reached,
        phase: phase(view.phase),
        wanted: core.decided_number(),
        seen: view.seen.as_ref().and_then(|seen| seen.number).map(of_number),
        seen_ms: view.seen_at.map(wall),
        trouble: view.trouble.clone().or_else(|| core.proxy_trouble().map(str::to_owned)),
        departures: view.departures.clone(),
        repairs: view.repairs,
        drifts: drifts.collect(),
    }
}

/// Services with the places of what was started for them. One that isn't there has none.
fn services(core: &StateMachine, view: &View) -> Vec<ServiceStatus> {
    let mut found: BTreeMap<String, LedService> =
        core.services().map(|led| (led.service.name().to_owned(), led)).collect();
    let all = core.state().services.iter();
    all.map(|(name, led)| of_service(&found.remove(name).unwrap_or_else(|| led.clone()), view)).collect()
}

fn of_service(led: &LedService, view: &View) -> ServiceStatus {
    let shares = led.shares();
    let each = led.service.variations.iter().zip(shares.into_iter().chain(std::iter::repeat(0)));
    let variations = each.map(|(variation, share)| {
        let (service, name) = (led.service.name(), variation.name.as_str());
        let drain = view.draining.iter().find(|one| one.service == service && one.variation == name);
        VariationStatus {
            name: name.to_owned(),
            share,
            seen: view.share(service, name),
            targets: variation.targets.iter().map(ToString::to_string).collect(),
            healthy: variation.health.as_ref().and_then(|_| view.healthy(service, name)),
            draining: drain.map(|one| Draining { left: one.left }),
        }
    });
    ServiceStatus {
        name: led.service.name().to_owned(),
        ports: led.service.ports.iter().map(|listen| listen.port).collect(),
        variations: variations.collect(),
        is_tried: led.is_tried,
    }
}

fn of_function(
    core: &StateMachine,
    handler: &ControlHandler,
    name: &str,
    function: &Function,
) -> FunctionStatus {
    let candidate = function.candidate.as_ref().map(|candidate| {
        let walk = core.state().work.as_ref().and_then(|work| work.walk());
        let testing = walk.and_then(|walk| walk.testing.as_ref());
        let testing = testing.filter(|testing| core.stage_name(testing.stage) == Some(&*candidate.stage));
        let side = testing.map(|testing| testing.counts.new_version().clone()).unwrap_or_default();
        CandidateStatus {
            version: version(core, handler, &candidate.version),
            share: candidate.share,
            stage: candidate.stage.clone(),
            calls: side.calls,
            errors: side.errors,
            repeated: side.repeated,
        }
    });
    FunctionStatus {
        name: name.to_owned(),
        sticky: function.routing.sticky.clone(),
        retry: function.routing.retry,
        stable: version(core, handler, &function.stable),
        candidate,
        kept: function
            .kept
            .as_ref()
            .map(|kept| KeptStatus { version: version(core, handler, &kept.version), until_ms: None }),
    }
}

fn of_work(core: &StateMachine, work: &Work) -> WorkStatus {
    let walk = work.walk();
    let testing = walk.and_then(|walk| walk.testing.as_ref());
    let ending = walk.and_then(|walk| walk.ending.as_ref());
    let phase = match &work.phase {
        Phase::Fetching => "downloads",
        Phase::Preparing(_) => "starts versions",
        Phase::Walking(_) if testing.is_some() => "runs a stage",
        Phase::Walking(_) => "ends",
    };
    let stage = testing.map(|testing| testing.stage).or(ending.map(|ending| ending.stage));
    WorkStatus {
        offer: work.offer.clone(),
        phase: phase.to_owned(),
        stage: stage.and_then(|stage| core.stage_name(stage)).map(str::to_owned),
        waits_for_signal: testing.is_some_and(|testing| testing.announced),
        failed: core.state().kept().map(str::to_owned),
        stopped: ending.and_then(|ending| ending.why.clone()),
    }
}
