//! Every table, declared once: from this list come the columns that are read and written, the statements of both
//! adapters, the lists of [`crate::rows::Writes`], the rows of an export and the numbers of `store info`.
//!
//! A new table is a line here, a struct in [`crate::rows`] and a migration for each kind of database. What only one adapter does
//! otherwise, it says itself.
//!
//! A line says, in this order: the table and so its name in `Writes`; the name of a row in an export; the row's struct; how a
//! row is written; with what rows go; the key; what it is read from; the other columns. Tables are written and told in the order
//! of the lines.
//!
//! | how it is written | what happens to a row whose key is there |
//! |---|---|
//! | `upsert` | the new one takes its place |
//! | `keep` | it stays |
//! | `insert` | nothing: there is none, or the batch is refused |
//!
//! | with what it goes | when |
//! |---|---|
//! | `alone` | it is said so, by its key |
//! | `children` | with the child of its `child_key` |
//! | `releases` | with the release of its `release_key`, when that leaves the history |
//! | `workflows` | with the workflow of its `workflow_key` |

/// Hands the list of all tables to a macro.
macro_rules! every_table {
    ($then:ident) => {
        $then! {
            children Child(ChildRow) upsert alone [child_key] from children
                [id, kind, name, area, agents, born_ms, seen_ms, detail];
            releases Release(ReleaseRow) upsert alone [release_key] from releases
                [id, state, open, digest, archive, strategy, functions, submitted_ms, updated_ms, ended_ms, detail];
            archives Archive(ArchiveRow) keep alone [digest] from archives [bytes];
            members Members(MembersRow) upsert releases [release_key, slice] from members [keys, waves];
            assignments Assignment(AssignmentRow) upsert releases [release_key, child_key] from assignments
                [status, outcome, attempt, stage, stage_status, updated_ms, detail];
            stage_results StageResult(StageResultRow) upsert releases [release_key, child_key, attempt, stage]
                from results [status, at_ms, digest, summary];
            analysis_runs AnalysisRun(AnalysisRunRow) upsert releases [release_key, block] from analysis_runs [detail];
            precedents Precedent(PrecedentRow) upsert releases [function, release_key] from precedents
                [id, ended_ms, times];
            deployments Deployment(DeploymentRow) upsert children [child_key, function] from deployments
                [release_key, variant, path, at_ms, content];
            audit Audit(AuditRow) insert alone [seq, idx] from audit [at_ms, release_key, actor, events, steps];
            outbox Outbox(OutboxRow) insert alone [id] from outbox [kind, at_ms, payload, served_ms];
            settings Setting(SettingRow) upsert alone [name] from settings [value, at_ms];
            pointers Pointer(PointerRow) insert alone [pointer_key] from pointers [at_ms, detail];
            tenants Tenant(TenantRow) keep alone [name] from tenants [id, at_ms];
            users User(UserRow) keep alone [tenant, name] from users [id, at_ms];
            registered Registered(RegisteredRow) upsert alone [tenant, kind, name] from registered
                [id, detail, at_ms, actor, removed_ms];
            service_releases ServiceRelease(ServiceReleaseRow) upsert releases [release_key] from service_releases
                [id, tenant, tenant_id, environment, environment_id, actor, actor_id, form];
            routers Router(RouterRow) upsert children [child_key] from routers
                [kind, version, phase, reached, trouble, updated_ms, detail];
            led_services LedService(LedServiceRow) upsert children [child_key, place] from led_services
                [service, epoch, generation, offer, standing, updated_ms, detail];
            router_orders RouterOrder(RouterOrderRow) upsert children [child_key, place] from router_orders
                [number, what, at_ms, detail];
            traffic_history TrafficHistory(TrafficHistoryRow) insert alone [seq, idx] from traffic_history
                [at_ms, child_key, router, service, release_key, detail];
            workflows Workflow(WorkflowRow) upsert alone [workflow_key] from workflows [id, archive, definition, detail];
            workflow_parts WorkflowPart(WorkflowPartRow) upsert workflows [part_key] from workflow_parts
                [workflow_key, detail];
        }
    };
}
pub(crate) use every_table;

/// Hands a macro the list of what is read in parts: the struct, the table, the key, the other columns.
macro_rules! every_part {
    ($then:ident) => {
        $then! {
            ReleaseHead releases [release_key] [id, digest, open];
            OutboxId outbox [] [id];
            OverRow releases [release_key] [id, functions, detail];
            LeaseRow lease [] [epoch, seq, holder, served_ms];
        }
    };
}
pub(crate) use every_part;
