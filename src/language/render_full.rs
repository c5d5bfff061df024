//! A strategy in the full language, for a manager below: it walks graphs, judges quantiles and leads its own children.
//!
//! What it writes, [`super::check_from_parent`] reads as the same strategy. Here nothing is left out, so nothing of this is
//! for an agent.

mod services;

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::Timestamp;

use super::{
    Action, Amount, Approval, ApprovalOf, FromParent, Function, Interim, LateJoiners, Metric, NoCalls,
    OnConflict, OnLimit, Order, Partial, ReleaseDeadlines, Rollout, Stage, StageKind, Statistic, Sticky,
    Strategy, Subject, Target, TargetArea, Untested,
    render::{self, TAIL, head, millis, push_function, quoted},
    scalar::{go_duration, sign},
};

/// The whole strategy.
pub fn whole(strategy: &Strategy) -> String {
    let mut text = head(strategy, strategy.id.as_str());
    push_conflict(&mut text, strategy);
    push_deadlines(&mut text, &strategy.deadlines);
    for (at, function) in strategy.functions.iter().enumerate() {
        push_function(&mut text, function, &function.new, at == 0);
        push_selector(&mut text, "agents", &function.agents);
        push_routing(&mut text, function);
    }
    services::push(&mut text, &strategy.services);
    text.push_str("stages:\n");
    for stage in &strategy.stages {
        push_stage(&mut text, strategy, stage);
    }
    text.push_str(TAIL);
    if let Some(target) = &strategy.target {
        push_target(&mut text, target);
    }
    if let Some(rollout) = &strategy.rollout {
        push_rollout(&mut text, strategy, rollout);
    }
    if let Some(from_parent) = &strategy.from_parent {
        push_from_parent(&mut text, from_parent);
    }
    text
}

/// The whole strategy for an agent that walks through it by itself: nothing of who else takes part, and in what order. It waits
/// for the signal in every stage, whatever type that has, so that whoever leads the release can hold it anywhere.
/// `is_reported`: with how it reports stages that go on. With what it may spend of alpha, where the strategy has that.
pub fn in_place(strategy: &Strategy, offer_id: &str, is_reported: bool) -> String {
    let mut text = head(strategy, offer_id);
    for (at, function) in strategy.functions.iter().enumerate() {
        push_function(&mut text, function, &function.new, at == 0);
        push_routing(&mut text, function);
    }
    services::push(&mut text, &strategy.services);
    text.push_str("stages:\n");
    for (at, stage) in strategy.stages.iter().enumerate() {
        // An idle stage waits, and is no verdict.
        let min_calls = stage.min_calls.max(u64::from(stage.new_traffic > 0));
        push_stage(
            &mut text,
            strategy,
            &Stage { kind: StageKind::WaitForSignal, min_calls, ..stage.clone() },
        );
        if let Some(interim) = strategy.interim(at).filter(|_| is_reported) {
            render::push_interim(&mut text, interim);
        }
    }
    text.push_str(TAIL);
    if let Some(FromParent { local_alpha, salt, keeps_failed, .. }) = &strategy.from_parent
        && (local_alpha.is_some() || salt.is_some() || *keeps_failed)
    {
        let (local_alpha, salt, keeps_failed) = (*local_alpha, salt.clone(), *keeps_failed);
        let said = FromParent { local_alpha, salt, keeps_failed, ..FromParent::default() };
        push_from_parent(&mut text, &said);
    }
    text
}

/// By which labels children are chosen for one function or service.
fn push_selector(text: &mut String, key: &str, labels: &BTreeMap<String, String>) {
    if labels.is_empty() {
        return;
    }
    let labels = labels.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)));
    let _ = writeln!(text, "    {key}: {{labels: {{{}}}}}", labels.collect::<Vec<_>>().join(", "));
}

fn push_sticky(text: &mut String, sticky: Option<&Sticky>) {
    match sticky {
        None => {}
        Some(Sticky::Address) => text.push_str("    sticky: address\n"),
        Some(Sticky::Cookie(name)) => {
            let _ = writeln!(text, "    sticky: {{cookie: {}}}", quoted(name));
        }
        Some(Sticky::Header(name)) => {
            let _ = writeln!(text, "    sticky: {{header: {}}}", quoted(name));
        }
    }
}

/// How calls of a function are given to its versions.
fn push_routing(text: &mut String, function: &Function) {
    push_sticky(text, function.sticky.as_ref());
    if let Some(retry) = function.retry {
        let _ = writeln!(text, "    retry: {}", retry.name());
    }
}

/// An order to take a release back, whatever became of it: a manager that knows it by its name needs no more, and to one
/// that does not it is an undo like any agent's.
pub fn undo(strategy: &Strategy, function: usize) -> String {
    let id = strategy.id.as_str();
    let mut text = render::undo(strategy, function, id);
    push_from_parent(&mut text, &FromParent { undoes: Some(id.to_owned()), ..FromParent::default() });
    text
}

