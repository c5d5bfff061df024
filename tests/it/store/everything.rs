//! All that a store holds: once as a model that batches are applied to, once as read back through the port.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use bytes::Bytes;
use store::{
    AuditFilter, DeploymentFilter, Loader, MAX_PAGE, Reader, ReleaseFilter, ReleaseHead, ServiceFilter,
    StoreError, TrafficFilter, Writer,
    rows::{
        AnalysisRunRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, LedServiceRow, MembersRow,
        OutboxRow, PointerRow, PrecedentRow, RegisteredRow, ReleaseRow, RouterOrderRow, RouterRow,
        ServiceReleaseRow, SettingRow, StageResultRow, TrafficHistoryRow, UserRow, WorkflowPartRow,
        WorkflowRow, Writes,
    },
};

#[derive(Debug, Default, PartialEq)]
pub struct Everything {
    pub children: BTreeMap<u32, ChildRow>,
    pub releases: BTreeMap<u32, ReleaseRow>,
    pub archives: BTreeMap<Vec<u8>, Bytes>,
    pub members: BTreeMap<(u32, u32), MembersRow>,
    pub assignments: BTreeMap<(u32, u32), AssignmentRow>,
    pub stage_results: BTreeMap<(u32, u32, i16, i16), StageResultRow>,
    pub analysis_runs: BTreeMap<(u32, i16), AnalysisRunRow>,
    pub precedents: BTreeMap<(String, u32), PrecedentRow>,
    pub deployments: BTreeMap<(String, u32), DeploymentRow>,
    pub audit: BTreeMap<(u64, u32), AuditRow>,
    pub outbox: BTreeMap<u64, OutboxRow>,
    pub settings: BTreeMap<String, SettingRow>,
    pub pointers: BTreeMap<u64, PointerRow>,
    /// By id.
    pub users: BTreeMap<(String, String), UserRow>,
    pub registered: BTreeMap<String, RegisteredRow>,
    pub service_releases: BTreeMap<u32, ServiceReleaseRow>,
    pub routers: BTreeMap<u32, RouterRow>,
    pub led_services: BTreeMap<(u32, i16), LedServiceRow>,
    pub router_orders: BTreeMap<(u32, i16), RouterOrderRow>,
    pub traffic_history: BTreeMap<(u64, u32), TrafficHistoryRow>,
    pub workflows: BTreeMap<u32, WorkflowRow>,
    pub workflow_parts: BTreeMap<u32, WorkflowPartRow>,
}

