//! From rows to the state, at the start and when a release is recalled.
//!
//! A member without a row has not acted: it is as the release's facts make it. A row knows how many facts were
//! folded into it; the rest is folded now.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    json_columns::{self, AssignmentDetail, ChildDetail, bad},
    members::{self, PackedPart},
    rows::TOMBSTONE,
};
use domain::{
    children::{
        Child, Deployment, Profile, Variant,
        registration::{Live, Registration},
    },
    plan::Shape,
    release::{
        assignment::{
            Assignment, FunctionSet, InPlace, ManagementMode, Rare, RareSteps, ReceivedResults, ResultDigest,
            StepIndex, Stepwise, Whole,
        },
        assignments::Assignments,
        gate::{Gates, WavePlan},
        parent,
        state::{KeptCover, Release, ReleaseRecord, Snapshot, State},
    },
    traffic::Router,
    workflows::{Part, Workflow, WorkflowKey},
};
use model::{ChildId, ChildKey, ChildKind, ChildStatus, Now, Outcome, ReleaseId, ReleaseKey, StageStatus};
use store::{
    Loader, ReleaseHead, StoreError,
    rows::{
        AnalysisRunRow, AssignmentRow, ChildRow, DeploymentRow, LedServiceRow, MembersRow, OutboxRow,
        PointerRow, ReleaseRow, RouterOrderRow, RouterRow, SettingRow, StageResultRow, WorkflowPartRow,
        WorkflowRow,
    },
};

pub(super) fn digest(
    table: &'static str,
    key: u32,
    column: &'static str,
    bytes: &[u8],
) -> Result<[u8; 32], StoreError> {
    bytes.try_into().map_err(|_| bad(table, key, column, "not 32 bytes"))
}

/// Takes a store's rows in; then [`Loading::finish`].
#[derive(Debug)]
pub(super) struct Loading {
    state: State,
    releases: BTreeMap<ReleaseKey, Building>,
    routers: BTreeMap<ChildKey, Router>,
    workflows: BTreeMap<WorkflowKey, (Workflow, Vec<Arc<Part>>)>,
    beside: Beside,
}

/// What is not of the state.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub outbox: Vec<OutboxRow>,
    pub settings: Vec<SettingRow>,
    pub pointers: Vec<PointerRow>,
    /// What can't be read, and of which everything else is known.
    pub unreadable: Vec<StoreError>,
}

impl Loading {
    pub fn new(state: State) -> Self {
        Self {
            state,
            releases: BTreeMap::new(),
            routers: BTreeMap::new(),
            workflows: BTreeMap::new(),
            beside: Beside::default(),
        }
    }

    /// The state, complete.
    /// `served_ms`: the serving time.
    pub fn finish(mut self, served_ms: u64) -> (State, Beside) {
        for building in self.releases.into_values() {
            let release = building.finish(&self.state);
            self.state.hold(release);
        }
        for (child, router) in self.routers {
            self.state.hold_router(child, router);
        }
        for (workflow, parts) in self.workflows.into_values() {
            self.state.hold_workflow(workflow, parts);
        }
        self.state.recheck_all(served_ms);
        (self.state, self.beside)
    }

    fn building(&mut self, key: u32, table: &'static str) -> Result<&mut Building, StoreError> {
        self.releases
            .get_mut(&ReleaseKey(key))
            .ok_or_else(|| bad(table, key, "release_key", "there is no such open release"))
    }
}

impl Loader for Loading {
    fn child(&mut self, row: ChildRow) -> Result<(), StoreError> {
        let key = ChildKey(row.child_key);
        if row.id.starts_with(TOMBSTONE) {
            self.state.children.reserve(key);
            return Ok(());
        }
        let record = child(row)?;
        self.state.hold_child(key, record);
        if has_bad_area(&self.state, key) {
            let why = "it is no area; where the child is isn't known until it calls";
            self.beside.unreadable.push(bad("children", key.0, "area", why));
        }
        Ok(())
    }

