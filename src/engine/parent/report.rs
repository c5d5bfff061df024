//! Results go up: one summary of all children for each stage, read from the store when it is sent.

use std::{
    collections::BTreeMap,
    hash::{Hash as _, Hasher as _},
    sync::{Arc, MutexGuard, PoisonError},
};

use super::{CallTrouble, PATIENCE, ParentCaller};
use crate::{effect::ParentStageResult, json_columns};
use analysis::{Values, effects::EffectsTold};
use domain::{
    parent::ToldStage,
    release::{
        assignment::StepIndex,
        ending::Ending,
        manager::Agents,
        measured,
        parent::aggregate,
        speed_classes::Begun,
        strata::{Strata, Understood},
        summary::{self, Reported, Summary},
    },
};
use language::Strategy;
use model::{ChildKey, FEATURE_GROUPS, FEATURE_VALUES, ManagerInstant, ReleaseId, ReleaseKey, StageStatus};
use protocol::child::{
    Buckets, HistogramForm, ManagerTime, StageSummary, StratumForm, TimesForm, VariationForm,
    VariationStratumForm, Why,
};
use store::{MAX_PAGE, StoreError};

/// Stages remembered of which it is known what the parent was told last.
const MAX_TOLD: usize = 1_000;

impl ParentCaller {
    /// Whether the parent said that it understands times as values.
    fn tells_values(&self) -> bool {
        self.parent.knows(FEATURE_VALUES)
    }

    /// What the parent said that it understands of strata.
    fn understood(&self) -> Understood {
        Understood { groups: self.parent.knows(FEATURE_GROUPS) }
    }

    pub(super) async fn send_result(&self, id: &str, owed: &ParentStageResult) -> Result<(), CallTrouble> {
        // What is said anew is the agents alone.
        let below = match owed.release.as_ref().filter(|_| owed.recount.is_none()) {
            Some(release) => {
                let strategy = self.strategy_of(release).await;
                let (split, begun) = (owed.split, owed.begun.clone());
                self.below(owed.release_key, Below { slot: owed.slot, split, strategy, begun }).await?
            }
            None => Subtree::default(),
        };
        let understood = self.understood();
        if below.strata.are_sticky() && !understood.groups {
            tracing::warn!(
                offer = owed.offer,
                stage = owed.stage,
                "all calls of one user go to one version, and the manager above doesn't understand groups of users: it is \
                 told no times and errors of these to compare, for it would take the calls for independent ones; bring it \
                 up to date"
            );
        }
        let why = owed.why.clone();
        let (agents, recount) = (Some(owed.agents), owed.recount);
        let sum = Summary { agents, why, recount, ..below.told(owed.status, understood) };
        let summary = wire(sum, owed.stage.clone(), owed.next.clone(), self.tells_values());
        self.parent.result(id, &owed.offer, summary).await?;
        Ok(())
    }