impl Everything {
    /// What a batch does, as the port promises it.
    pub fn apply(&mut self, writes: &Writes) {
        for key in &writes.children_gone {
            self.children.remove(key);
            self.deployments.retain(|(_, child), _| child != key);
            self.routers.remove(key);
            self.led_services.retain(|(child, _), _| child != key);
            self.router_orders.retain(|(child, _), _| child != key);
        }
        for key in &writes.workflows_gone {
            self.workflows.remove(key);
            self.workflow_parts.retain(|_, part| part.workflow_key != *key);
        }
        self.children.extend(writes.children.iter().map(|row| (row.child_key, row.clone())));
        for (key, seen_ms) in &writes.seen {
            if let Some(child) = self.children.get_mut(key) {
                child.seen_ms = *seen_ms;
            }
        }
        self.releases.extend(writes.releases.iter().map(|row| (row.release_key, row.clone())));
        for row in &writes.archives {
            self.archives.entry(row.digest.clone()).or_insert_with(|| row.bytes.clone());
        }
        self.members.extend(writes.members.iter().map(|row| ((row.release_key, row.slice), row.clone())));
        self.assignments
            .extend(writes.assignments.iter().map(|row| ((row.release_key, row.child_key), row.clone())));
        self.stage_results.extend(
            writes
                .stage_results
                .iter()
                .map(|row| ((row.release_key, row.child_key, row.attempt, row.stage), row.clone())),
        );
        self.analysis_runs
            .extend(writes.analysis_runs.iter().map(|row| ((row.release_key, row.block), row.clone())));
        self.precedents.extend(
            writes.precedents.iter().map(|row| ((row.function.clone(), row.release_key), row.clone())),
        );
        self.deployments.extend(
            writes.deployments.iter().map(|row| ((row.function.clone(), row.child_key), row.clone())),
        );
        self.audit.extend(writes.audit.iter().map(|row| ((row.seq, row.idx), row.clone())));
        self.outbox.extend(writes.outbox.iter().map(|row| (row.id, row.clone())));
        for id in &writes.outbox_done {
            self.outbox.remove(id);
        }
        self.settings.extend(writes.settings.iter().map(|row| (row.name.clone(), row.clone())));
        self.pointers.extend(writes.pointers.iter().map(|row| (row.pointer_key, row.clone())));
        // The first row stays.
        for row in &writes.users {
            self.users.entry((row.tenant.clone(), row.name.clone())).or_insert_with(|| row.clone());
        }
        self.registered.extend(writes.registered.iter().map(|row| (row.id.clone(), row.clone())));
        self.service_releases
            .extend(writes.service_releases.iter().map(|row| (row.release_key, row.clone())));
        for key in &writes.pointers_gone {
            self.pointers.remove(key);
        }
        self.routers.extend(writes.routers.iter().map(|row| (row.child_key, row.clone())));
        self.led_services
            .extend(writes.led_services.iter().map(|row| ((row.child_key, row.place), row.clone())));
        self.router_orders
            .extend(writes.router_orders.iter().map(|row| ((row.child_key, row.place), row.clone())));
        self.traffic_history
            .extend(writes.traffic_history.iter().map(|row| ((row.seq, row.idx), row.clone())));
        self.workflows.extend(writes.workflows.iter().map(|row| (row.workflow_key, row.clone())));
        self.workflow_parts.extend(writes.workflow_parts.iter().map(|row| (row.part_key, row.clone())));
    }

    /// Reads the store through [`Writer::load`] and every method of [`Reader`]. Archives, and rows of releases that
    /// have no row themselves, can't be listed through the port: `known` has the keys to ask for.
    pub async fn read(writer: &mut dyn Writer, reader: &dyn Reader, known: &Self) -> Self {
        let mut loaded = Loaded::default();
        writer.load(&mut loaded).await.unwrap();
        let mut found = Self {
            children: loaded.children.clone(),
            outbox: loaded.outbox.clone(),
            settings: loaded.settings.clone(),
            pointers: loaded.pointers.clone(),
            routers: loaded.routers.clone(),
            led_services: loaded.led_services.clone(),
            router_orders: loaded.router_orders.clone(),
            workflows: loaded.workflows.clone(),
            workflow_parts: loaded.workflow_parts.clone(),
            ..Self::default()
        };
        for head in &loaded.heads {
            let row = reader.release(&head.id).await.unwrap().unwrap();
            assert_eq!((row.release_key, row.open, &row.digest), (head.release_key, head.open, &head.digest));
            found.releases.insert(row.release_key, row);
        }
        found.read_releases(reader, known).await;
        loaded.check_against(&found);
        for digest in known.archives.keys() {
            if let Some(bytes) = reader.archive(digest).await.unwrap() {
                found.archives.insert(digest.clone(), bytes);
            }
        }
        found.read_services(reader, known).await;
        found.read_precedents(reader, known).await;
        found.read_deployments(reader).await;
        assert_eq!(loaded.deployments, found.deployments);
        found.read_audit(reader).await;
        found.read_traffic(reader).await;
        found
    }

