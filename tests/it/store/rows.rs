//! Rows to write: arbitrary ones for properties, plain ones for stories.

use bytes::Bytes;
use domain::release::summary::{Summary, Times};
use model::StageStatus;
use proptest::{collection, option, prelude::*};
use store::{
    Pruning,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, Batch, ChildRow, DeploymentRow, LeaseRow,
        LedServiceRow, MembersRow, OutboxRow, PointerRow, PrecedentRow, RegisteredRow, ReleaseRow,
        RouterOrderRow, RouterRow, ServiceReleaseRow, SettingRow, StageResultRow, TenantRow,
        TrafficHistoryRow, UserRow, WorkflowPartRow, WorkflowRow, Writes,
    },
};

pub fn batch(lease: &LeaseRow, seq: u64, writes: Writes) -> Batch {
    Batch { epoch: lease.epoch, seq, served_ms: seq * 10, writes }
}

/// Rows are kept for a second.
pub fn pruning(served_ms: u64) -> Pruning {
    Pruning { served_ms, retention_ms: 1_000, limit: 100 }
}

pub fn child(child_key: u32) -> ChildRow {
    ChildRow {
        child_key,
        id: format!("child-{child_key}"),
        kind: "agent".to_owned(),
        name: None,
        area: Some(r#"{"type":"Polygon","coordinates":[]}"#.to_owned()),
        agents: 1,
        born_ms: 1,
        seen_ms: 2,
        detail: "{}".to_owned(),
    }
}

pub fn release(release_key: u32, state: &str, functions: &str) -> ReleaseRow {
    ReleaseRow {
        release_key,
        id: format!("r{release_key}"),
        state: state.to_owned(),
        open: state == "Running",
        digest: vec![1, 2, 3],
        archive: vec![4, 5, 6],
        strategy: "id: 1".to_owned(),
        functions: functions.to_owned(),
        submitted_ms: 3,
        updated_ms: 4,
        ended_ms: None,
        detail: "{}".to_owned(),
    }
}

pub fn assignment(release_key: u32, child_key: u32) -> AssignmentRow {
    AssignmentRow {
        release_key,
        child_key,
        status: 2,
        outcome: None,
        attempt: 1,
        stage: 0,
        stage_status: 1,
        updated_ms: 5,
        detail: "{}".to_owned(),
    }
}

pub fn audit(seq: u64, idx: u32, release_key: Option<u32>) -> AuditRow {
    let (actor, events) = ("child".to_owned(), "[]".to_owned());
    AuditRow { seq, idx, at_ms: seq.cast_signed(), release_key, actor, events, steps: false }
}

/// Any text a database can keep: everything but NUL.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => any::<String>().prop_map(|text| text.replace('\0', "")),
        1 => Just(String::new()),
        1 => Just("'\"\\; -- ü 𝄞 \u{feff}\u{7f}\n\r\t{}[],\\u0000 NULL".to_owned()),
        1 => "[0-9]{1,30}",
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![collection::vec(any::<u8>(), 0..40), Just(vec![0; 100_000])]
}

/// Small keys meet again, large ones show where a type is too narrow.
fn key() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0_u32..6, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

prop_compose! {
    fn any_child()(child_key in key(), kind in text(), name in option::of(text()), area in option::of(text()),
        agents in any::<u32>(), born_ms in any::<i64>(), seen_ms in any::<i64>(), detail in text()) -> ChildRow {
        // Unique, as the engine sees to it.
        let id = format!("{child_key}-ä");
        ChildRow { child_key, id, kind, name, area, agents, born_ms, seen_ms, detail }
    }
}

prop_compose! {
    fn any_release()(release_key in key(), state in text(), open in any::<bool>(), digest in bytes(),
        archive in bytes(), strategy in text(), functions in collection::vec(text(), 0..3),
        submitted_ms in any::<i64>(), updated_ms in any::<i64>(), ended_ms in option::of(any::<i64>()),
        detail in text()) -> ReleaseRow {
        let id = format!("r{release_key}");
        let functions = serde_json::to_string(&functions).unwrap();
        ReleaseRow { release_key, id, state, open, digest, archive, strategy, functions, submitted_ms,
            updated_ms, ended_ms, detail }
    }
}

