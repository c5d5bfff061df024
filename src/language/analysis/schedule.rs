//! When an analysis looks: how long it takes, how often it looks, and what each of its metrics says of that.

use std::time::Duration;

use super::spec::{MAX_LOOKS, MIN_INTERVAL};
use crate::{
    fields::{FieldEntry, Fields},
    findings::Findings,
    node::{At, Node, NodeKind},
    reading::read_scalar,
    scalar,
};

/// What a block judges.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnalysisPlace {
    /// A stage; the new version's share of traffic, if it could be read.
    Stage { new_traffic: Option<u8> },
    /// The whole release.
    Rollout,
}

/// When it looks.
pub(super) struct Schedule {
    pub duration: Option<Duration>,
    /// At any of its metrics.
    pub interval: Option<Duration>,
    /// At those that don't say.
    common: Option<Duration>,
    /// It has no end by intention.
    pub is_open: bool,
}

impl Schedule {
    /// How many looks there are, if that is known.
    pub fn looks(&self) -> Option<u64> {
        self.looks_every(self.interval)
    }

    /// At a metric with an interval of its own, or without.
    pub fn looks_at(&self, own: Option<Duration>) -> Option<u64> {
        self.looks_every(own.or(self.common))
    }

    /// The interval of a metric, where it isn't that of the looks.
    pub fn unlike(&self, own: Option<Duration>) -> Option<Duration> {
        own.or(self.common).filter(|interval| Some(*interval) != self.interval)
    }

    fn looks_every(&self, interval: Option<Duration>) -> Option<u64> {
        let (duration, interval) = (self.duration?.as_millis(), interval?.as_millis());
        let looks = u64::try_from(duration.div_ceil(interval.max(1))).ok()?;
        (looks > 0).then_some(looks)
    }
}

pub(super) fn read_schedule(
    fields: &Fields<'_>,
    place: AnalysisPlace,
    findings: &mut Findings<'_>,
) -> Schedule {
    let read = |entry: FieldEntry<'_>, findings: &mut Findings<'_>| {
        read_scalar(entry, "bad-duration", scalar::duration, findings)
    };
    let duration_entry = match place {
        AnalysisPlace::Stage { .. } => fields.required("duration", "30m", findings),
        AnalysisPlace::Rollout => fields.filled("duration", "30m", findings),
    };
    let own = own_intervals(fields);
    let interval_entry = if own.all {
        fields.filled("interval", "5m", findings)
    } else {
        fields.required("interval", "5m", findings)
    };
    let duration = duration_entry.and_then(|e| read(e, findings));
    let common = interval_entry
        .and_then(|e| Some((read(e, findings)?, e.at)))
        .and_then(|(interval, at)| check_interval(interval, at, findings));
    let interval = own.least.into_iter().chain(common).min();
    let is_open = matches!(place, AnalysisPlace::Rollout) && fields.place("duration").is_none();
    let found = Schedule { duration, interval, common, is_open };
    if let (Some(duration), Some(longest)) = (duration, own.longest.filter(|_| interval_entry.is_none()))
        && longest > duration
    {
        findings
            .error(
                fields.at(),
                "contradiction",
                "an interval is longer than duration: there would be no look",
            )
            .fix("write a shorter interval or a longer duration");
        return found;
    }
    if let (Some(looks), None) = (found.looks().filter(|looks| *looks > MAX_LOOKS), interval_entry) {
        let message = format!("that makes {looks} looks, at most {MAX_LOOKS} are possible");
        findings.broken_rule(fields.at(), "contradiction", message).fix("write longer intervals");
        return found;
    }
    if let (Some(duration), Some(interval), Some(entry)) = (duration, interval, interval_entry) {
        if interval > duration {
            findings
                .error(entry.at, "contradiction", "interval is longer than duration: there would be no look")
                .fix("write a shorter interval or a longer duration");
        } else if let Some(looks) = found.looks().filter(|looks| *looks > MAX_LOOKS) {
            findings
                .broken_rule(
                    entry.at,
                    "contradiction",
                    format!("that makes {looks} looks, at most {MAX_LOOKS} are possible"),
                )
                .fix("write a longer interval");
        }
    }
    found
}

/// An interval that shows something new.
pub(super) fn check_interval(interval: Duration, at: At, findings: &mut Findings<'_>) -> Option<Duration> {
    if interval < MIN_INTERVAL && !findings.is_stored() {
        let least = MIN_INTERVAL.as_secs();
        findings
            .error(at, "bad-duration", format!("looks that are less than {least}s apart see nothing new"))
            .fix("write how often to look, as in interval: 5m");
        return None;
    }
    Some(interval)
}

/// What metrics say of how often they are looked at.
#[derive(Default)]
struct OwnIntervals {
    /// Each says it.
    all: bool,
    least: Option<Duration>,
    longest: Option<Duration>,
}

/// Faults are reported where a metric is read.
fn own_intervals(fields: &Fields<'_>) -> OwnIntervals {
    let Some(NodeKind::Sequence(items)) = fields.optional("metrics").map(|entry| &entry.node.kind) else {
        return OwnIntervals::default();
    };
    let texts: Vec<Option<&str>> = items.iter().map(|metric| word_of(metric, "interval")).collect();
    // A template that is not at hand here may say it.
    let says = |metric: &Node| word_of(metric, "interval").is_some() || has(metric, "template");
    let read = |text: &&str| scalar::duration(text).ok().filter(|interval| *interval >= MIN_INTERVAL);
    let known: Vec<Duration> = texts.iter().flatten().filter_map(read).collect();
    OwnIntervals {
        all: !items.is_empty() && items.iter().all(says),
        least: known.iter().min().copied(),
        longest: known.iter().max().copied(),
    }
}

/// What a metric says under a key, if that is a single value.
pub(super) fn word_of<'n>(metric: &'n Node, wanted: &str) -> Option<&'n str> {
    let NodeKind::Mapping(pairs) = &metric.kind else { return None };
    pairs.iter().find_map(|(key, value)| match (&key.kind, &value.kind) {
        (NodeKind::Scalar(key), NodeKind::Scalar(text)) if key == wanted => Some(text.as_str()),
        _ => None,
    })
}

fn has(metric: &Node, wanted: &str) -> bool {
    let NodeKind::Mapping(pairs) = &metric.kind else { return false };
    pairs.iter().any(|(key, _)| matches!(&key.kind, NodeKind::Scalar(key) if key == wanted))
}

/// A limit that is as high as there are looks.
pub(super) fn report_never_passed(key: &str, limit: u32, looks: u64, at: At, findings: &mut Findings<'_>) {
    let why = if looks == 1 {
        "is 1 look".to_owned()
    } else {
        format!("are {looks} looks (duration over interval)")
    };
    let message = format!("{key}: {limit} is never passed, for there {why}");
    findings.error(at, "contradiction", message).fix(format!("write less than {looks}, or look more often"));
}
