//! From a [`StrategyDraft`] to a [`Strategy`]: names looked up, the graph checked, warnings given.

use std::{collections::HashMap, time::Duration};

use traffic::BUCKETS;

use super::{
    analysis::{Analysis, judge_each_variation},
    diagnostic::{nearest, quoted},
    fields::Located,
    findings::Findings,
    graph,
    hybrid::{self, Group},
    node::At,
    parse::{
        DraftFunction, DraftService, DraftShares, DraftStage, DraftSubject, StrategyDraft,
        service::unknown_variation,
    },
    rollout::{self, Order, Rollout},
    service::Service,
    strategy::{Action, Function, ReleaseDeadlines, Stage, Strategy, new_traffic},
};

/// The strategy, if nothing in it is missing. Whether it is without fault the findings say.
pub(super) fn strategy(draft: StrategyDraft, findings: &mut Findings<'_>) -> Option<Strategy> {
    // Who judges is in charge.
    let led = draft.stages.iter().any(|stage| stage.analysis.is_some());
    // Routers of one service move as one.
    let moves_as_one = !draft.services.is_empty();
    if let (Some(service), false) = (draft.services.first(), draft.functions.is_empty())
        && draft.from_parent.is_some()
        && !findings.is_stored()
    {
        let message = "a parent offers what is agents' or what is routers', and not both";
        findings.error(service.at, "contradiction", message);
    }
    let body = Body::of(draft.functions, draft.services, draft.stages, findings);
    let rollout = draft.rollout.map(|draft| {
        let stage_of =
            |name: &Located<String>, findings: &mut Findings<'_>| stage_named(name, &body.stage_at, findings);
        rollout::resolve(draft, stage_of, findings)
    });
    let rollout = rollout.or_else(|| {
        let order = if moves_as_one { Order::GlobalIncremental } else { Order::Parallel };
        (led || moves_as_one).then(|| Rollout { order, ..Rollout::default() })
    });
    let mut strategy = Strategy {
        id: draft.id?,
        name: draft.name?,
        kind: draft.kind,
        functions: body.functions?,
        services: body.services?,
        stages: body.stages?,
        on_conflict: draft.on_conflict,
        deadlines: draft.deadlines,
        target: draft.target,
        rollout,
        forward_up: draft.forward_up,
        from_parent: draft.from_parent,
        annotations: draft.annotations,
    };
    if strategy.subjects_count() == 0 || strategy.stages.is_empty() {
        return None;
    }
    let place = |stage: usize| body.places.get(stage).map_or(draft.stage_deadline_at, |place| place.stage);
    judge_each_variation(&mut strategy, place, findings);
    begin_together(&strategy, place, findings);
    if body.is_sound {
        warnings(&strategy, &body.places, draft.stage_deadline_at, findings);
    }
    Some(strategy)
}

/// Functions and stages, with names looked up.
pub(super) struct Body {
    /// `None`: something is missing.
    pub functions: Option<Vec<Function>>,
    pub services: Option<Vec<Service>>,
    pub stages: Option<Vec<Stage>>,
    stage_at: HashMap<String, usize>,
    places: Vec<StagePlaces>,
    /// Every way through the stages is known, and ends.
    is_sound: bool,
}