    /// What was measured so far of a stage that goes on, unless the parent has heard just that. Its answer tells its time.
    pub(super) async fn tell_interim(&self, of: ToldStage) -> Result<(), CallTrouble> {
        let Some(told) = self.preliminary(StageStatus::InProgress, &of).await? else { return Ok(()) };
        let digest = digest(&told)?;
        let ToldStage { id, offer, stage, .. } = of;
        let place = (offer, stage);
        if self.told().get(&place) == Some(&digest) {
            return Ok(());
        }
        let clock = self.engine.clock();
        let sent = clock.served_ms();
        let time = self.parent.result(&id, &place.0, told).await?;
        if let Some(ManagerTime { time_ms: ms, time_error_ms }) = time {
            let told = ManagerInstant { ms, error_ms: time_error_ms.into() };
            self.engine.view().lineage.heard_time(sent, clock.served_ms(), told);
        }
        let mut all_told = self.told();
        if all_told.len() >= MAX_TOLD {
            all_told.clear();
        }
        all_told.insert(place, digest);
        Ok(())
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<(String, u8), u64>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every child is ready to end a stage, or it has failed below and keeps its shares: the parent hears so, with preliminary numbers.
    pub(super) async fn tell_waiting(&self, of: ToldStage) -> Result<(), CallTrouble> {
        if let Some(summary) = self.preliminary(StageStatus::SuccessWaiting, &of).await? {
            self.parent.result(&of.id, &of.offer, summary).await?;
        }
        Ok(())
    }

    /// What the children have reported so far of a stage. `None`: there is no such stage any more.
    async fn preliminary(
        &self,
        status: StageStatus,
        of: &ToldStage,
    ) -> Result<Option<StageSummary>, CallTrouble> {
        let (release, stage, of_failures) = (of.release.clone(), of.stage, of.failures);
        let found = self.engine.read(PATIENCE, move |state| {
            let release = state.release_by_id(release.as_str())?;
            let split = release.strategy.stages.get(usize::from(stage))?.new_traffic;
            let next = release.stage_after(stage).map(str::to_owned);
            let stage = usize::from(stage);
            let begun = release.begun(stage).filter(|_| release.strategy.is_classed());
            let strategy = Some(Arc::clone(&release.strategy));
            let below = Below { slot: StepIndex::stage(stage).0, split, strategy, begun };
            // What is decided meanwhile is not to be told.
            let (failures, why) = match (of_failures, &release.parent) {
                // Who failed so far within the limits of this release.
                (None, _) => (None, release.ending.clone()),
                (Some(_), Some(parent)) => (Some(parent.failures), Some(parent.failed.clone()?)),
                (Some(_), None) => return None,
            };
            Some((release.key.0, below, release.agents(), next, (failures, why)))
        });
        let Some((key, of_stage, agents, next, (failures, why))) = found.await? else { return Ok(None) };
        let told = self.below(key, of_stage).await?.told(status, self.understood());
        let sum = Summary { agents: Some(agents), failures, why, ..told };
        Ok(Some(wire(sum, Some(of.name.clone()), next, self.tells_values())))
    }

    /// The strategy of a release here; `None`: it can't be read.
    async fn strategy_of(&self, release: &ReleaseId) -> Option<Arc<Strategy>> {
        let row = self.engine.reader().release(release.as_str()).await;
        let read = row.and_then(|row| row.as_ref().map(json_columns::strategy_of).transpose());
        let read = read.inspect_err(|error| self.engine.unreadable().note(error));
        read.ok().flatten().map(Arc::new)
    }

    /// What the children reported of a stage, the last attempt of each. Nothing is told while a report among them can't be
    /// read: the parent would judge as if that child had measured nothing.
    async fn below(&self, release: u32, of: Below) -> Result<Subtree, StoreError> {
        let below = self.read_below(release, of).await;
        below.inspect_err(|error| self.engine.unreadable().note(error))
    }

    async fn read_below(&self, release: u32, of: Below) -> Result<Subtree, StoreError> {
        let classes = match &of.begun {
            Some(begun) => Some(self.engine.classes(ReleaseKey(release), begun.clone()).await?),
            None => None,
        };
        let reader = self.engine.reader();
        let (mut after, mut below) = (None, Subtree::default());
        loop {
            let rows = reader.assignments(release, after, MAX_PAGE).await?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(below) };
            let results = reader.stage_results(release, first.child_key, last.child_key).await?;
            let mut latest = BTreeMap::new();
            for row in results {
                if json_columns::slot(&row)? == StepIndex(of.slot) {
                    latest.insert(row.child_key, row);
                }
            }
            let summaries = latest.into_iter().map(|(child, row)| {
                let class = classes.as_ref().and_then(|classes| classes.of(ChildKey(child)));
                Ok((json_columns::summary(&row)?, class))
            });
            below.add(summaries.collect::<Result<_, StoreError>>()?, &of);
            after = Some(last.child_key);
        }
    }
}

/// The stage of which is asked what children reported.
#[derive(Debug)]
struct Below {
    slot: u8,
    /// The percentage of the calls that the new version gets in it.
    split: u8,
    /// Of its release. Without it nothing is told of how the children's splits differ from what was ordered.
    strategy: Option<Arc<Strategy>>,
    /// Times are told apart by the children's classes; how these are found.
    begun: Option<Begun>,
}

/// What children reported of a stage: of each, without its strata, which may be too much to be held at once; and these merged.
#[derive(Debug, Default)]
struct Subtree {
    summaries: Vec<Summary>,
    strata: Strata,
    effects: EffectsTold,
}

impl Subtree {
    fn add(&mut self, summaries: Vec<(Summary, Option<u8>)>, of: &Below) {
        let strata = Strata::classed(summaries.iter().map(|(summary, class)| (summary, *class)), of.split);
        self.strata.merge(&if of.begun.is_some() { strata } else { strata.without_classes() });
        let all = || summaries.iter().map(|(summary, _)| summary);
        self.effects.add(&measured::effects(all(), of.split).unwrap_or_default());
        if let (Some(strategy), Some(index)) = (&of.strategy, StepIndex(of.slot).stage_index()) {
            let each = all().map(|summary| (summary, measured::splits([summary], strategy, index)));
            let splits = Some(measured::dispersion(each)).filter(|found| !found.is_empty());
            self.effects.add(&EffectsTold { splits, ..EffectsTold::default() });
        }
        let bare = |(summary, _)| Summary { strata: Vec::new(), ..summary };
        self.summaries.extend(summaries.into_iter().map(bare));
    }

