//! What children have reported so far, of stages that may still go on: managers, and agents that report while they test.
//!
//! Reports are cumulative. A look merges those of all, subtracts what earlier looks took, part by part (stage, split,
//! interval, group of users), and appends the rest: so what was looked at never changes, and whoever reports late, or once and for all at the
//! end, counts at the next look. Where less is there than was taken, because a child began anew, that part waits until
//! there is more.
//!
//! Times are ranked apart by how fast children were before the release, where that is known (`release::classes`): a part is
//! then (stage, split, class), and waits between looks until there is enough of it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::{sync::OnceCell, task::spawn_blocking};

use super::{children, due_looks::DueLook, missing_rows::explain_unread, split_outliers::Off};
use crate::{Engine, json_columns};
use analysis::{
    Assignment, Sample, Stratum,
    dispersion::SplitDispersion,
    effects::{ChildEffects, EffectsTold},
    speed_classes::is_worth_ranking,
};
use domain::release::{
    analysis::{MeasuredPart, Metered},
    assignment::StepIndex,
    measured::{self, stratum},
    speed_classes::{Begun, Classes},
    strata::{Key, Sides, Strata},
    summary::Summary,
};
use language::{
    Strategy,
    analysis::{ChildMetric, Metric, Pair},
};
use model::{ChildKey, StageStatus};
use store::{StoreError, rows::StageResultRow};

/// Most strata of one metric. A release is stored with them.
const MAX_STRATA: usize = 10_000;

/// What children reported, merged; read once a look, whichever of its metrics needs it first.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Variations that metrics name.
    pairs: BTreeSet<Pair>,
    merged: OnceCell<Result<Vec<Merged>, String>>,
}

/// What all of them reported so far.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Of which variations, and how they share calls; `None`: the stable one and the first beside it.
    pair: Option<(Pair, Strategy)>,
    /// By index in the strategy.
    stages: BTreeMap<u8, Strata>,
    /// Somebody reports while a stage goes on.
    pub is_interim: bool,
    /// How children differ, stage by stage.
    effects: BTreeMap<u8, EffectsTold>,
    /// How their splits differ from what was ordered, stage by stage.
    dispersion: BTreeMap<u8, SplitDispersion>,
    /// Those whose calls were shared out furthest from what was ordered.
    pub off: Off,
}

/// Why a look takes nothing of what was reported.
#[derive(Debug)]
pub(super) enum InterimRejection {
    /// There would be more of it apart than a release is stored with.
    TooMany,
    /// It isn't known what earlier looks took: what is stored of them makes no sense. Counted as if nothing had been taken, all of
    /// it would count twice.
    Unreadable(StoreError),
}

impl InterimRejection {
    /// Says it, and takes note of what can't be read.
    pub fn explain(&self, engine: &Engine, due: &DueLook) -> String {
        match self {
            Self::TooMany => format!("children reported more than {MAX_STRATA} times apart: look less often"),
            Self::Unreadable(error) => explain_unread(engine, &due.id, "what earlier looks took", error),
        }
    }
}

impl Reports {
    /// For a look at these metrics.
    pub fn of(metrics: &[Metric]) -> Self {
        Self { pairs: metrics.iter().filter_map(|metric| metric.pair.clone()).collect(), ..Self::default() }
    }

    pub async fn merged(
        &self,
        engine: &Engine,
        due: &DueLook,
        pair: Option<&Pair>,
    ) -> Result<&Merged, String> {
        let all = self.merged.get_or_init(|| read(engine, due, &self.pairs)).await;
        let all = all.as_ref().map_err(Clone::clone)?;
        let found = all.iter().find(|merged| merged.pair.as_ref().map(|(pair, _)| pair) == pair);
        found.ok_or_else(|| "nobody reads what children report of these variations".to_owned())
    }
}