impl Body {
    pub fn of(
        functions: Vec<DraftFunction>,
        services: Vec<DraftService>,
        stages: Vec<DraftStage>,
        findings: &mut Findings<'_>,
    ) -> Self {
        let subjects = Subjects {
            functions: index(functions.iter().map(|f| f.name.as_ref()), "function", findings),
            services: index(services.iter().map(|s| s.name.as_ref()), "service", findings),
            first_service: functions.len(),
        };
        let stage_at = index(stages.iter().map(|s| s.name.as_ref()), "stage", findings);
        for stage in stages.iter().filter_map(|s| s.name.as_ref()) {
            if matches!(stage.value.as_str(), "rollout" | "rollback") {
                findings
                    .broken_rule(
                        stage.at,
                        "reserved-name",
                        format!("a stage can't be called {}", stage.value),
                    )
                    .fix("that is the name of an action; call it otherwise");
            }
        }
        let places: Vec<StagePlaces> = stages.iter().map(StagePlaces::of).collect();
        let used: Vec<Option<usize>> = stages.iter().map(|s| subjects.of(s, findings)).collect();
        let mut edges: Vec<[Option<Action>; 2]> =
            stages.iter().map(|s| actions_of(s, &stage_at, findings)).collect();
        let whole_graph = edges.iter().flatten().all(Option::is_some);
        let acyclic = no_loops(&edges, &places, findings);
        hybrid::part(&stages, &services, &used, subjects.first_service, &mut edges, findings);
        let functions = functions.into_iter().map(|f| function(f, findings)).collect::<Vec<_>>();
        let services = services.into_iter().map(|s| s.service).collect::<Option<Vec<_>>>();
        let stages = stages.into_iter().zip(used).zip(edges);
        let stages = stages.map(|((stage, subject), actions)| {
            let service =
                subject.and_then(|at| services.as_ref()?.get(at.checked_sub(subjects.first_service)?));
            finish(stage, (subject, service), actions, findings)
        });
        let stages: Vec<Option<Stage>> = stages.collect();
        Self {
            functions: functions.into_iter().collect(),
            stages: stages.into_iter().collect(),
            services,
            stage_at,
            places,
            is_sound: whole_graph && acyclic,
        }
    }
}

/// Where the parts of a stage stand, for what is found after the draft is gone.
struct StagePlaces {
    stage: At,
    name: At,
    success: At,
    failure: At,
}

impl StagePlaces {
    fn of(stage: &DraftStage) -> Self {
        let at = |text: &Option<Located<String>>| text.as_ref().map_or(stage.at, |t| t.at);
        Self {
            stage: stage.at,
            name: at(&stage.name),
            success: at(&stage.on_success),
            failure: at(&stage.on_failure),
        }
    }
}

/// Names to indices; duplicates are reported.
fn index<'d>(
    names: impl Iterator<Item = Option<&'d Located<String>>>,
    noun: &str,
    findings: &mut Findings<'_>,
) -> HashMap<String, usize> {
    let mut known: HashMap<String, (usize, u32)> = HashMap::new();
    for (at, name) in names.enumerate() {
        let Some(name) = name else { continue };
        if let Some((_, line)) = known.get(&name.value) {
            let message = format!("there are two {noun}s {}, the first in line {line}", quoted(&name.value));
            findings.error(name.at, "duplicate-name", message).fix("rename one of them");
        } else {
            known.insert(name.value.clone(), (at, name.at.line));
        }
    }
    known.into_iter().map(|(name, (at, _))| (name, at)).collect()
}

/// Functions and services by name.
struct Subjects {
    functions: HashMap<String, usize>,
    services: HashMap<String, usize>,
    /// The index of the first service.
    first_service: usize,
}

impl Subjects {
    fn of(&self, stage: &DraftStage, findings: &mut Findings<'_>) -> Option<usize> {
        match stage.subject.as_ref()? {
            DraftSubject::Function(name) => named(name, &self.functions, "function", findings),
            DraftSubject::Service(name) => {
                named(name, &self.services, "service", findings).map(|at| at + self.first_service)
            }
            DraftSubject::OnlyService => {
                let only = (self.services.len() == 1).then_some(self.first_service);
                if only.is_none() && !self.services.is_empty() {
                    let message = "there are several services, and this stage names none";
                    findings.error(stage.at, "missing-key", message).fix("write service: NAME");
                } else if self.services.is_empty() {
                    let message = "there is no service whose calls this stage could share out";
                    findings.error(stage.at, "unknown-service", message).fix("name it under services:");
                }
                only
            }
        }
    }
}

fn named(
    name: &Located<String>,
    known: &HashMap<String, usize>,
    noun: &str,
    findings: &mut Findings<'_>,
) -> Option<usize> {
    let found = known.get(&name.value).copied();
    // Where none could be read, that is the fault.
    if found.is_none() && (!known.is_empty() || noun == "service") {
        let code = if noun == "service" { "unknown-service" } else { "unknown-function" };
        let fault = findings.error(name.at, code, format!("there is no {noun} {}", quoted(&name.value)));
        match nearest(&name.value, sorted(known)) {
            Some(near) => fault.fix(format!("did you mean {near}?")),
            None => fault.fix(format!("name it under {noun}s:")),
        }
    }
    found
}

