//! `rollout`: in which order the manager leads a release through its children, and when it stops.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    amount::{Amount, Round, amount},
    analysis::{self, Analysis},
    diagnostic::{Findings, quoted},
    fields::{FieldEntry, Fields, Located},
    parse,
    raw::{At, NodeKind},
    scalar::{self, ScalarFault, fault},
    target,
};

/// Most waves of a release.
pub const MAX_WAVES: usize = 64;

/// How long an approval is waited for, unless the strategy says otherwise.
const APPROVAL_TIMEOUT: Duration = Duration::from_hours(6);

/// No silence is shorter: deployed agents poll every 3 s.
const MIN_SILENT_AFTER: Duration = Duration::from_secs(10);

/// Who has nothing in hand and was not heard of for so long is silent, unless the strategy says otherwise.
pub const SILENT_AFTER: Duration = Duration::from_mins(1);

/// The manager is in charge: one stage an offer, limits over the whole fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    pub order: Order,
    pub max_failed: Amount,
    pub max_timed_out: Amount,
    pub max_unreachable: Amount,
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub max_untested: Amount,
    #[serde(default, skip_serializing_if = "is_usual")]
    pub no_calls: NoCalls,
    #[serde(default, skip_serializing_if = "is_left")]
    pub untested: Untested,
    /// What follows when a limit is passed.
    pub on_failure: OnLimit,
    /// So many agents must have succeeded before the next wave opens; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_succeeded: Option<Amount>,
    /// Who has nothing in hand and was not heard of for so long has its turn last; `None`: [`SILENT_AFTER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_after: Option<Duration>,
    /// Most agents that have an offer in hand at once; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_progress: Option<u32>,
    /// After a wave, a stage or a location, before the next.
    pub soak: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    pub late_joiners: LateJoiners,
    /// It starts then, in milliseconds since 1970; `None`: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<i64>,
    /// By what the whole release is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

impl Rollout {
    pub fn silent_after_ms(&self) -> u64 {
        self.silent_after.unwrap_or(SILENT_AFTER).as_millis() as u64
    }

    /// Whether, although each goes at its own pace, the roll-out begins nowhere before enough have passed their tests. Who
    /// gets there has passed its own, so one alone need not be waited for.
    pub fn withholds_rollout(&self) -> bool {
        let is_more = self.min_succeeded.is_some_and(|amount| amount != Amount::Count(1));
        self.order == Order::Parallel && is_more
    }

    /// How many of `planned` agents must have succeeded where `opened` have had their turn; never none.
    pub fn must_succeed(&self, planned: u32, opened: u32) -> u32 {
        let wanted = self.min_succeeded.map_or(1, |amount| amount.of(planned, Round::Up));
        wanted.min(opened).max(1)
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            order: Order::Parallel,
            max_failed: Amount::Count(0),
            max_timed_out: Amount::Count(0),
            max_unreachable: Amount::WHOLE,
            max_untested: Amount::WHOLE,
            no_calls: NoCalls::default(),
            untested: Untested::default(),
            on_failure: OnLimit::Rollback,
            min_succeeded: None,
            silent_after: None,
            max_in_progress: None,
            soak: Duration::ZERO,
            approval: None,
            late_joiners: LateJoiners::Exclude,
            start_ms: None,
            analysis: None,
        }
    }
}