/// The classes of the children in each stage.
async fn classes(engine: &Engine, due: &DueLook) -> Result<Vec<Arc<Classes>>, String> {
    let mut all = Vec::new();
    for stage in &due.strategy.stages {
        let function = due.strategy.subject_key(stage.subject);
        let Some(function) = function else {
            all.push(Arc::default());
            continue;
        };
        let begun = Begun { function: due.strategy.history_key(function), at_ms: due.started_ms };
        let found = engine.classes(due.release, begun).await;
        all.push(found.map_err(|error| explain_unread(engine, &due.id, "what children did before", &error))?);
    }
    Ok(all)
}

/// Reads slice by slice, and adds up each apart from the tasks that answer calls.
async fn read(engine: &Engine, due: &DueLook, pairs: &BTreeSet<Pair>) -> Result<Vec<Merged>, String> {
    let classes = Arc::new(classes(engine, due).await?);
    let of = |pair: Option<&Pair>| Merged {
        pair: pair.map(|pair| (pair.clone(), due.strategy.of_pair(pair))),
        ..Merged::default()
    };
    let mut merged: Vec<Merged> = pairs.iter().map(Some).chain([None]).map(of).collect();
    let mut after = None;
    loop {
        let (members, more) = children::find_members(engine, due, after).await?;
        if let (Some(first), Some(last)) = (members.first(), members.last()) {
            let rows = children::read_rows(engine, due.release, *first, *last).await?;
            let (strategy, slot) = (due.strategy.clone(), due.whose.slot);
            let classes = Arc::clone(&classes);
            let adding = spawn_blocking(move || {
                let attempts = attempts(&rows, &members, slot, &strategy)?;
                for one in &mut merged {
                    one.add(&attempts, &strategy, &classes);
                }
                Ok::<_, StoreError>(merged)
            });
            let added = adding.await.map_err(|error| {
                tracing::error!(%error, release = due.id, "the reports of children could not be added up");
                "the reports of children could not be added up; see the manager's log".to_owned()
            })?;
            merged = added.map_err(|error| children::explain_unread_reports(engine, due.release, &error))?;
        }
        match more {
            Some(_) => after = more,
            None => return Ok(merged),
        }
    }
}

/// What each child reported of each stage that counts, its attempts one after the other.
type Attempts = BTreeMap<(u32, StepIndex), Vec<Summary>>;

/// Of some children.
fn attempts(
    rows: &[StageResultRow],
    members: &[ChildKey],
    slot: Option<StepIndex>,
    strategy: &Strategy,
) -> Result<Attempts, StoreError> {
    let mut attempts = Attempts::new();
    for row in rows.iter().filter(|row| members.binary_search(&ChildKey(row.child_key)).is_ok()) {
        let of = json_columns::slot_of(row, strategy)?;
        if of.stage_index().is_none() || slot.is_some_and(|slot| slot != of) {
            continue;
        }
        let summary = json_columns::summary(row)?;
        let of_child = attempts.entry((row.child_key, of)).or_default();
        // A try that got no call of the new version was no test, but its calls were shared out like all others. What
        // else was tried before is replaced: a manager says it once more, and who was told to try again starts afresh.
        of_child.retain(|before| before.agents.is_none() && before.has_no_calls());
        of_child.push(summary);
    }
    Ok(attempts)
}

