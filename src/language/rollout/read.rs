//! Reads the block `rollout`, and looks its stages up once they are known.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Approval, ApprovalOf, LateJoiners, NoCalls, Notes, OnLimit, Order, OrderWord, Rollout, Untested,
};
use crate::{
    amount::{Amount, amount},
    analysis::{self, AnalysisDraft, AnalysisPlace},
    diagnostic::quoted,
    fields::{FieldEntry, Fields, Located},
    findings::Findings,
    limits::{MAX_STAGES, MAX_WAVES},
    node::{At, Node, NodeKind},
    reading::{read_name, read_scalar, read_word},
    scalar::{self, ScalarFault, fault},
    target,
};

/// How long an approval is waited for, unless the strategy says otherwise.
const APPROVAL_TIMEOUT: Duration = Duration::from_hours(6);

/// No silence is shorter: deployed agents poll every 3 s.
const MIN_SILENT_AFTER: Duration = Duration::from_secs(10);

/// A block whose stages are not looked up yet.
pub(crate) struct RolloutDraft {
    pub rollout: Rollout,
    /// Where approval is asked for before stages: their names.
    pub approved_stages: Option<Vec<Located<String>>>,
    pub analysis: Option<AnalysisDraft>,
}

const KEYS: [&str; 20] = [
    "order",
    "start_at",
    "waves",
    "max_failed",
    "max_timed_out",
    "max_unreachable",
    "max_untested",
    "no_calls",
    "untested",
    "on_failure",
    "min_succeeded",
    "silent_after",
    "max_in_progress",
    "soak",
    "approval",
    "approval_timeout",
    "late_joiners",
    "notes",
    "start",
    "analysis",
];