    fn release(&mut self, row: ReleaseHead) -> Result<(), StoreError> {
        self.state.next_release = self.state.next_release.max(row.release_key + 1);
        if row.id.starts_with(TOMBSTONE) {
            return Ok(());
        }
        let id = ReleaseId::parse(&row.id).map_err(|e| bad("releases", row.release_key, "id", e))?;
        let digest = digest("releases", row.release_key, "digest", &row.digest)?;
        self.state.known.insert(id, ReleaseRecord { key: ReleaseKey(row.release_key), digest });
        Ok(())
    }

    fn open_release(&mut self, row: ReleaseRow) -> Result<(), StoreError> {
        let building = Building::new(row)?;
        self.releases.insert(building.release.key, building);
        Ok(())
    }

    fn members(&mut self, row: MembersRow) -> Result<(), StoreError> {
        self.building(row.release_key, "members")?.members(&row)
    }

    fn assignment(&mut self, row: AssignmentRow) -> Result<(), StoreError> {
        self.building(row.release_key, "assignments")?.assignment(&row)
    }

    fn stage_result(&mut self, row: StageResultRow) -> Result<(), StoreError> {
        self.building(row.release_key, "stage_results")?.stage_result(&row)
    }

    fn analysis_run(&mut self, row: AnalysisRunRow) -> Result<(), StoreError> {
        self.building(row.release_key, "analysis_runs")?.analysis_run(&row)
    }

    fn deployment(&mut self, row: DeploymentRow) -> Result<(), StoreError> {
        let variant = Variant::named(&row.variant).ok_or_else(|| {
            bad("deployments", row.child_key, "variant", format!("{:?} is none", row.variant))
        })?;
        let deployment = Deployment { release: ReleaseKey(row.release_key), variant };
        self.state.hold_deployment(
            ChildKey(row.child_key),
            &row.function,
            deployment,
            row.content.map(i64::cast_unsigned),
        );
        Ok(())
    }

    fn outbox(&mut self, row: OutboxRow) -> Result<(), StoreError> {
        self.beside.outbox.push(row);
        Ok(())
    }

    fn setting(&mut self, row: SettingRow) -> Result<(), StoreError> {
        self.beside.settings.push(row);
        Ok(())
    }

    fn pointer(&mut self, row: PointerRow) -> Result<(), StoreError> {
        self.beside.pointers.push(row);
        Ok(())
    }

    // Whoever leads a router says all of it again.
    fn router(&mut self, row: RouterRow) -> Result<(), StoreError> {
        match json_columns::traffic::router(row) {
            Ok((child, router)) => drop(self.routers.insert(child, router)),
            Err(error) => self.beside.unreadable.push(error),
        }
        Ok(())
    }

    fn led_service(&mut self, row: LedServiceRow) -> Result<(), StoreError> {
        let (child, place, service) = match json_columns::traffic::service(row) {
            Ok(read) => read,
            Err(error) => {
                self.beside.unreadable.push(error);
                return Ok(());
            }
        };
        if let Some(router) = self.routers.get_mut(&child) {
            if router.services.len() <= place {
                router.services.resize(place + 1, None);
            }
            router.services[place] = service.map(Arc::new);
        }
        Ok(())
    }

    fn router_order(&mut self, row: RouterOrderRow) -> Result<(), StoreError> {
        match json_columns::traffic::order(&row) {
            Ok((child, order)) => {
                if let Some(router) = self.routers.get_mut(&child) {
                    router.orders.push(Arc::new(order));
                }
            }
            Err(error) => self.beside.unreadable.push(error),
        }
        Ok(())
    }

    fn workflow(&mut self, row: WorkflowRow) -> Result<(), StoreError> {
        let workflow = json_columns::workflows::workflow(row)?;
        self.workflows.insert(workflow.key, (workflow, Vec::new()));
        Ok(())
    }