prop_compose! {
    fn any_assignment()(release_key in key(), child_key in key(), status in any::<i16>(),
        outcome in option::of(text()), attempt in any::<i16>(), stage in any::<i16>(),
        stage_status in any::<i16>(), updated_ms in any::<i64>(), detail in text()) -> AssignmentRow {
        AssignmentRow { release_key, child_key, status, outcome, attempt, stage, stage_status, updated_ms, detail }
    }
}

prop_compose! {
    /// As the engine writes it.
    fn any_summary()(numbers in collection::vec(prop_oneof![Just(-1.0), 0.0..1e9, any::<i32>().prop_map(f64::from)], 11),
        calls in option::of(any::<u64>()), errors in option::of(any::<u64>())) -> String {
        summary(&numbers, calls, errors)
    }
}

/// The text that is kept of a summary with these numbers.
pub fn summary(numbers: &[f64], calls: Option<u64>, errors: Option<u64>) -> String {
    let times = |at: usize| Times { median: numbers[at], minimum: numbers[at + 1], maximum: numbers[at + 2] };
    let summary = Summary {
        stage_name: None,
        status: StageStatus::Completed,
        proxy_times: times(0),
        f1_times_summary: times(3),
        f2_times_summary: times(6),
        f1_err_rate: numbers[9],
        f2_err_rate: numbers[10],
        f1_calls: calls,
        f2_calls: calls,
        f1_errors: errors,
        f2_errors: errors,
        f1_histogram: None,
        f2_histogram: None,
        f1_values: None,
        f2_values: None,
        strata: Vec::new(),
        variations: Vec::new(),
        agents: None,
        says_next: None,
        why: None,
        assignment: analysis::Assignment::Call,
        effects: None,
        recount: None,
        failures: None,
    };
    engine::json_columns::received(summary).unwrap().text.clone()
}

prop_compose! {
    fn any_stage_result()(release_key in key(), child_key in key(), attempt in prop_oneof![4 => 0_i16..3, 1 => any::<i16>()],
        stage in prop_oneof![4 => 0_i16..3, 1 => any::<i16>()], status in any::<i16>(), at_ms in any::<i64>(),
        digest in any::<i64>(), summary in prop_oneof![text(), any_summary()])
        -> StageResultRow {
        StageResultRow { release_key, child_key, attempt, stage, status, at_ms, digest, summary }
    }
}

prop_compose! {
    fn any_analysis_run()(release_key in key(), block in any::<i16>(), detail in text()) -> AnalysisRunRow {
        AnalysisRunRow { release_key, block, detail }
    }
}

prop_compose! {
    fn any_precedent()(function in prop_oneof![Just("sieve".to_owned()), text()], release_key in key(),
        id in text(), ended_ms in option::of(prop_oneof![-3_i64..3, any::<i64>()]), times in text())
        -> PrecedentRow {
        PrecedentRow { function, release_key, id, ended_ms, times }
    }
}

prop_compose! {
    fn any_deployment()(child_key in key(), function in text(), release_key in key(), variant in text(),
        path in text(), at_ms in any::<i64>(), content in option::of(any::<i64>())) -> DeploymentRow {
        DeploymentRow { child_key, function, release_key, variant, path, at_ms, content }
    }
}

prop_compose! {
    fn any_audit()(at_ms in any::<i64>(), release_key in option::of(key()), actor in text(), events in text(),
        steps in any::<bool>())
        -> AuditRow {
        AuditRow { seq: 0, idx: 0, at_ms, release_key, actor, events, steps }
    }
}

prop_compose! {
    fn any_outbox()(
        kind in text(),
        at_ms in any::<i64>(),
        payload in text(),
        served_ms in option::of(0..=i64::MAX.cast_unsigned()),
    ) -> OutboxRow {
        OutboxRow { id: 0, kind, at_ms, payload, served_ms }
    }
}

prop_compose! {
    fn any_setting()(name in prop_oneof!["[a-c]", text()], value in text(), at_ms in any::<i64>()) -> SettingRow {
        SettingRow { name, value, at_ms }
    }
}

prop_compose! {
    fn any_pointer()(at_ms in any::<i64>(), detail in text()) -> PointerRow {
        PointerRow { pointer_key: 0, at_ms, detail }
    }
}