    /// As one summary.
    fn told(self, status: StageStatus, understood: Understood) -> Summary {
        let whole = aggregate(status, &self.summaries);
        Summary {
            strata: self.strata.told(understood, json_columns::stratum_bytes),
            effects: Some(self.effects).filter(|told| *told != EffectsTold::default()),
            ..whole
        }
    }
}

/// By which it is known that a stage has nothing new to tell.
fn digest(summary: &StageSummary) -> Result<u64, StoreError> {
    let mut hasher = std::hash::DefaultHasher::new();
    json_columns::json(summary)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// `exactly`: the parent understands values; else it is told histograms.
fn wire(
    summary: Summary,
    stage_name: Option<String>,
    next_stage: Option<String>,
    exactly: bool,
) -> StageSummary {
    let (f1_values, f1_histogram) = forms(summary.f1_values, summary.f1_histogram, exactly);
    let (f2_values, f2_histogram) = forms(summary.f2_values, summary.f2_histogram, exactly);

    let agents = summary.agents;
    let count = |count: fn(Agents) -> u32| agents.map(count);
    StageSummary {
        participants: count(|agents| agents.participants),
        succeeded: count(|agents| agents.succeeded),
        failed: count(|agents| agents.failed),
        timed_out: count(|agents| agents.timed_out),
        unreachable: count(|agents| agents.unreachable),
        // Only where there are any.
        untested: agents.map(|agents| agents.untested).filter(|untested| *untested > 0),
        unconfirmed: count(|agents| agents.unconfirmed),
        stage_name,
        proxy_times: times(summary.proxy_times),
        f1_times: times(summary.f1_times_summary),
        f2_times: times(summary.f2_times_summary),
        f1_err_rate: summary.f1_err_rate,
        f2_err_rate: summary.f2_err_rate,
        status: summary.status,
        next_stage,
        recount: summary.recount,
        failures: summary.failures,
        why: summary.why.map(|why| ending(*why)),
        f1_calls: summary.f1_calls,
        f2_calls: summary.f2_calls,
        f1_errors: summary.f1_errors,
        f2_errors: summary.f2_errors,
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        assignment: Some(summary.assignment).filter(|assignment| assignment.is_sticky()),
        strata: summary.strata.into_iter().map(|kept| stratum(kept, exactly)).collect(),
        variations: summary.variations.into_iter().map(variation).collect(),
        effects: summary.effects,
    }
}

fn times(times: summary::Times) -> TimesForm {
    TimesForm { median: times.median, minimum: times.minimum, maximum: times.maximum }
}

fn histogram(histogram: Reported) -> HistogramForm {
    match histogram {
        Reported::Sketch(sketch) => HistogramForm::Sketch(sketch),
        Reported::Bounds(kept) => {
            HistogramForm::Bounds(Buckets { bounds_ms: kept.bounds_ms, counts: kept.counts })
        }
    }
}

/// Times in the one form in which the parent reads them best.
fn forms(
    values: Option<Box<Values>>,
    reported: Option<Box<Reported>>,
    exactly: bool,
) -> (Option<Box<Values>>, Option<HistogramForm>) {
    match values {
        Some(values) if exactly => (Some(values), None),
        Some(values) => (None, Some(HistogramForm::Sketch(values.to_histogram()))),
        None => (None, reported.map(|reported| histogram(*reported))),
    }
}

fn stratum(kept: summary::Stratum, exactly: bool) -> StratumForm {
    let (f1_values, f1_histogram) = forms(kept.f1_values, kept.f1_histogram, exactly);
    let (f2_values, f2_histogram) = forms(kept.f2_values, kept.f2_histogram, exactly);
    StratumForm {
        split: kept.split,
        interval: kept.interval,
        assignment: kept.assignment,
        group: kept.group,
        class: kept.class,
        f1_calls: kept.f1_calls,
        f2_calls: kept.f2_calls,
        f1_errors: kept.f1_errors,
        f2_errors: kept.f2_errors,
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
    }
}

fn variation(kept: summary::Variation) -> VariationForm {
    let stratum = |kept: summary::VariationStratum| {
        let summary::VariationStratum { interval, group, calls, errors } = kept;
        VariationStratumForm { interval, group, calls, errors }
    };
    VariationForm {
        name: kept.name,
        calls: kept.calls,
        errors: kept.errors,
        histogram: kept.histogram.map(|reported| histogram(*reported)),
        strata: kept.strata.into_iter().map(stratum).collect(),
    }
}

fn ending(kept: Ending) -> Why {
    let Ending { cause, text, child, stage, version, numbers, by, note } = kept;
    let why = Why { cause: cause.name().to_owned(), text, child, stage, version, numbers, by, note };
    why.fitted()
}