    /// Rows one by one, and each list in pages of two.
    async fn read_services(&mut self, reader: &dyn Reader, known: &Self) {
        for tenant in ["t", "u"] {
            let mut after = String::new();
            loop {
                let page = reader.users(tenant, &after, 2).await.unwrap();
                assert!(page.is_sorted_by_key(|row| row.name.clone()));
                let Some(last) = page.last() else { break };
                after.clone_from(&last.name);
                self.users.extend(page.into_iter().map(|row| ((row.tenant.clone(), row.name.clone()), row)));
            }
        }
        for id in known.registered.keys() {
            self.registered.extend(reader.registered_one(id).await.unwrap().map(|row| (id.clone(), row)));
        }
        for kind in ["environment", "version", "release"] {
            let (mut listed, mut after): (Vec<RegisteredRow>, String) = (Vec::new(), String::new());
            loop {
                let page = reader.registered("t", kind, &after, 2).await.unwrap();
                let Some(last) = page.last() else { break };
                after.clone_from(&last.name);
                listed.extend(page);
            }
            let there = |row: &&RegisteredRow| row.kind == kind && row.removed_ms.is_none();
            let mut expected: Vec<&RegisteredRow> = self.registered.values().filter(there).collect();
            expected.sort_by_key(|row| &row.name);
            assert!(listed.iter().eq(expected), "the list of {kind} differs from the single reads");
        }
        let mut filter = ServiceFilter { tenant: Some("t".to_owned()), limit: 2, ..ServiceFilter::default() };
        loop {
            let page = reader.service_releases(&filter).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.before = Some(last.release_key);
            for row in page {
                assert_eq!(reader.service_release(&row.id).await.unwrap(), Some(row.clone()));
                self.service_releases.insert(row.release_key, row);
            }
        }
        if let Some(row) = self.service_releases.values().next() {
            let environment_id = Some(row.environment_id.clone());
            let of =
                ServiceFilter { tenant: Some("t".to_owned()), before: None, environment_id, limit: 1_000 };
            let listed = reader.service_releases(&of).await.unwrap();
            let same = |other: &&ServiceReleaseRow| other.environment_id == row.environment_id;
            assert!(listed.iter().eq(self.service_releases.values().rev().filter(same)));
        }
    }

    /// In pages of two.
    async fn read_releases(&mut self, reader: &dyn Reader, known: &Self) {
        let mut listed = Vec::new();
        let mut filter = ReleaseFilter { limit: 2, ..ReleaseFilter::default() };
        loop {
            let page = reader.releases(&filter).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.before = Some(last.release_key);
            listed.extend(page);
        }
        assert!(listed.iter().eq(self.releases.values().rev()), "the list differs from the single reads");
        let mut keys: BTreeSet<u32> = known.members.keys().map(|key| key.0).collect();
        keys.extend(known.assignments.keys().map(|key| key.0));
        keys.extend(known.stage_results.keys().map(|key| key.0));
        keys.extend(known.analysis_runs.keys().map(|key| key.0));
        for release_key in keys {
            for row in reader.members(release_key).await.unwrap() {
                self.members.insert((row.release_key, row.slice), row);
            }
            for row in reader.analysis_runs(release_key).await.unwrap() {
                self.analysis_runs.insert((row.release_key, row.block), row);
            }
            let mut after = None;
            loop {
                let page = reader.assignments(release_key, after, 2).await.unwrap();
                let Some(last) = page.last() else { break };
                after = Some(last.child_key);
                for row in page {
                    let one = reader.assignment(release_key, row.child_key).await.unwrap();
                    assert_eq!(one.as_ref(), Some(&row));
                    self.assignments.insert((row.release_key, row.child_key), row);
                }
            }
            for row in reader.stage_results(release_key, 0, u32::MAX).await.unwrap() {
                let key = (row.release_key, row.child_key, row.attempt, row.stage);
                self.stage_results.insert(key, row);
            }
        }
    }

    /// Each at the instant when it ended: the last until then, and the last but itself. So two of those that ended at
    /// the same instant are told, and a third is not, nor is any that was taken back: these are believed.
    async fn read_precedents(&mut self, reader: &dyn Reader, known: &Self) {
        let nobody = (0..u32::MAX).find(|key| known.precedents.keys().all(|(_, of)| of != key)).unwrap();
        for (key, row) in &known.precedents {
            let Some(ended_ms) = row.ended_ms else {
                self.precedents.insert(key.clone(), row.clone());
                continue;
            };
            let of_function = known.precedents.values().filter(|other| other.function == row.function);
            let until = of_function.filter(|other| other.ended_ms.is_some_and(|at| at <= ended_ms));
            let mut until: Vec<_> = until.collect();
            until.sort_by_key(|other| Reverse((other.ended_ms, other.release_key)));
            let told = reader.precedent(&row.function, ended_ms, nobody).await.unwrap();
            assert_eq!(told.as_ref(), until.first().copied());
            let told_but = reader.precedent(&row.function, ended_ms, row.release_key).await.unwrap();
            let but = until.iter().find(|other| other.release_key != row.release_key);
            assert_eq!(told_but.as_ref(), but.copied());
            for found in told.into_iter().chain(told_but) {
                self.precedents.insert((found.function.clone(), found.release_key), found);
            }
            if !until[..until.len().min(2)].contains(&row) {
                self.precedents.insert(key.clone(), row.clone());
            }
        }
    }