impl Merged {
    /// Adds what some children reported.
    fn add(&mut self, attempts: &Attempts, strategy: &Strategy, classes: &[Arc<Classes>]) {
        let mut found: BTreeMap<u8, Vec<Cow<'_, Summary>>> = BTreeMap::new();
        let mut class_of: BTreeMap<u8, Vec<Option<u8>>> = BTreeMap::new();
        let strategy = self.pair.as_ref().map_or(strategy, |(_, strategy)| strategy);
        for ((child, of), told) in attempts {
            // Of roll-outs nothing was kept above.
            let Some(index) = of.stage_index() else { continue };
            let meant = |summary| match &self.pair {
                None => Some(Cow::Borrowed(summary)),
                Some((pair, _)) => Summary::of_pair(summary, pair).map(Cow::Owned),
            };
            let summaries: Vec<Cow<'_, Summary>> = told.iter().filter_map(meant).collect();
            let splits = measured::splits(summaries.iter().map(AsRef::as_ref), strategy, index);
            self.off.note(ChildKey(*child), &splits);
            if let Some(latest) = summaries.last() {
                let found = measured::dispersion([(&**latest, splits)]);
                self.dispersion.entry(index as u8).or_default().add(&found);
            }
            self.is_interim |= summaries.iter().any(|summary| summary.status == StageStatus::InProgress);
            let class = classes.get(index).and_then(|classes| classes.of(ChildKey(*child)));
            class_of.entry(index as u8).or_default().extend(summaries.iter().map(|_| class));
            found.entry(index as u8).or_default().extend(summaries);
        }
        for (index, summaries) in found {
            let stage = &strategy.stages[usize::from(index)];
            if let Some(told) = measured::effects(summaries.iter().map(AsRef::as_ref), stage.new_traffic) {
                self.effects.entry(index).or_default().add(&told);
            }
            let classes = class_of.remove(&index).unwrap_or_default();
            let each = summaries.iter().map(AsRef::as_ref).zip(classes);
            let strata = Strata::classed(each, stage.new_traffic);
            self.stages.entry(index).or_default().merge(&strata);
        }
    }

    /// Both versions side by side, part by part. `moved`: the stages whose shares changed while they went on.
    fn parts<'m>(
        &'m self,
        of: ChildMetric,
        strategy: &'m Strategy,
        moved: &'m [u8],
    ) -> impl Iterator<Item = (MeasuredPart, Stratum)> + 'm {
        let stages = self
            .stages
            .iter()
            .filter_map(|(at, strata)| Some((*at, strategy.stages.get(usize::from(*at))?, strata)));
        stages.flat_map(move |(at, stage, strata)| {
            // How fast a child is says nothing of how often it fails.
            let strata = match of {
                ChildMetric::ErrorRate => Cow::Owned(strata.clone().without_classes()),
                ChildMetric::ResponseTime => Cow::Borrowed(strata),
            };
            let part = |(key, sides): (&Key, &Sides)| {
                let mut found = stratum(stage, *key, sides, of, moved.contains(&at))?;
                // Not every child knows how its calls are routed.
                if strategy.is_sticky(Some(at.into())) && !found.assignment.is_sticky() {
                    found.assignment = Assignment::User;
                }
                Some((MeasuredPart { stage: at, key: *key }, named(found, *key)))
            };
            strata.iter().filter_map(part).collect::<Vec<_>>()
        })
    }

    /// What is known of the new version's calls, where none of them depend on each other.
    pub fn new_version(&self, of: ChildMetric, strategy: &Strategy) -> Option<Sample> {
        let is_sticky =
            |(at, strata): (&u8, &Strata)| strata.are_sticky() || strategy.is_sticky(Some(usize::from(*at)));
        if self.stages.iter().any(is_sticky) {
            return None;
        }
        let mut all = Strata::default();
        self.stages.values().for_each(|strata| all.merge(strata));
        measured::samples(&all.total(), of).map(|[_, new]| new)
    }

    /// How children differ in what is meant.
    pub fn children(&self, of: ChildMetric) -> ChildEffects {
        ChildEffects::of(self.effects.values().filter_map(|told| match of {
            ChildMetric::ErrorRate => told.errors,
            ChildMetric::ResponseTime => told.times,
        }))
    }

    /// How children's splits differ from what was ordered.
    pub fn dispersion(&self) -> SplitDispersion {
        SplitDispersion::of_stages(self.dispersion.values().copied())
    }

    /// Appends what earlier looks did not take, as of one interval of the analysis. Whether there is anything.
    pub fn append(
        &self,
        found: &mut Metered,
        of: ChildMetric,
        due: &DueLook,
        interval: u64,
    ) -> Result<bool, InterimRejection> {
        let taken = taken(found, &due.strategy).map_err(|why| {
            InterimRejection::Unreadable(json_columns::bad_run(due.release, due.run.block, why))
        })?;
        let before = found.strata.len();
        let mut few = Vec::new();
        let strategy = self.pair.as_ref().map_or(&*due.strategy, |(_, strategy)| strategy);
        for (part, now) in self.parts(of, strategy, &due.moved) {
            let new = match taken.get(&part) {
                None => Some((now.baseline.clone(), now.canary.clone(), now.calls)),
                Some(taken) => taken.left_of(&now),
            };
            let Some((baseline, canary, calls)) = new else { continue };
            if baseline.count() == 0 && canary.count() == 0 {
                continue;
            }
            let ranked = taken.get(&part).map_or(0, |taken| taken.baseline.count() + taken.canary.count());
            if part.key.class.is_some() && !due.is_last && !is_worth_ranking(&baseline, &canary, ranked) {
                continue;
            }
            let is_few = part.key.class.is_some() && !is_worth_ranking(&baseline, &canary, 0);
            let stratum = Stratum { calls, interval, baseline, canary, ..now };
            if is_few {
                few.push((part, of_few(stratum)));
            } else {
                found.strata.push(stratum);
                found.parts.push(part);
            }
        }
        for (part, stratum) in few {
            found.strata.push(stratum);
            found.parts.push(part);
        }
        if found.strata.len() > MAX_STRATA {
            return Err(InterimRejection::TooMany);
        }
        Ok(found.strata.len() > before)
    }
}