/// `usual`: the order where none is given.
pub(crate) fn read(
    entry: FieldEntry<'_>,
    usual: OrderWord,
    findings: &mut Findings<'_>,
) -> Option<RolloutDraft> {
    let fields = Fields::open(entry.node, "rollout".to_owned(), &KEYS, findings)?;
    let mut rollout = Rollout::default();
    let (named, order) = order(&fields, usual, findings);
    rollout.order = order.unwrap_or(Order::Parallel);
    let limit = |key: &str, limit: &mut Amount, findings: &mut Findings<'_>| {
        let given = fields.filled(key, "0", findings);
        if let Some(given) = given.and_then(|e| read_scalar(e, "bad-amount", amount, findings)) {
            *limit = given;
        }
    };
    limit("max_failed", &mut rollout.max_failed, findings);
    limit("max_timed_out", &mut rollout.max_timed_out, findings);
    limit("max_unreachable", &mut rollout.max_unreachable, findings);
    limit("max_untested", &mut rollout.max_untested, findings);
    if let Some(entry) = fields.filled("no_calls", "after 1h", findings) {
        rollout.no_calls = read_scalar(entry, "bad-duration", no_calls, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("untested", "leave", findings) {
        let known = [("leave", Untested::Leave), ("rollout", Untested::Rollout)];
        let at = entry.at;
        rollout.untested = read_word(entry, "untested", &known, findings).unwrap_or_default();
        if rollout.untested == Untested::Rollout && usual == OrderWord::GlobalIncremental {
            let message = "untested: rollout is for functions: a service whose routers differ would give the same users one variation \
                           here and another one there, and one without calls has nobody who misses it";
            findings
                .error(at, "contradiction", message)
                .fix("write untested: leave, and release it again once it has calls");
        }
    }
    if let Some(entry) = fields.filled("on_failure", "rollback", findings) {
        let known =
            [("rollback", OnLimit::Rollback), ("pause", OnLimit::Pause), ("continue", OnLimit::Continue)];
        rollout.on_failure = read_word(entry, "on_failure", &known, findings).unwrap_or_default();
    }
    rollout.min_succeeded = min_succeeded(&fields, findings);
    rollout.silent_after = silent_after(&fields, findings);
    if let Some(entry) = fields.filled("max_in_progress", "500", findings) {
        rollout.max_in_progress = read_scalar(entry, "bad-count", at_once, findings);
    }
    rollout.soak = soak(&fields, named, findings);
    let (approval, approved_stages) = approval(&fields, named, findings);
    rollout.approval = approval;
    if let Some(entry) = fields.filled("late_joiners", "exclude", findings) {
        let known = [("exclude", LateJoiners::Exclude), ("include", LateJoiners::Include)];
        rollout.late_joiners = read_word(entry, "late_joiners", &known, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("notes", "required", findings) {
        let known = [("optional", Notes::Optional), ("required", Notes::Required)];
        rollout.notes = read_word(entry, "notes", &known, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("start", "2026-03-01T06:00:00Z", findings) {
        rollout.start_ms = read_scalar(entry, "bad-time", instant, findings);
    }
    let block = fields.filled("analysis", "and below it interval: and metrics:", findings);
    let analysis = block.and_then(|e| analysis::read(e, AnalysisPlace::Rollout, findings));
    Some(RolloutDraft { rollout, approved_stages, analysis })
}

/// The order, and how it is named if that could be read; what belongs to another order is reported.
fn order(
    fields: &Fields<'_>,
    usual: OrderWord,
    findings: &mut Findings<'_>,
) -> (Option<OrderWord>, Option<Order>) {
    let known = OrderWord::ALL.map(|word| (word.name(), word));
    let named = match fields.filled("order", "parallel", findings) {
        None => Some(usual),
        Some(entry) => read_word(entry, "order", &known, findings),
    };
    let start_at = fields.filled("start_at", "[13.40, 52.52]", findings);
    let waves = fields.filled("waves", "[1, 10%, 100%]", findings);
    let foreign = |entry: Option<FieldEntry<'_>>, of: OrderWord, findings: &mut Findings<'_>| {
        if let (Some(entry), Some(named)) = (entry, named)
            && named != of
        {
            let name = of.name();
            let message = format!("{} has a meaning only with order: {name}", entry.key);
            findings
                .error(entry.at, "no-effect", message)
                .fix(format!("write order: {name}, or leave it out"));
        }
    };
    foreign(start_at, OrderWord::LocationSequential, findings);
    foreign(waves, OrderWord::Waves, findings);
    let start_at = start_at.map(|entry| target::lone_position(entry, findings));
    let waves = waves.map(|entry| read_waves(entry, findings));
    let order = match named {
        None => None,
        Some(OrderWord::Parallel) => Some(Order::Parallel),
        Some(OrderWord::GlobalIncremental) => Some(Order::GlobalIncremental),
        Some(OrderWord::LocationSequential) => {
            if start_at.is_none() {
                fields.required("start_at", "[13.40, 52.52]", findings);
            }
            start_at.flatten().map(|start_at| Order::LocationSequential { start_at })
        }
        Some(OrderWord::Waves) => {
            if waves.is_none() {
                fields.required("waves", "[1, 10%, 100%]", findings);
            }
            waves.map(Order::Waves)
        }
    };
    (named, order)
}

fn read_waves(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Vec<Amount> {
    let mut waves: Vec<Amount> = Vec::new();
    let (mut count, mut share) = (0, 0);
    let mut unread = false;
    let items = entry.items(MAX_WAVES, findings);
    for node in items {
        let item = FieldEntry { key: "a wave", node, at: node.at };
        let Some(wave) = read_scalar(item, "bad-amount", amount, findings) else {
            unread = true;
            continue;
        };
        let last = match wave {
            Amount::Count(now) => std::mem::replace(&mut count, now) >= now,
            Amount::Share(now) => std::mem::replace(&mut share, now) >= now,
        };
        if wave.is_none() {
            findings
                .broken_rule(node.at, "bad-waves", format!("a wave of {wave} holds nobody"))
                .fix("begin with 1 or a percentage above 0");
        } else if last || waves.last() == Some(&Amount::WHOLE) {
            findings
                .broken_rule(node.at, "bad-waves", format!("the wave {wave} is not larger than the ones before"))
                .fix("waves are cumulative: each says how many agents have had their turn after it, as in [1, 10%, 100%]");
        }
        waves.push(wave);
    }
    let is_list = matches!(entry.node.kind, NodeKind::Sequence(_));
    if is_list
        && !unread
        && (items.len() <= MAX_WAVES || findings.is_stored())
        && waves.last() != Some(&Amount::WHOLE)
    {
        let message = match waves.last() {
            None => "waves is empty".to_owned(),
            Some(last) => format!("the last wave is {last}, so some children would never have their turn"),
        };
        let at = items.last().map_or(entry.at, |node| node.at);
        findings.broken_rule(at, "bad-waves", message).fix("add 100% as the last wave");
    }
    waves
}

fn min_succeeded(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Amount> {
    let entry = fields.filled("min_succeeded", "1", findings)?;
    let wanted = read_scalar(entry, "bad-amount", amount, findings)?;
    if wanted.is_none() {
        findings
            .broken_rule(entry.at, "bad-amount", "min_succeeded is none, and nothing proves nothing")
            .fix("write how many agents must have succeeded before the next wave, as in 1 or 10%");
    }
    Some(wanted)
}

fn silent_after(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Duration> {
    let entry = fields.filled("silent_after", "60s", findings)?;
    let silence = read_scalar(entry, "bad-duration", scalar::duration, findings)?;
    if silence < MIN_SILENT_AFTER {
        let message = format!("silent_after is {silence:?}, and agents call every few seconds at most");
        findings
            .broken_rule(entry.at, "bad-duration", message)
            .fix("write after how long a child that doesn't call is taken for silent, as in 60s");
    }
    Some(silence)
}

fn soak(fields: &Fields<'_>, order: Option<OrderWord>, findings: &mut Findings<'_>) -> Duration {
    let Some(entry) = fields.filled("soak", "10m", findings) else { return Duration::ZERO };
    let soak = read_scalar(entry, "bad-duration", scalar::duration, findings).unwrap_or_default();
    if let Some(order) = order
        && order.is_free()
        && !soak.is_zero()
    {
        let name = order.name();
        let message = format!("soak has no meaning with order: {name}, where nothing waits for others");
        findings.error(entry.at, "no-effect", message).fix("choose another order, or leave soak out");
    }
    soak
}

type Approvals = (Option<Approval>, Option<Vec<Located<String>>>);

fn approval(fields: &Fields<'_>, order: Option<OrderWord>, findings: &mut Findings<'_>) -> Approvals {
    let timeout = fields.filled("approval_timeout", "6h", findings);
    let entry = fields.filled("approval", "before_rollout", findings);
    if let (Some(timeout), None) = (timeout, entry) {
        findings
            .error(timeout.at, "no-effect", "approval_timeout has no meaning without approval")
            .fix("add approval: before_rollout, or leave it out");
    }
    let timeout = timeout
        .and_then(|e| Some((e, read_scalar(e, "bad-duration", scalar::duration, findings)?)))
        .map_or(APPROVAL_TIMEOUT, |(entry, timeout)| {
            if timeout.is_zero() {
                findings
                    .error(entry.at, "bad-duration", "an approval that has no time can't be given")
                    .fix("write how long it is waited for, as in 6h");
            }
            timeout
        });
    let Some(entry) = entry else { return (None, None) };
    if matches!(entry.node.kind, NodeKind::Mapping(_)) {
        let stages = approved_stages(entry, findings);
        return (Some(Approval { of: ApprovalOf::Stages(Vec::new()), timeout }), Some(stages));
    }
    let known = [("before_each_wave", ApprovalOf::Waves), ("before_rollout", ApprovalOf::Rollout)];
    let words = [(known[0].0, 0), (known[1].0, 1)];
    let Some(which) = read_word(entry, "approval", &words, findings) else { return (None, None) };
    let [(_, waves), (_, rollout)] = known;
    let of = if which == 0 { waves } else { rollout };
    if of == ApprovalOf::Waves && order.is_some_and(|order| !order.is_in_waves()) {
        findings
            .error(entry.at, "no-effect", "approval: before_each_wave has a meaning only with order: waves")
            .fix("write order: waves, or approval: before_rollout");
    }
    (Some(Approval { of, timeout }), None)
}

fn approved_stages(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Vec<Located<String>> {
    let Some(fields) = Fields::open(entry.node, "approval".to_owned(), &["stages"], findings) else {
        return Vec::new();
    };
    let Some(list) = fields.required("stages", "[Canary 5 Percent]", findings) else { return Vec::new() };
    let items = list.items(MAX_STAGES, findings);
    if items.is_empty() && matches!(list.node.kind, NodeKind::Sequence(_)) {
        findings
            .error(list.at, "missing-value", "stages of approval is empty")
            .fix("name at least one stage");
    }
    let name = |node| {
        let node: &Node = node;
        FieldEntry { key: "a stage of approval", node, at: node.at }
    };
    items.iter().filter_map(|node| read_name(name(node), findings)).collect()
}

/// Where to report what is found wrong with the names of stages later.
pub(crate) fn resolve(
    draft: RolloutDraft,
    stage_of: impl Fn(&Located<String>, &mut Findings<'_>) -> Option<usize>,
    findings: &mut Findings<'_>,
) -> Rollout {
    let RolloutDraft { mut rollout, approved_stages, analysis } = draft;
    rollout.analysis = analysis.and_then(|draft| draft.analysis);
    let Some(names) = approved_stages else { return rollout };
    let mut stages: Vec<usize> = Vec::new();
    for name in names {
        let Some(stage) = stage_of(&name, findings) else { continue };
        if stages.contains(&stage) {
            duplicate(&name, name.at, findings);
        } else {
            stages.push(stage);
        }
    }
    stages.sort_unstable();
    if let Some(approval) = &mut rollout.approval {
        approval.of = ApprovalOf::Stages(stages);
    }
    rollout
}

fn duplicate(name: &Located<String>, at: At, findings: &mut Findings<'_>) {
    let message = format!("approval names the stage {} twice", quoted(&name.value));
    findings.error(at, "duplicate-name", message).fix("keep one of the two");
}

fn at_once(text: &str) -> Result<u32, ScalarFault<u32>> {
    match amount(text) {
        Ok(Amount::Count(count)) if count > 0 => Ok(count),
        _ => Err(fault(
            format!("{} is no number of agents that may be at work at once", quoted(text)),
            "write a whole number from 1, as in 500",
        )),
    }
}

fn no_calls(text: &str) -> Result<NoCalls, ScalarFault<NoCalls>> {
    let wrong = || {
        fault(
            format!("{} does not say when a stage without calls ends", quoted(text)),
            "write after and a duration, as in after 1h, or never",
        )
    };
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["never"] => Ok(NoCalls::Never),
        ["after", time] => {
            scalar::duration(time).map(NoCalls::After).map_err(|fault| fault.map(NoCalls::After))
        }
        _ => Err(wrong()),
    }
}

fn instant(text: &str) -> Result<i64, ScalarFault<i64>> {
    text.trim().parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| {
        fault(
            format!("{} is no instant", quoted(text)),
            "write it as RFC 3339 with an offset, as in 2026-03-01T06:00:00Z or 2026-03-01T07:00:00+01:00",
        )
    })
}