prop_compose! {
    fn any_router()(child_key in key(), kind in text(), version in option::of(text()), phase in text(),
        reached in any::<bool>(), trouble in option::of(text()), updated_ms in any::<i64>(), detail in text())
        -> RouterRow {
        RouterRow { child_key, kind, version, phase, reached, trouble, updated_ms, detail }
    }
}

prop_compose! {
    fn any_led_service()(child_key in key(), place in prop_oneof![4 => 0_i16..3, 1 => any::<i16>()], service in text(),
        epoch in 0..=i64::MAX.cast_unsigned(), generation in 0..=i64::MAX.cast_unsigned(), offer in option::of(text()),
        standing in any::<bool>(), updated_ms in any::<i64>(), detail in text()) -> LedServiceRow {
        LedServiceRow { child_key, place, service, epoch, generation, offer, standing, updated_ms, detail }
    }
}

prop_compose! {
    fn any_order()(child_key in key(), place in prop_oneof![4 => 0_i16..3, 1 => any::<i16>()],
        number in 0..=i64::MAX.cast_unsigned(), what in text(), at_ms in any::<i64>(), detail in text()) -> RouterOrderRow {
        RouterOrderRow { child_key, place, number, what, at_ms, detail }
    }
}

prop_compose! {
    fn any_entry()(at_ms in any::<i64>(), child_key in key(), router in text(),
        service in prop_oneof![Just("checkout".to_owned()), text()], release_key in option::of(key()), detail in text())
        -> TrafficHistoryRow {
        TrafficHistoryRow { seq: 0, idx: 0, at_ms, child_key, router, service, release_key, detail }
    }
}

prop_compose! {
    /// Each number has an id of its own.
    fn any_workflow()(workflow_key in key(), archive in bytes(), definition in text(), detail in text()) -> WorkflowRow {
        WorkflowRow { workflow_key, id: format!("w{workflow_key}"), archive, definition, detail }
    }
}

prop_compose! {
    fn any_part()(part_key in key(), workflow_key in key(), detail in text()) -> WorkflowPartRow {
        WorkflowPartRow { part_key, workflow_key, detail }
    }
}

fn unique<T: std::fmt::Debug, K: Ord>(
    row: impl Strategy<Value = T>,
    key: impl Fn(&T) -> K,
) -> impl Strategy<Value = Vec<T>> {
    collection::vec(row, 0..5).prop_map(move |rows| {
        let mut seen = std::collections::BTreeSet::new();
        rows.into_iter().filter(|row| seen.insert(key(row))).collect()
    })
}

prop_compose! {
    /// All of one tenant, so that they can be listed.
    fn any_registered()(kind in prop_oneof![Just("environment"), Just("version"), Just("release")], name in 0_u32..6, detail in text(),
        at_ms in any::<i64>(), actor in option::of(text()), removed_ms in option::of(any::<i64>())) -> RegisteredRow {
        let name = format!("{kind}-{name}");
        RegisteredRow { tenant: "t".to_owned(), kind: kind.to_owned(), id: format!("id of {name}"), name, detail, at_ms,
            actor, removed_ms }
    }
}

prop_compose! {
    fn any_tenant()(name in prop_oneof![Just("t"), Just("u")], at_ms in any::<i64>()) -> TenantRow {
        TenantRow { name: name.to_owned(), id: format!("id of {name}"), at_ms }
    }
}

prop_compose! {
    fn any_user()(tenant in prop_oneof![Just("t"), Just("u")], name in 0_u32..6, at_ms in any::<i64>()) -> UserRow {
        UserRow { tenant: tenant.to_owned(), name: format!("user {name}"), id: format!("id of {name} of {tenant}"), at_ms }
    }
}

prop_compose! {
    fn any_service_release()(release_key in key(), environment in text(), actor in option::of(text()), form in text())
        -> ServiceReleaseRow {
        ServiceReleaseRow { release_key, id: format!("id of {release_key}"), tenant: "t".to_owned(),
            tenant_id: "id of t".to_owned(), environment_id: format!("id of {environment}"), environment,
            actor_id: actor.clone(), actor, form }
    }
}