/// What is ranked together has one name: calls of different intervals or classes are not.
fn named(stratum: Stratum, key: Key) -> Stratum {
    match key {
        Key { class: Some(class), .. } => {
            Stratum { stage: format!("{}, class {class}", stratum.stage), ..stratum }
        }
        Key { interval: 0, .. } => stratum,
        Key { interval, .. } => {
            Stratum { stage: format!("{}, interval {interval}", stratum.stage), ..stratum }
        }
    }
}

/// What is left at the end of classes of which there is too little are ranked together.
fn of_few(stratum: Stratum) -> Stratum {
    let stage = stratum.stage.rsplit_once(", class ").map(|(stage, _)| format!("{stage}, few of a class"));
    Stratum { stage: stage.unwrap_or_default(), ..stratum }
}

/// What earlier looks took of a part.
struct Taken {
    baseline: Sample,
    canary: Sample,
    /// Failed ones too, where they are counted.
    calls: [u64; 2],
}

impl Taken {
    fn of(stratum: &Stratum) -> Self {
        let Stratum { baseline, canary, .. } = stratum.clone();
        Self { baseline, canary, calls: stratum.calls() }
    }

    /// `None`: the two are of different forms.
    fn add(self, more: &Stratum) -> Option<Self> {
        let ([a, b], [c, d]) = (self.calls, more.calls());
        let (baseline, canary) = (self.baseline.with(&more.baseline)?, self.canary.with(&more.canary)?);
        Some(Self { baseline, canary, calls: [a.saturating_add(c), b.saturating_add(d)] })
    }

    /// What is there now beyond it; `None`: less than was taken.
    fn left_of(&self, now: &Stratum) -> Option<(Sample, Sample, Option<[u64; 2]>)> {
        let [base, new] = self.calls;
        let calls = now.calls.map(|[a, b]| [a.saturating_sub(base), b.saturating_sub(new)]);
        Some((now.baseline.since(&self.baseline)?, now.canary.since(&self.canary)?, calls))
    }
}

/// What earlier looks took, part by part; or why that can't be said.
fn taken(found: &Metered, strategy: &Strategy) -> Result<BTreeMap<MeasuredPart, Taken>, &'static str> {
    if found.parts.len() != found.strata.len() {
        return Err("it doesn't name as many parts as were measured");
    }
    let mut taken: BTreeMap<MeasuredPart, Taken> = BTreeMap::new();
    for (part, stratum) in found.parts.iter().zip(&found.strata) {
        if usize::from(part.stage) >= strategy.stages.len() {
            return Err("a part is of no stage of the strategy");
        }
        let sum = match taken.remove(part) {
            None => Taken::of(stratum),
            Some(taken) => taken.add(stratum).ok_or("a part was measured in forms that can't be added up")?,
        };
        taken.insert(*part, sum);
    }
    Ok(taken)
}