fn push_conflict(text: &mut String, strategy: &Strategy) {
    let word = match strategy.on_conflict {
        OnConflict::Queue => return,
        OnConflict::Refuse => "refuse",
        OnConflict::Supersede => "supersede",
    };
    let _ = writeln!(text, "on_conflict: {word}");
}

fn push_deadlines(text: &mut String, deadlines: &ReleaseDeadlines) {
    let ReleaseDeadlines { offer, setup_grace, stage } = deadlines;
    let all = [("offer_deadline", offer), ("setup_grace", setup_grace), ("stage_deadline", stage)];
    for (key, deadline) in all {
        if let Some(deadline) = deadline {
            let _ = writeln!(text, "{key}: {}", go_duration(*deadline));
        }
    }
}

fn push_stage(text: &mut String, strategy: &Strategy, stage: &Stage) {
    match strategy.subject(stage.subject) {
        Some(Subject::Service(service)) => services::push_shares(text, service, stage),
        Some(Subject::Function(function)) => push_variants(text, &function.name, stage),
        None => push_variants(text, "", stage),
    }
    push_conditions(text, stage);
    let (duration, calls) = (go_duration(stage.min_duration), stage.min_calls);
    let _ = write!(
        text,
        "    end_conditions:\n      - name: minDuration\n        threshold: {duration}\n      - name: minCalls\n        \
         threshold: \"{calls}\"\n"
    );
    let (success, failure) = (action(strategy, stage.on_success), action(strategy, stage.on_failure));
    let _ = write!(text, "    end_action:\n      onSuccess: {success}\n      onFailure: {failure}\n");
}

fn push_variants(text: &mut String, function: &str, stage: &Stage) {
    let kind = match stage.kind {
        StageKind::AB => "A/B",
        StageKind::WaitForSignal => "WaitForSignal",
    };
    let (name, function) = (quoted(&stage.name), quoted(function));
    let _ = write!(text, "  - name: {name}\n    type: {kind}\n    func_name: {function}\n    variants:\n");
    let new = stage.new_traffic.min(100);
    for (name, share) in [("base_version", 100 - new), ("new_version", new)] {
        let _ = write!(text, "      - name: {name}\n        trafficPercentage: {share}\n");
    }
}

fn action(strategy: &Strategy, action: Action) -> String {
    match action {
        Action::Rollout => "rollout".to_owned(),
        Action::Rollback => "rollback".to_owned(),
        Action::Stage(next) => quoted(strategy.stages.get(next).map_or("", |stage| stage.name.as_str())),
    }
}

fn push_conditions(text: &mut String, stage: &Stage) {
    if stage.conditions.is_empty() {
        return;
    }
    text.push_str("    metrics_conditions:\n");
    for condition in &stage.conditions {
        let (sign, threshold) = (sign(condition.operator), condition.threshold);
        let name = if condition.metric == Metric::ErrorRate { "errorRate" } else { "responseTime" };
        let _ = write!(text, "      - name: {name}\n        threshold: \"{sign}{threshold}\"\n");
        if let Metric::ResponseTime(statistic) = condition.metric {
            let _ = writeln!(text, "        compareWith: {}", statistic_name(statistic));
        }
    }
}

/// Millionths of a percent: more digits than a percentile can be written with.
const QUANTILE_STEPS: f64 = 1e6;

fn statistic_name(statistic: Statistic) -> String {
    match statistic {
        Statistic::Median => "Median".to_owned(),
        Statistic::Minimum => "Minimum".to_owned(),
        Statistic::Maximum => "Maximum".to_owned(),
        Statistic::Quantile(q) => format!("P{}", (q * 100.0 * QUANTILE_STEPS).round() / QUANTILE_STEPS),
    }
}

fn push_target(text: &mut String, target: &Target) {
    let Target { area, labels, partial } = target;
    text.push_str("target:\n");
    if let Some(TargetArea(polygons)) = area {
        text.push_str("  area:\n    type: MultiPolygon\n    coordinates: [");
        push_list(text, polygons, |text, rings| {
            push_list(text, rings, |text, ring| {
                push_list(text, ring, |text, [x, y]| {
                    let _ = write!(text, "{x}, {y}");
                });
            });
        });
        text.push_str("]\n");
    }
    if !labels.is_empty() {
        text.push_str("  labels:\n");
        for (key, value) in labels {
            let _ = writeln!(text, "    {}: {}", quoted(key), quoted(value));
        }
    }
    let partial = match partial {
        Partial::Refuse => "refuse",
        Partial::Allow => "allow",
    };
    let _ = writeln!(text, "  partial: {partial}");
}

/// The items, each in brackets; between them a line break, so that no line is too long for anybody's editor.
fn push_list<T>(text: &mut String, items: &[T], push: impl Fn(&mut String, &T)) {
    for (at, item) in items.iter().enumerate() {
        text.push_str(if at == 0 { "[" } else { ",\n      [" });
        push(text, item);
        text.push(']');
    }
}