    fn workflow_part(&mut self, row: WorkflowPartRow) -> Result<(), StoreError> {
        let (_, part) = json_columns::workflows::part(&row)?;
        let none = || bad("workflow_parts", row.part_key, "workflow_key", "there is no such workflow");
        let (_, parts) = self.workflows.get_mut(&part.workflow).ok_or_else(none)?;
        parts.push(Arc::new(part));
        Ok(())
    }
}

fn child(row: ChildRow) -> Result<Child, StoreError> {
    let key = row.child_key;
    let detail: ChildDetail = json_columns::read("children", key, "detail", &row.detail)?;
    let kind = ChildKind::named(&row.kind)
        .ok_or_else(|| bad("children", key, "kind", format!("{:?} is none", row.kind)))?;
    let profile = Profile { name: row.name, kind, capabilities: detail.capabilities };
    let registration = Registration {
        id: ChildId::parse(&row.id).map_err(|e| bad("children", key, "id", e))?,
        key: ChildKey(key),
        area: row.area.map(Into::into),
        agents: row.agents,
        address: detail.address,
        profile: (!detail.plain).then(|| Box::new(profile)),
        live: Live::default(),
    };
    let born = Now { wall_ms: row.born_ms, served_ms: detail.born_served_ms };
    Ok(Child {
        called_again: detail.called_again,
        unproven: detail.unproven,
        replaced: detail.replaced.map(Box::new),
        cordon: detail.cordon,
        labels: (!detail.labels.is_empty()).then(|| Box::new(detail.labels)),
        ..Child::new(registration, born)
    })
}

/// Whether an area of a child is stored that can't be read. Then it is kept as it is until the child names its area
/// again, which every call does; until then it is a child whose area isn't known, and no release that goes by location
/// takes it in. To refuse the start, or such releases, would let one row of a child that may never call again stop all.
fn has_bad_area(state: &State, key: ChildKey) -> bool {
    let area = state.children.get(key).and_then(|child| child.area.as_deref());
    area.is_some_and(|area| match state.children.areas().get(key) {
        Some(entry) => entry.bounds().is_none(),
        // Nobody plans with one whose place another has taken.
        None => Shape::read(area).is_none(),
    })
}

/// A release whose rows come in one after the other.
#[derive(Debug, Clone)]
pub(super) struct Building {
    pub release: Release,
    members: Vec<(ChildKey, PackedPart)>,
    rows: BTreeMap<ChildKey, Assignment>,
}

impl Building {
    pub fn new(row: ReleaseRow) -> Result<Self, StoreError> {
        let key = row.release_key;
        let detail = json_columns::release_detail(key, &row.detail)?;
        let strategy = json_columns::strategy_of(&row)?.with_contents(&detail.contents);
        let strategy = if detail.parent.is_some() { parent::led(strategy) } else { strategy };
        let gates = Gates { stand: detail.stand, ..Gates::new(&strategy, detail.parent.is_some()) };
        let release = Release {
            key: ReleaseKey(key),
            id: ReleaseId::parse(&row.id).map_err(|e| bad("releases", key, "id", e))?,
            strategy: Arc::new(strategy),
            text: row.strategy.into(),
            digest: digest("releases", key, "digest", &row.digest)?,
            archive: digest("releases", key, "archive", &row.archive)?,
            parent: detail.parent,
            adopts: detail.adopts,
            state: detail.state,
            revision: detail.revision,
            acted: detail.acted,
            clock: detail.clock,
            facts: detail.facts,
            submitted: detail.submitted,
            deferred: detail.deferred,
            overtakes: detail.overtakes,
            started: detail.started,
            started_at: detail.started_at,
            ended: detail.ended,
            ending: detail.ending,
            first_fault: detail.first_fault,
            failed_undo: None,
            attempt: detail.attempt,
            members: Arc::new([]),
            excluded: detail.excluded,
            assignments: Assignments::default(),
            counts: domain::release::state::Counts::default(),
            managers: detail.managers.into_iter().collect(),
            left_out: detail.left_out,
            asking: None,
            joined: 0,
            turns: WavePlan::default(),
            gates,
            accepted: detail.accepted,
            runs: Arc::default(),
            failed: detail.failed,
            times: detail.times,
            next_deadline: 0,
            sweep: None,
            is_part: false,
            cover: KeptCover::default(),
        };
        Ok(Self { release, members: Vec::new(), rows: BTreeMap::new() })
    }