    async fn read_deployments(&mut self, reader: &dyn Reader) {
        let mut filter = DeploymentFilter { limit: 2, ..DeploymentFilter::default() };
        loop {
            let page = reader.deployments(&filter).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some((last.function.clone(), last.child_key));
            for row in page {
                for (function, child_key) in [
                    (Some(row.function.clone()), None),
                    (None, Some(row.child_key)),
                    (Some(row.function.clone()), Some(row.child_key)),
                ] {
                    let of = DeploymentFilter { function, child_key, after: None, limit: 1000 };
                    assert!(reader.deployments(&of).await.unwrap().contains(&row), "{of:?} lacks {row:?}");
                }
                self.deployments.insert((row.function.clone(), row.child_key), row);
            }
        }
    }

    async fn read_audit(&mut self, reader: &dyn Reader) {
        let mut filter = AuditFilter { limit: 2, ..AuditFilter::default() };
        loop {
            let page = reader.audit(&filter).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some((last.seq, last.idx));
            self.audit.extend(page.into_iter().map(|row| ((row.seq, row.idx), row)));
        }
        assert_eq!(reader.audit_end().await.unwrap(), self.audit.keys().next_back().copied());
        for release_key in 0..6 {
            // A slow machine commits more than a page has room for while a copy is made.
            let of =
                AuditFilter { release_key: Some(release_key), limit: MAX_PAGE, ..AuditFilter::default() };
            let wanted = self.audit.values().filter(|row| row.release_key == Some(release_key));
            assert!(reader.audit(&of).await.unwrap().iter().eq(wanted.take(MAX_PAGE as usize)));
        }
    }
}

impl Everything {
    /// In pages of two, newest first; then by release and by service.
    async fn read_traffic(&mut self, reader: &dyn Reader) {
        let mut filter = TrafficFilter { limit: 2, ..TrafficFilter::default() };
        loop {
            let page = reader.traffic_history(filter).await.unwrap();
            assert!(page.is_sorted_by_key(|row| Reverse((row.seq, row.idx))));
            let Some(last) = page.last() else { break };
            filter.before = Some((last.seq, last.idx));
            self.traffic_history.extend(page.into_iter().map(|row| ((row.seq, row.idx), row)));
        }
        for row in self.traffic_history.values() {
            for (release_key, service) in
                [(row.release_key, None), (None, Some(&*row.service)), (row.release_key, Some(&*row.service))]
            {
                let of = TrafficFilter { release_key, service, limit: MAX_PAGE, before: None };
                let wanted = self.traffic_history.values().rev().filter(|row| {
                    release_key.is_none_or(|key| row.release_key == Some(key))
                        && service.is_none_or(|service| row.service == service)
                });
                let found = reader.traffic_history(of).await.unwrap();
                assert!(found.iter().eq(wanted.take(MAX_PAGE as usize)));
            }
        }
    }
}