/// Batches one after the other, as an engine could write them.
pub fn any_batches() -> impl Strategy<Value = Vec<Writes>> {
    let rare = (
        unique(key(), |key| *key),
        unique((key(), any::<i64>()), |(key, _)| *key),
        unique(any_release(), |row| row.release_key),
        unique((bytes(), bytes()), |(digest, _)| digest.clone()),
        unique((key(), 0_u32..3, bytes()), |(release, slice, _)| (*release, *slice)),
        (
            (collection::vec(any_outbox(), 0..3), collection::vec(0_u64..6, 0..2)),
            (collection::vec(any_pointer(), 0..3), collection::vec(0_u64..6, 0..2)),
            (
                unique(any_setting(), |row| row.name.clone()),
                unique(any_registered(), |row| row.name.clone()),
                unique(any_service_release(), |row| row.release_key),
                unique(any_tenant(), |row| row.name.clone()),
                unique(any_user(), |row| (row.tenant.clone(), row.name.clone())),
            ),
        ),
        unique(any_analysis_run(), |row| (row.release_key, row.block)),
        unique(any_precedent(), |row| (row.function.clone(), row.release_key)),
        (
            unique(any_router(), |row| row.child_key),
            unique(any_led_service(), |row| (row.child_key, row.place)),
            unique(any_order(), |row| (row.child_key, row.place)),
            collection::vec(any_entry(), 0..3),
            unique(any_workflow(), |row| row.workflow_key),
            unique(any_part(), |row| row.part_key),
            unique(key(), |key| *key),
        ),
    );
    let frequent = (
        unique(any_child(), |row| row.child_key),
        unique(any_assignment(), |row| (row.release_key, row.child_key)),
        unique(any_stage_result(), |row| (row.release_key, row.child_key, row.attempt, row.stage)),
        unique(any_deployment(), |row| (row.child_key, row.function.clone())),
        collection::vec(any_audit(), 0..4),
    );
    let writes = (frequent, option::of(rare)).prop_map(|(frequent, rare)| {
        let (children, assignments, stage_results, deployments, audit) = frequent;
        let mut writes =
            Writes { children, assignments, stage_results, deployments, audit, ..Writes::default() };
        if let Some((gone, seen, releases, archives, members, beside, runs, precedents, traffic)) = rare {
            let (routers, led_services, router_orders, traffic_history, workflows, parts, workflows_gone) =
                traffic;
            (writes.routers, writes.led_services, writes.router_orders) =
                (routers, led_services, router_orders);
            writes.traffic_history = traffic_history;
            (writes.workflows, writes.workflow_parts, writes.workflows_gone) =
                (workflows, parts, workflows_gone);
            let ((outbox, done), (pointers, pointers_gone), settings) = beside;
            let (settings, registered, service_releases, tenants, users) = settings;
            (writes.pointers, writes.pointers_gone, writes.settings) = (pointers, pointers_gone, settings);
            (writes.registered, writes.service_releases) = (registered, service_releases);
            (writes.tenants, writes.users) = (tenants, users);
            writes.analysis_runs = runs;
            writes.precedents = precedents;
            writes.children_gone = gone;
            writes.seen = seen;
            writes.releases = releases;
            let archive = |(digest, bytes)| ArchiveRow { digest, bytes: Bytes::from(bytes) };
            writes.archives = archives.into_iter().map(archive).collect();
            let members_row = |(release_key, slice, keys): (u32, u32, Vec<u8>)| {
                let waves = keys.iter().rev().copied().collect();
                MembersRow { release_key, slice, keys, waves }
            };
            writes.members = members.into_iter().map(members_row).collect();
            writes.outbox = outbox;
            writes.outbox_done = done;
        }
        writes
    });
    collection::vec(writes, 1..7).prop_map(|mut batches| {
        let (mut id, mut key) = (0, 0);
        for (seq, writes) in (1..).zip(&mut batches) {
            for (idx, row) in (0..).zip(&mut writes.audit) {
                (row.seq, row.idx) = (seq, idx);
            }
            for (idx, row) in (0..).zip(&mut writes.traffic_history) {
                (row.seq, row.idx) = (seq, idx);
            }
            for row in &mut writes.outbox {
                row.id = id;
                id += 1;
            }
            for row in &mut writes.pointers {
                row.pointer_key = key;
                key += 1;
            }
        }
        batches
    })
}