    pub fn members(&mut self, row: &MembersRow) -> Result<(), StoreError> {
        let members = json_columns::members(row)?;
        let parts = members::unpack_parts(&row.waves, members.len()).ok_or_else(|| {
            let key = format!("({}, {})", row.release_key, row.slice);
            bad("members", key, "waves", "not one for each member")
        })?;
        self.members.extend(members.into_iter().zip(parts));
        Ok(())
    }

    /// The members that came in so far, in order of number: it has none then.
    pub fn take_members(&mut self) -> Vec<(ChildKey, PackedPart)> {
        let mut members = std::mem::take(&mut self.members);
        members.sort_unstable_by_key(|(key, _)| *key);
        members
    }

    /// The same with these members more.
    pub fn with_members(&self, members: impl Iterator<Item = (ChildKey, PackedPart)>) -> Self {
        let mut with = self.clone();
        with.members.extend(members);
        with
    }

    /// Forgets all members but one, if that is a member.
    pub fn keep_member(&mut self, child: ChildKey) {
        self.members.retain(|(member, _)| *member == child);
    }

    /// Forgets all children but the first `limit` after `after`, and answers the last of these if there are more.
    /// The rows that came in must be the first `limit` after `after`, or all there are.
    pub fn keep_page(&mut self, after: Option<ChildKey>, limit: usize) -> Option<ChildKey> {
        let is_after = |key: &ChildKey| after.is_none_or(|after| *key > after);
        let mut keys: Vec<ChildKey> = self.rows.keys().copied().filter(is_after).collect();
        let full = keys.len() >= limit;
        keys.extend(self.members.iter().map(|(member, _)| *member).filter(is_after));
        keys.sort_unstable();
        keys.dedup();
        let more = keys.len() > limit || full;
        keys.truncate(limit);
        let last = keys.last().copied();
        let is_kept = |key: &ChildKey| is_after(key) && last.is_some_and(|last| *key <= last);
        self.members.retain(|(member, _)| is_kept(member));
        self.rows.retain(|key, _| is_kept(key));
        last.filter(|_| more)
    }

    pub fn assignment(&mut self, row: &AssignmentRow) -> Result<(), StoreError> {
        let key = || format!("({}, {})", row.release_key, row.child_key);
        let detail: AssignmentDetail = json_columns::read("assignments", key(), "detail", &row.detail)?;
        let small = |column, value: i16| {
            u8::try_from(value).map_err(|_| bad("assignments", key(), column, "out of range"))
        };
        let status = ChildStatus::from_number(row.status)
            .ok_or_else(|| bad("assignments", key(), "status", "no such status"))?;
        let stage_status = StageStatus::from_wire(small("stage_status", row.stage_status)?.into())
            .ok_or_else(|| bad("assignments", key(), "stage_status", "no such status"))?;
        let outcome = match row.outcome.as_deref() {
            None => None,
            Some(name) => Some(
                Outcome::named(name, detail.excluded)
                    .ok_or_else(|| bad("assignments", key(), "outcome", format!("{name:?} is none")))?,
            ),
        };
        let attempt =
            u16::try_from(row.attempt).map_err(|_| bad("assignments", key(), "attempt", "out of range"))?;
        let rare = Rare {
            undo: detail.undo.map(Box::new),
            successor: detail.successor,
            displaced: detail.displaced,
            predecessor: detail.predecessor,
            joined: detail.joined,
            kept: detail.kept,
        };
        let led = if let Some(manager) = detail.manager {
            ManagementMode::Whole(Box::new(Whole { rare, ..manager }))
        } else if detail.in_place {
            ManagementMode::InPlace(Box::new(InPlace { admitted: detail.admitted, idle: detail.idle, rare }))
        } else {
            let (passed, idle, lacks) = (detail.passed, detail.idle, detail.lacks);
            let rare = RareSteps { rare, passed, idle, lacks }.into();
            ManagementMode::Stepwise(Stepwise { piece: detail.piece, admitted: detail.admitted, rare })
        };
        let assignment = Assignment {
            status,
            outcome,
            attempt,
            named: detail.named,
            led,
            fetched: detail.fetched,
            wave: detail.wave,
            slot: StepIndex(small("stage", row.stage)?),
            stage_status,
            since: detail.since,
            stage_since: detail.stage_since,
            polls: detail.polls,
            tainted: detail.tainted,
            rolled_out: detail.rolled_out,
            facts: detail.facts,
            heard: (!detail.late.is_empty())
                .then(|| Box::new(ReceivedResults { marks: Vec::new(), late: detail.late })),
        };
        self.rows.insert(ChildKey(row.child_key), assignment);
        Ok(())
    }