/// What [`Writer::load`] hands over.
#[derive(Debug, Default)]
pub struct Loaded {
    pub children: BTreeMap<u32, ChildRow>,
    pub heads: Vec<ReleaseHead>,
    pub open: Vec<ReleaseRow>,
    pub members: Vec<MembersRow>,
    pub assignments: BTreeMap<(u32, u32), AssignmentRow>,
    pub stage_results: Vec<StageResultRow>,
    pub analysis_runs: Vec<AnalysisRunRow>,
    pub deployments: BTreeMap<(String, u32), DeploymentRow>,
    pub outbox: BTreeMap<u64, OutboxRow>,
    pub settings: BTreeMap<String, SettingRow>,
    pub pointers: BTreeMap<u64, PointerRow>,
    pub routers: BTreeMap<u32, RouterRow>,
    pub led_services: BTreeMap<(u32, i16), LedServiceRow>,
    pub router_orders: BTreeMap<(u32, i16), RouterOrderRow>,
    pub workflows: BTreeMap<u32, WorkflowRow>,
    pub workflow_parts: BTreeMap<u32, WorkflowPartRow>,
}

impl Loaded {
    /// Of releases the open ones, of all else in `found` what belongs to them.
    fn check_against(&self, found: &Everything) {
        let open = |key: &u32| found.releases.get(key).is_some_and(|row| row.open);
        assert!(self.heads.is_sorted_by_key(|head| head.release_key));
        assert!(self.open.iter().eq(found.releases.values().filter(|row| row.open)));
        assert!(self.members.iter().eq(found.members.values().filter(|row| open(&row.release_key))));
        assert!(
            self.assignments.values().eq(found.assignments.values().filter(|row| open(&row.release_key)))
        );
        assert!(
            self.stage_results.iter().eq(found.stage_results.values().filter(|row| open(&row.release_key)))
        );
        assert!(
            self.analysis_runs.iter().eq(found.analysis_runs.values().filter(|row| open(&row.release_key)))
        );
    }
}

impl Loader for Loaded {
    fn child(&mut self, row: ChildRow) -> Result<(), StoreError> {
        self.children.insert(row.child_key, row);
        Ok(())
    }
    fn release(&mut self, row: ReleaseHead) -> Result<(), StoreError> {
        self.heads.push(row);
        Ok(())
    }
    fn open_release(&mut self, row: ReleaseRow) -> Result<(), StoreError> {
        self.open.push(row);
        Ok(())
    }
    fn members(&mut self, row: MembersRow) -> Result<(), StoreError> {
        self.members.push(row);
        Ok(())
    }
    fn assignment(&mut self, row: AssignmentRow) -> Result<(), StoreError> {
        self.assignments.insert((row.release_key, row.child_key), row);
        Ok(())
    }
    fn stage_result(&mut self, row: StageResultRow) -> Result<(), StoreError> {
        self.stage_results.push(row);
        Ok(())
    }
    fn analysis_run(&mut self, row: AnalysisRunRow) -> Result<(), StoreError> {
        self.analysis_runs.push(row);
        Ok(())
    }
    fn deployment(&mut self, row: DeploymentRow) -> Result<(), StoreError> {
        self.deployments.insert((row.function.clone(), row.child_key), row);
        Ok(())
    }
    fn outbox(&mut self, row: OutboxRow) -> Result<(), StoreError> {
        self.outbox.insert(row.id, row);
        Ok(())
    }
    fn setting(&mut self, row: SettingRow) -> Result<(), StoreError> {
        self.settings.insert(row.name.clone(), row);
        Ok(())
    }
    fn pointer(&mut self, row: PointerRow) -> Result<(), StoreError> {
        self.pointers.insert(row.pointer_key, row);
        Ok(())
    }
    fn router(&mut self, row: RouterRow) -> Result<(), StoreError> {
        self.routers.insert(row.child_key, row);
        Ok(())
    }
    fn led_service(&mut self, row: LedServiceRow) -> Result<(), StoreError> {
        self.led_services.insert((row.child_key, row.place), row);
        Ok(())
    }
    fn router_order(&mut self, row: RouterOrderRow) -> Result<(), StoreError> {
        self.router_orders.insert((row.child_key, row.place), row);
        Ok(())
    }
    fn workflow(&mut self, row: WorkflowRow) -> Result<(), StoreError> {
        self.workflows.insert(row.workflow_key, row);
        Ok(())
    }
    fn workflow_part(&mut self, row: WorkflowPartRow) -> Result<(), StoreError> {
        self.workflow_parts.insert(row.part_key, row);
        Ok(())
    }
}
