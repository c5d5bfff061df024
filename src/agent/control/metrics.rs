//! Metrics of an agent. Their labels are bounded by the functions that it serves and the stage that it is in; a version's digest is none.

use proxy::prometheus::Text;

use super::form::{FunctionStatus, RouterPhase, RouterStatus, Status, Stops, VersionStatus};
use crate::runtime::Phase;

pub(super) fn text(status: &Status) -> String {
    let mut text = Text::new("choirmaster_agent_");
    text.family("build_info", "gauge", "The version of this program, as a label; always 1.");
    text.sample("build_info", &[("version", &status.program)], 1);
    let reached = u64::from(status.manager.reached);
    text.single("manager_reached", "gauge", "Whether the manager answered when it was last called.", reached);
    if let Some(proxy) = &status.proxy {
        let answers = u64::from(proxy.answers);
        text.single("proxy_answers", "gauge", "Whether the proxy answered when it was last asked.", answers);
    }
    if let Some(router) = &status.router {
        self::router(&mut text, router);
    }
    let help = "Whether what the agent knows could be written to its disk when that was last tried.";
    text.single("state_kept", "gauge", help, u64::from(status.unsaved.is_none()));
    let help = "Whether what runs functions answered when it was last asked.";
    text.family("runtime_reached", "gauge", help);
    for runtime in &status.runtimes {
        text.sample("runtime_reached", &[("runtime", &runtime.name)], u64::from(runtime.reached));
    }
    let help = "Results that the manager was not told yet, or has not answered.";
    text.single("results_owed", "gauge", help, status.owed.results);
    text.single("functions", "gauge", "Functions that are served.", status.functions.len() as u64);
    work(&mut text, status);
    versions(&mut text, &status.functions);
    stops(&mut text, status.stops);
    text.finish()
}

fn router(text: &mut Text, router: &RouterStatus) {
    let help = "Whether the router answered when it was last asked.";
    text.family("router_answers", "gauge", help);
    text.sample("router_answers", &[("kind", &router.kind)], u64::from(router.answers));
    let is_in_force = router.phase == RouterPhase::InForce;
    let help = "Whether the router was read back to do what is wanted.";
    text.single("router_in_force", "gauge", help, u64::from(is_in_force));
    let help = "How often a drift of the router was repaired within the last hour.";
    text.single("router_repairs", "gauge", help, router.repairs as u64);
}

fn work(text: &mut Text, status: &Status) {
    let work = status.work.as_ref();
    text.single("releasing", "gauge", "Whether a release is in hand.", u64::from(work.is_some()));
    let waits = work.is_some_and(|work| work.waits_for_signal);
    let help = "Whether a stage is done here and waits for the manager to end it.";
    text.single("waits_for_signal", "gauge", help, u64::from(waits));
    let stopped = work.is_some_and(|work| work.stopped.is_some());
    let help = "Whether the release in hand was taken back here.";
    text.single("stopped", "gauge", help, u64::from(stopped));
    text.family("stage", "gauge", "The stage that is run, as a label; always 1.");
    if let Some(stage) = work.and_then(|work| work.stage.as_deref()) {
        text.sample("stage", &[("stage", stage)], 1);
    }
}

fn versions(text: &mut Text, functions: &[FunctionStatus]) {
    let named: Vec<_> = functions.iter().flat_map(of_function).collect();
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&VersionStatus) -> u64| {
        text.family(name, kind, help);
        for (function, role, version) in &named {
            text.sample(name, &[("function", function), ("version", role)], value(version));
        }
    };
    let help =
        "Whether the process of a version is there: the stable one, the new one, the one that is kept.";
    family("version_runs", "gauge", help, &|version| u64::from(version.phase == Phase::Runs));
    let help = "How often a version that is there ended by itself and was started again.";
    family("version_restarts_total", "counter", help, &|version| version.restarts);
    let candidates = || functions.iter().filter_map(|of| Some((of.name.as_str(), of.candidate.as_ref()?)));
    text.family("new_share", "gauge", "The share of calls that the new version gets, from 0 to 1.");
    for (name, candidate) in candidates() {
        let share = format!("{}", f64::from(candidate.share) / 10_000.0);
        text.line("new_share", &[("function", name)], &share);
    }
    text.family("stage_calls", "gauge", "Calls of the new version in this stage, by how they ended.");
    for (name, candidate) in candidates() {
        let ended = [
            ("answered", candidate.calls.saturating_sub(candidate.errors)),
            ("repeated", candidate.repeated),
            ("failed", candidate.errors.saturating_sub(candidate.repeated)),
        ];
        for (class, count) in ended {
            text.sample("stage_calls", &[("function", name), ("class", class)], count);
        }
    }
}

fn of_function(of: &FunctionStatus) -> impl Iterator<Item = (&str, &'static str, &VersionStatus)> {
    let name = of.name.as_str();
    let new = of.candidate.iter().map(move |candidate| (name, "new", &candidate.version));
    let kept = of.kept.iter().map(move |kept| (name, "kept", &kept.version));
    std::iter::once((name, "stable", &of.stable)).chain(new).chain(kept)
}

fn stops(text: &mut Text, stops: Stops) {
    let Stops { judged, ordered, managed, unstarted } = stops;
    let help = "How often a new version was taken back here, by who said so.";
    text.family("stops_total", "counter", help);
    for (by, count) in
        [("judged", judged), ("ordered", ordered), ("managed", managed), ("unstarted", unstarted)]
    {
        text.sample("stops_total", &[("by", by)], count);
    }
}