fn stage_named(
    name: &Located<String>,
    known: &HashMap<String, usize>,
    findings: &mut Findings<'_>,
) -> Option<usize> {
    let found = known.get(&name.value).copied();
    if found.is_none() && !known.is_empty() {
        let message = format!("there is no stage {}", quoted(&name.value));
        let fault = findings.error(name.at, "unknown-stage", message);
        match nearest(&name.value, sorted(known)) {
            Some(near) => fault.fix(format!("did you mean {near}?")),
            None => fault.fix("write the name of a stage"),
        }
    }
    found
}

/// A map has no order, and messages must not change from run to run.
fn sorted(known: &HashMap<String, usize>) -> Vec<&str> {
    let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
    names.sort_by_key(|name| known[*name]);
    names
}

fn actions_of(
    stage: &DraftStage,
    known: &HashMap<String, usize>,
    findings: &mut Findings<'_>,
) -> [Option<Action>; 2] {
    let mut action = |name: &Located<String>| match name.value.as_str() {
        "rollout" => Some(Action::Rollout),
        "rollback" => Some(Action::Rollback),
        stage => {
            let found = known.get(stage).map(|at| Action::Stage(*at));
            if found.is_none() {
                let message = format!("there is no stage or action {}", quoted(stage));
                let fault = findings.error(name.at, "unknown-stage", message);
                match nearest(stage, sorted(known).into_iter().chain(["rollout", "rollback"])) {
                    Some(near) => fault.fix(format!("did you mean {near}?")),
                    None => fault.fix("write rollout, rollback or the name of a stage"),
                }
            }
            found
        }
    };
    let success = stage.on_success.as_ref().and_then(&mut action);
    let failure = stage.on_failure.as_ref().map_or(Some(Action::Rollback), action);
    [success, failure]
}

/// Reports every action that leads back to a stage it comes from. Without loops each path ends, since each
/// stage has both actions.
fn no_loops(edges: &[[Option<Action>; 2]], places: &[StagePlaces], findings: &mut Findings<'_>) -> bool {
    let back = graph::back_edges(edges);
    for &(from, which) in &back {
        let at = if which == 0 { places[from].success } else { places[from].failure };
        let word = if which == 0 { "onSuccess" } else { "onFailure" };
        findings
            .error(at, "loop", format!("{word} leads back to a stage that leads here: this never ends"))
            .fix("go on to a later stage, or end in rollout or rollback");
    }
    back.is_empty()
}

fn function(draft: DraftFunction, findings: &mut Findings<'_>) -> Option<Function> {
    let name = draft.name?;
    if !name.value.bytes().all(|b| b.is_ascii_alphanumeric()) {
        let message = format!("tinyFaaS refuses the function name {}", quoted(&name.value));
        let plain: String = name.value.chars().filter(char::is_ascii_alphanumeric).collect();
        let found = findings.warning(name.at, "function-name", message);
        if plain.is_empty() {
            found.fix("use letters and digits only");
        } else {
            found.fix(format!("use letters and digits only, as in {plain}"));
        }
    }
    let (base, new) = (draft.base?, draft.new?);
    if base == new {
        let message = format!("both versions of {} are the same folder", quoted(&name.value));
        findings.warning(draft.at, "same-folder", message).fix("give new_version a folder of its own");
    }
    let DraftFunction { agents, sticky, retry, .. } = draft;
    Some(Function { name: name.value, agents, base, new, sticky, retry })
}

/// What each variation gets, in the order of the service's.
fn shares_of(shares: &DraftShares, service: &Service, findings: &mut Findings<'_>) -> Option<Vec<u16>> {
    let known: Vec<&str> = service.variations.iter().map(|variation| variation.name.as_str()).collect();
    let mut of = vec![0; known.len()];
    for (name, share) in &shares.of {
        match known.iter().position(|known| *known == name.value) {
            Some(at) => of[at] = *share,
            None => unknown_variation(&name.value, name.at, &known, findings),
        }
    }
    // What none of the variations gets was said of one that there isn't.
    (of.iter().copied().map(u32::from).sum::<u32>() == u32::from(BUCKETS)).then_some(of)
}