fn push_rollout(text: &mut String, strategy: &Strategy, rollout: &Rollout) {
    let Rollout {
        order,
        max_failed,
        max_timed_out,
        max_unreachable,
        // In `push_untested`.
        max_untested: _,
        no_calls: _,
        untested: _,
        on_failure,
        min_succeeded,
        silent_after,
        max_in_progress,
        soak,
        approval,
        late_joiners,
        start_ms,
        // Who acts where it was planned says why.
        notes: _,
        // The whole release is judged where it was planned.
        analysis: _,
    } = rollout;
    text.push_str("rollout:\n");
    push_order(text, order);
    for (key, limit) in
        [("max_failed", max_failed), ("max_timed_out", max_timed_out), ("max_unreachable", max_unreachable)]
    {
        let _ = writeln!(text, "  {key}: {limit}");
    }
    let on_failure = match on_failure {
        OnLimit::Rollback => "rollback",
        OnLimit::Pause => "pause",
        OnLimit::Continue => "continue",
    };
    if let Some(least) = min_succeeded {
        let _ = writeln!(text, "  min_succeeded: {least}");
    }
    if let Some(silence) = silent_after {
        let _ = writeln!(text, "  silent_after: {}", go_duration(*silence));
    }
    let late_joiners = match late_joiners {
        LateJoiners::Exclude => "exclude",
        LateJoiners::Include => "include",
    };
    let _ = write!(text, "  on_failure: {on_failure}\n  late_joiners: {late_joiners}\n");
    push_untested(text, rollout);
    if let Some(most) = max_in_progress {
        let _ = writeln!(text, "  max_in_progress: {most}");
    }
    if !soak.is_zero() {
        let _ = writeln!(text, "  soak: {}", go_duration(*soak));
    }
    if let Some(approval) = approval {
        push_approval(text, strategy, approval);
    }
    if let Some(start) = start_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        let _ = writeln!(text, "  start: {start}");
    }
}

/// Only what is not usual.
fn push_untested(text: &mut String, rollout: &Rollout) {
    if rollout.max_untested != Amount::WHOLE {
        let _ = writeln!(text, "  max_untested: {}", rollout.max_untested);
    }
    match rollout.no_calls {
        usual if usual == NoCalls::default() => {}
        NoCalls::Never => text.push_str("  no_calls: never\n"),
        NoCalls::After(time) => {
            let _ = writeln!(text, "  no_calls: after {}", go_duration(time));
        }
    }
    if rollout.untested == Untested::Rollout {
        text.push_str("  untested: rollout\n");
    }
}

fn push_order(text: &mut String, order: &Order) {
    let _ = writeln!(text, "  order: {}", order.word().name());
    match order {
        Order::Parallel | Order::GlobalIncremental => {}
        Order::LocationSequential { start_at: [x, y] } => {
            let _ = writeln!(text, "  start_at: [{x}, {y}]");
        }
        Order::Waves(waves) => {
            let waves: Vec<String> = waves.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "  waves: [{}]", waves.join(", "));
        }
    }
}

fn push_approval(text: &mut String, strategy: &Strategy, approval: &Approval) {
    match &approval.of {
        ApprovalOf::Waves => text.push_str("  approval: before_each_wave\n"),
        ApprovalOf::Rollout => text.push_str("  approval: before_rollout\n"),
        ApprovalOf::Stages(stages) => {
            let names = stages.iter().filter_map(|at| strategy.stages.get(*at));
            let names: Vec<String> = names.map(|stage| quoted(&stage.name)).collect();
            let _ = write!(text, "  approval:\n    stages: [{}]\n", names.join(", "));
        }
    }
    let _ = writeln!(text, "  approval_timeout: {}", go_duration(approval.timeout));
}

fn push_from_parent(text: &mut String, from_parent: &FromParent) {
    text.push_str("from_above: {");
    let FromParent { waves, continues, undoes, retries, interim, classes, local_alpha, salt, keeps_failed } =
        from_parent;
    let offer = |key: &str, id: &Option<String>| id.as_ref().map(|id| format!("{key}: {}", quoted(id)));
    let waves = waves.map(|waves| format!("waves: {waves}"));
    let retries = retries.then(|| "retries: true".to_owned());
    let of_stage = |(stage, interim): &(String, Interim)| {
        let (every, cut) = (millis(interim.every_ms), millis(interim.cut_ms));
        format!("{{stage: {}, every: {every}, cut: {cut}}}", quoted(stage))
    };
    let interim: Vec<String> = interim.iter().map(of_stage).collect();
    let interim = (!interim.is_empty()).then(|| format!("interim: [{}]", interim.join(", ")));
    let classes = classes.then(|| "classes: true".to_owned());
    let alpha = local_alpha.map(|alpha| format!("local_alpha: {alpha:e}"));
    let (continues, undoes, salt) =
        (offer("continues", continues), offer("undoes", undoes), offer("salt", salt));
    let keeps_failed = keeps_failed.then(|| "keeps_failed: true".to_owned());
    let all = [waves, continues, undoes, retries, interim, classes, alpha, salt, keeps_failed];
    let all: Vec<String> = all.into_iter().flatten().collect();
    let _ = writeln!(text, "{}}}", all.join(", "));
}