    /// Results come in the order of their attempts and stages.
    pub fn stage_result(&mut self, row: &StageResultRow) -> Result<(), StoreError> {
        let (status, slot, attempt) =
            (json_columns::stage_status(row)?, json_columns::slot(row)?, json_columns::attempt(row)?);
        if let Some(assignment) = self.rows.get_mut(&ChildKey(row.child_key)).filter(|_| status.is_over()) {
            let digest = row.digest.cast_unsigned();
            assignment.heard_mut().marks.push(ResultDigest { attempt, slot, status, digest });
        }
        Ok(())
    }

    pub fn analysis_run(&mut self, row: &AnalysisRunRow) -> Result<(), StoreError> {
        Arc::make_mut(&mut self.release.runs).push(json_columns::run(row)?);
        Ok(())
    }

    /// The release with all its assignments, every fact folded in.
    pub fn finish(mut self, state: &Snapshot) -> Release {
        let strategy = Arc::clone(&self.release.strategy);
        // Who has not acted is in the last wave that was opened, or in one that is not.
        let stand = self.release.gates.stand;
        let since = |wave: u32| if wave < stand.waves { stand.opened } else { self.release.started_at };
        let mut assignments: BTreeMap<ChildKey, Assignment> = self
            .members
            .iter()
            .filter(|(key, _)| self.rows.contains_key(key) || state.children.get(*key).is_some())
            .map(|(key, PackedPart { wave, lacks, in_place })| {
                let (lacks, at) = (FunctionSet(*lacks), self.release.started_at);
                let part = self.release.fresh_part(*key, *in_place, lacks, at);
                (*key, Assignment { wave: *wave, since: since(*wave), ..part })
            })
            .collect();
        assignments.append(&mut self.rows);
        for assignment in assignments.values_mut() {
            for dated in self.release.facts.iter().skip(usize::from(assignment.facts)) {
                assignment.fold(dated, &strategy, &self.release.gates.levels);
            }
        }
        let waves = self.members.into_iter().map(|(key, part)| (key, part.wave));
        let (members, waves): (Vec<ChildKey>, Vec<u32>) = waves.unzip();
        let joined = assignments.iter().filter(|(_, assignment)| assignment.rare().joined.is_some());
        let joined: Vec<(ChildKey, u32)> = joined.map(|(key, assignment)| (*key, assignment.wave)).collect();
        self.release.joined = joined.len() as u32;
        let turns = members.iter().copied().zip(waves).chain(joined);
        let (order, waves): (Vec<ChildKey>, Vec<u32>) = turns.unzip();
        let turns = WavePlan::new(&order, &waves, self.release.managers.by_key());
        self.release.members = members.into();
        self.release.assignments = assignments.into_iter().collect();
        self.release.turns = turns.parted(self.release.first_of_routers());
        self.release.recount();
        self.release
    }
}