fn finish(
    stage: DraftStage,
    (subject, service): (Option<usize>, Option<&Service>),
    actions: [Option<Action>; 2],
    findings: &mut Findings<'_>,
) -> Option<Stage> {
    let [on_success, on_failure] = actions;
    let shares = match (&stage.shares, service) {
        (Some(shares), Some(service)) => Some(shares_of(shares, service, findings)?),
        _ => None,
    };
    let is_of_service = matches!(stage.subject, Some(DraftSubject::Service(_) | DraftSubject::OnlyService));
    if is_of_service && shares.is_none() {
        return None;
    }
    let shared = shares.as_deref().map(new_traffic);
    let analysis = stage.analysis.and_then(|draft| draft.judging(&stage.conditions));
    Some(Stage {
        name: stage.name?.value,
        kind: stage.kind?,
        subject: subject?,
        new_traffic: shared.or(stage.new_traffic)?,
        shares: shares.unwrap_or_default(),
        with_next: stage.with_next,
        healthy_targets: stage.healthy_targets,
        conditions: stage.conditions,
        min_duration: stage.min_duration,
        min_calls: stage.min_calls,
        on_success: on_success?,
        on_failure: on_failure?,
        analysis,
    })
}

/// What begins together shares out calls of several services by one table: each service is in it once, and only the last stage is waited for
/// and judged.
fn begin_together(strategy: &Strategy, place: impl Fn(usize) -> At, findings: &mut Findings<'_>) {
    for (at, stage) in strategy.stages.iter().enumerate().filter(|(_, stage)| stage.with_next) {
        let name = quoted(&stage.name);
        let is_led = strategy.group_of_stage(at + 1) == Group::Routers && at + 1 < strategy.stages.len();
        if stage.on_success != Action::Stage(at + 1) || !is_led {
            let message = format!("stage {name} begins with the one behind it, and doesn't lead to that");
            findings.error(place(at), "with-next", message).fix(
                "have its onSuccess name the stage behind it, of another service, or leave with_next out",
            );
            continue;
        }
        let behind = at + 1..=*strategy.together(at).end();
        if behind.filter_map(|at| strategy.stages.get(at)).any(|other| other.subject == stage.subject) {
            let message = format!("stage {name} begins together with another one of the same service");
            findings
                .error(place(at), "with-next", message)
                .fix("have a service once in what begins together");
        }
        let is_judged = !stage.conditions.is_empty()
            || stage.analysis.is_some()
            || stage.healthy_targets.is_some_and(|least| least > 0);
        if is_judged || !stage.min_duration.is_zero() || stage.min_calls > 0 {
            let message = format!(
                "stage {name} begins with the one behind it, so it waits for nothing, and nothing judges it"
            );
            findings.error(place(at), "with-next", message).fix(
                "leave its metrics_conditions, end_conditions, analysis and healthy_targets out: the last stage may have them",
            );
        }
    }
}