const fn whole() -> Amount {
    Amount::WHOLE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_whole(limit: &Amount) -> bool {
    *limit == Amount::WHOLE
}

fn is_usual(no_calls: &NoCalls) -> bool {
    *no_calls == NoCalls::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_left(untested: &Untested) -> bool {
    *untested == Untested::default()
}

/// How long a stage may go without the calls it needs, unless the strategy says otherwise.
pub const NO_CALLS: Duration = Duration::from_hours(1);

/// When a stage is ended that does not get the calls it needs. Until then one that ended without any call of the new
/// version is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoCalls {
    /// Counted from when its minimum duration is over.
    After(Duration),
    /// It has as much time as any stage.
    Never,
}

impl Default for NoCalls {
    fn default() -> Self {
        Self::After(NO_CALLS)
    }
}

/// What agents get that were left untested, when the others have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untested {
    /// The base version stays.
    #[default]
    Leave,
    Rollout,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Every child at once, each through all stages at its own pace.
    Parallel,
    /// One location through all its stages, then the next; nearest to `start_at` (longitude, latitude) first.
    LocationSequential { start_at: [f64; 2] },
    /// Stage k+1 starts nowhere before stage k has passed everywhere.
    GlobalIncremental,
    /// Growing groups; cumulative, the last is 100 %.
    Waves(Vec<Amount>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    #[default]
    Rollback,
    Pause,
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateJoiners {
    #[default]
    Exclude,
    Include,
}

/// Somebody must say yes; no answer in time rolls the release back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub of: ApprovalOf,
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOf {
    /// Before each wave but the first: who submits a release wants that one.
    Waves,
    /// Before the new version is rolled out anywhere.
    Rollout,
    /// Before each of these stages; ascending indices into the strategy's stages.
    Stages(Vec<usize>),
}

/// A block whose stages are not looked up yet.
pub(super) struct RolloutDraft {
    pub rollout: Rollout,
    /// Where approval is asked for before stages: their names.
    pub approved_stages: Option<Vec<Located<String>>>,
    pub analysis: Option<analysis::AnalysisDraft>,
}

const KEYS: [&str; 19] = [
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
    "start",
    "analysis",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Parallel,
    Location,
    Global,
    Waves,
}

pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<RolloutDraft> {
    let fields = Fields::open(entry.node, "rollout".to_owned(), &KEYS, findings)?;
    let mut rollout = Rollout::default();
    let (named, order) = order(&fields, findings);
    rollout.order = order.unwrap_or(Order::Parallel);
    let limit = |key: &str, limit: &mut Amount, findings: &mut Findings<'_>| {
        let given = fields.filled(key, "0", findings);
        if let Some(given) = given.and_then(|e| parse::read(e, "bad-amount", amount, findings)) {
            *limit = given;
        }
    };
    limit("max_failed", &mut rollout.max_failed, findings);
    limit("max_timed_out", &mut rollout.max_timed_out, findings);
    limit("max_unreachable", &mut rollout.max_unreachable, findings);
    limit("max_untested", &mut rollout.max_untested, findings);
    if let Some(entry) = fields.filled("no_calls", "after 1h", findings) {
        rollout.no_calls = parse::read(entry, "bad-duration", no_calls, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("untested", "leave", findings) {
        let known = [("leave", Untested::Leave), ("rollout", Untested::Rollout)];
        rollout.untested = parse::word(entry, "untested", &known, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("on_failure", "rollback", findings) {
        let known =
            [("rollback", OnLimit::Rollback), ("pause", OnLimit::Pause), ("continue", OnLimit::Continue)];
        rollout.on_failure = parse::word(entry, "on_failure", &known, findings).unwrap_or_default();
    }
    rollout.min_succeeded = min_succeeded(&fields, findings);
    rollout.silent_after = silent_after(&fields, findings);
    if let Some(entry) = fields.filled("max_in_progress", "500", findings) {
        rollout.max_in_progress = parse::read(entry, "bad-count", at_once, findings);
    }
    rollout.soak = soak(&fields, named, findings);
    let (approval, approved_stages) = approval(&fields, named, findings);
    rollout.approval = approval;
    if let Some(entry) = fields.filled("late_joiners", "exclude", findings) {
        let known = [("exclude", LateJoiners::Exclude), ("include", LateJoiners::Include)];
        rollout.late_joiners = parse::word(entry, "late_joiners", &known, findings).unwrap_or_default();
    }
    if let Some(entry) = fields.filled("start", "2026-03-01T06:00:00Z", findings) {
        rollout.start_ms = parse::read(entry, "bad-time", instant, findings);
    }
    let block = fields.filled("analysis", "and below it interval: and metrics:", findings);
    let analysis = block.and_then(|e| analysis::read(e, analysis::AnalysisPlace::Rollout, findings));
    Some(RolloutDraft { rollout, approved_stages, analysis })
}

/// The order, and how it is named if that could be read; what belongs to another order is reported.
fn order(fields: &Fields<'_>, findings: &mut Findings<'_>) -> (Option<Named>, Option<Order>) {
    let known = [
        ("parallel", Named::Parallel),
        ("location_sequential", Named::Location),
        ("global_incremental", Named::Global),
        ("waves", Named::Waves),
    ];
    let named = match fields.filled("order", "parallel", findings) {
        None => Some(Named::Parallel),
        Some(entry) => parse::word(entry, "order", &known, findings),
    };
    let start_at = fields.filled("start_at", "[13.40, 52.52]", findings);
    let waves = fields.filled("waves", "[1, 10%, 100%]", findings);
    let foreign = |entry: Option<FieldEntry<'_>>, of: Named, name: &str, findings: &mut Findings<'_>| {
        if let (Some(entry), Some(named)) = (entry, named)
            && named != of
        {
            let message = format!("{} has a meaning only with order: {name}", entry.key);
            findings
                .error(entry.at, "no-effect", message)
                .fix(format!("write order: {name}, or leave it out"));
        }
    };
    foreign(start_at, Named::Location, "location_sequential", findings);
    foreign(waves, Named::Waves, "waves", findings);
    let start_at = start_at.map(|entry| target::lone_position(entry, findings));
    let waves = waves.map(|entry| read_waves(entry, findings));
    let order = match named {
        None => None,
        Some(Named::Parallel) => Some(Order::Parallel),
        Some(Named::Global) => Some(Order::GlobalIncremental),
        Some(Named::Location) => {
            if start_at.is_none() {
                fields.required("start_at", "[13.40, 52.52]", findings);
            }
            start_at.flatten().map(|start_at| Order::LocationSequential { start_at })
        }
        Some(Named::Waves) => {
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
        let Some(wave) = parse::read(item, "bad-amount", amount, findings) else {
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
    let wanted = parse::read(entry, "bad-amount", amount, findings)?;
    if wanted.is_none() {
        findings
            .broken_rule(entry.at, "bad-amount", "min_succeeded is none, and nothing proves nothing")
            .fix("write how many agents must have succeeded before the next wave, as in 1 or 10%");
    }
    Some(wanted)
}

fn silent_after(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Duration> {
    let entry = fields.filled("silent_after", "60s", findings)?;
    let silence = parse::read(entry, "bad-duration", scalar::duration, findings)?;
    if silence < MIN_SILENT_AFTER {
        let message = format!("silent_after is {silence:?}, and agents call every few seconds at most");
        findings
            .broken_rule(entry.at, "bad-duration", message)
            .fix("write after how long a child that doesn't call is taken for silent, as in 60s");
    }
    Some(silence)
}

fn soak(fields: &Fields<'_>, order: Option<Named>, findings: &mut Findings<'_>) -> Duration {
    let Some(entry) = fields.filled("soak", "10m", findings) else { return Duration::ZERO };
    let soak = parse::read(entry, "bad-duration", scalar::duration, findings).unwrap_or_default();
    if order == Some(Named::Parallel) && !soak.is_zero() {
        findings
            .error(
                entry.at,
                "no-effect",
                "soak has no meaning with order: parallel, where nothing waits for others",
            )
            .fix("choose another order, or leave soak out");
    }
    soak
}

type Approvals = (Option<Approval>, Option<Vec<Located<String>>>);

fn approval(fields: &Fields<'_>, order: Option<Named>, findings: &mut Findings<'_>) -> Approvals {
    let timeout = fields.filled("approval_timeout", "6h", findings);
    let entry = fields.filled("approval", "before_rollout", findings);
    if let (Some(timeout), None) = (timeout, entry) {
        findings
            .error(timeout.at, "no-effect", "approval_timeout has no meaning without approval")
            .fix("add approval: before_rollout, or leave it out");
    }
    let timeout = timeout
        .and_then(|e| Some((e, parse::read(e, "bad-duration", scalar::duration, findings)?)))
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
    let Some(which) = parse::word(entry, "approval", &words, findings) else { return (None, None) };
    let [(_, waves), (_, rollout)] = known;
    let of = if which == 0 { waves } else { rollout };
    if of == ApprovalOf::Waves && order.is_some_and(|order| order != Named::Waves) {
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
    let items = list.items(super::MAX_STAGES, findings);
    if items.is_empty() && matches!(list.node.kind, NodeKind::Sequence(_)) {
        findings
            .error(list.at, "missing-value", "stages of approval is empty")
            .fix("name at least one stage");
    }
    let name = |node| {
        let node: &super::raw::Node = node;
        FieldEntry { key: "a stage of approval", node, at: node.at }
    };
    items.iter().filter_map(|node| parse::name(name(node), findings)).collect()
}

/// Where to report what is found wrong with the names of stages later.
pub(super) fn resolve(
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