fn warnings(strategy: &Strategy, places: &[StagePlaces], deadline_at: At, findings: &mut Findings<'_>) {
    let reachable = strategy.reachable();
    let reached = || strategy.stages.iter().zip(&reachable).filter(|(_, reached)| **reached);
    for (index, place) in places.iter().enumerate().filter(|(index, _)| !reachable[*index]) {
        let name = quoted(&strategy.stages[index].name);
        findings
            .warning(place.stage, "unreachable-stage", format!("nothing leads to stage {name}"))
            .fix("name it in an onSuccess or onFailure, or leave it out");
    }
    if !reached().any(|(s, _)| s.on_success == Action::Rollout || s.on_failure == Action::Rollout) {
        findings
            .warning(
                places[0].success,
                "no-rollout",
                "no way leads to rollout: every child ends on its base version",
            )
            .fix("let the last stage have onSuccess: rollout");
    }
    // What couldn't be read of a stage may be what it seems to lack.
    if !findings.has_errors() {
        lacking_warnings(strategy, places, &reachable, findings);
    }
    for ((stage, place), reached) in strategy.stages.iter().zip(places).zip(&reachable) {
        if *reached && stage.new_traffic == 0 {
            let message = format!(
                "the new version gets no calls in stage {}, which proves nothing of it",
                quoted(&stage.name)
            );
            let fix = if stage.shares.is_empty() {
                "give new_version a trafficPercentage above 0, or leave the stage out"
            } else {
                "give a variation beside the stable one a share, or leave the stage out"
            };
            findings.warning(place.name, "no-traffic", message).fix(fix);
        }
    }
    ungrouped_warning(strategy, places, findings);
    deadline_warning(strategy, &strategy.deadlines, deadline_at, findings);
    for function in (0..strategy.subjects_count()).filter(|f| !reached().any(|(s, _)| s.subject == *f)) {
        let name = quoted(strategy.subject_key(function).unwrap_or_default());
        findings
            .warning(At::START, "unused-function", format!("no stage tests the function {name}"))
            .fix("name it in the func_name of a stage, or leave it out");
    }
}

/// Stages that judge nothing, or wait for nothing.
fn lacking_warnings(
    strategy: &Strategy,
    places: &[StagePlaces],
    reachable: &[bool],
    findings: &mut Findings<'_>,
) {
    for ((stage, place), reached) in strategy.stages.iter().zip(places).zip(reachable) {
        if !*reached || stage.with_next || stage.new_traffic == 0 {
            continue;
        }
        if stage.conditions.is_empty() {
            let message = format!("stage {} has no condition on the new version", quoted(&stage.name));
            findings
                .warning(place.name, "no-condition", message)
                .fix("add metrics_conditions, as in errorRate with threshold: \"<0.02\"");
        }
        if stage.min_duration.is_zero() && stage.min_calls == 0 && stage.analysis.is_none() {
            let message = format!(
                "stage {} waits for nothing: it may end before the new version had a call",
                quoted(&stage.name)
            );
            findings.warning(place.name, "no-minimum", message).fix(
                "add end_conditions: [{name: minDuration, threshold: 10m}, {name: minCalls, threshold: 1000}]",
            );
        }
    }
}

/// What a provider tells of calls that depend on each other shows nothing of how they do.
fn ungrouped_warning(strategy: &Strategy, places: &[StagePlaces], findings: &mut Findings<'_>) {
    for (stage, analysis) in strategy.analyses().filter(|(stage, _)| strategy.is_sticky(*stage)) {
        let at = stage.map_or(At::START, |stage| places[stage].name);
        for metric in analysis.metrics.iter().filter(|metric| metric.compares_calls_of_a_provider()) {
            let message = format!(
                "all calls of one user go to one version, and a provider tells nothing of users: metric {} can't \
                 be decided",
                quoted(&metric.name)
            );
            findings.warning(at, "no-groups", message).fix(
                "compare what children report (provider: children), whose calls come in groups of users, or give \
                 what is expected (strategy: THRESHOLD)",
            );
        }
    }
}

fn deadline_warning(strategy: &Strategy, deadlines: &ReleaseDeadlines, at: At, findings: &mut Findings<'_>) {
    let Some(deadline) = deadlines.stage else { return };
    for stage in strategy.stages.iter().filter(|s| s.min_duration > deadline) {
        let message = format!("stage_deadline is below the minDuration of stage {}", quoted(&stage.name));
        findings.warning(at, "deadline-too-short", message).fix("raise stage_deadline or lower minDuration");
    }
    for stage in &strategy.stages {
        let extended = |a: &Analysis| a.extend.map_or(Duration::ZERO, |extend| extend.duration);
        let needed = stage.analysis.as_ref().and_then(|a| Some(a.initial_delay + a.duration? + extended(a)));
        if needed.is_some_and(|needed| needed > deadline) {
            let message = format!("stage_deadline is below the analysis of stage {}", quoted(&stage.name));
            findings.warning(at, "deadline-too-short", message).fix("raise stage_deadline or lower duration");
        }
    }
}
