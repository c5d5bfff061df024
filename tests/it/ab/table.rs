//! Every field and column, with its type, its unit, when it is null, and the test that reads it.
//!
//! `interfaces.txt` lists what the interface names. This table has all of it, and all that the description of the API has.

use std::collections::BTreeSet;

use protocol::api::{RouteBackend, RouteConfig, RouteHealthCheck};
use serde_json::{Value, json};

use super::player::{Player, body, two_stages};
use crate::world::World;

/// Entity or table, JSON name or column, type, unit, when it is null, the test that reads it.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const FIELDS: &[Row] = &[
    ("ABRelease", "id", "string", "UUID", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "release", "string", "id of the release", "never", "the_same_body_twice_is_one_release_and_a_name_has_one_content"),
    ("ABRelease", "tenantId", "string", "UUID", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("ABRelease", "environmentId", "string", "UUID", "never", "lists_are_plain_arrays_filtered_and_paged_by_links"),
    ("ABRelease", "environment", "string", "name", "never", "every_field_is_shown_as_the_table_says"),
    ("ABRelease", "name", "string", "", "never", "the_same_body_twice_is_one_release_and_a_name_has_one_content"),
    ("ABRelease", "variations", "array", "", "never", "every_field_is_shown_as_the_table_says"),
    ("ABRelease", "activeVariation", "string", "name", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "trafficSplit", "object", "", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "rolloutStrategy", "object", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("ABRelease", "status", "string", "word", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "phase", "string", "word", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "createdAt", "string", "RFC 3339", "never", "every_field_is_shown_as_the_table_says"),
    ("ABRelease", "completedAt", "string", "RFC 3339", "until it is over", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("ABRelease", "createdBy", "string", "UUID", "nobody said who", "the_views_say_what_the_calls_say_in_every_status"),
    ("ABRelease", "createdByName", "string", "name", "nobody said who", "every_field_is_shown_as_the_table_says"),
    ("ABRelease", "stages", "array", "", "absent in lists", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("Variation", "name", "string", "", "never", "three_variations_share_as_they_are_told_and_the_second_gets_everything"),
    ("Variation", "releaseId", "string", "UUID", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("Variation", "version", "string", "name", "nothing registered is named", "every_field_is_shown_as_the_table_says"),
    ("Variation", "targetGroupId", "string", "UUID", "no group is named", "the_views_say_what_the_calls_say_in_every_status"),
    ("Variation", "targetGroup", "string", "name", "no group is named", "every_field_is_shown_as_the_table_says"),
    ("Variation", "trafficPercentage", "number", "percent", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("Variation", "deploymentJobId", "string", "id of an offer", "no runtime deploys it", "release_to_agent_group_deploys_and_is_shown_like_others"),
    ("TrafficSplit", "type", "string", "word", "never", "sticky_keys_are_cookies_headers_or_addresses"),
    ("TrafficSplit", "percentages", "object", "percent", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("TrafficSplit", "stickyKey", "string", "cookie:, header: or address", "absent: each call by itself", "sticky_keys_are_cookies_headers_or_addresses"),
    ("TrafficSplit", "headerMatch", "object", "", "absent: no header asks", "blue_green_instant_gives_green_nothing_and_then_everything"),
    ("HeaderMatch", "header", "string", "", "never", "blue_green_instant_gives_green_nothing_and_then_everything"),
    ("HeaderMatch", "values", "object", "value to variation", "never", "blue_green_instant_gives_green_nothing_and_then_everything"),
    ("RolloutStrategy", "id", "string", "UUID", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStrategy", "name", "string", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStrategy", "stages", "array", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStrategy", "autoAdvance", "boolean", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStrategy", "rollbackOnFailure", "boolean", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStrategy", "healthCheckInterval", "number", "seconds", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStage", "trafficPercentage", "number", "percent", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStage", "durationSeconds", "number", "seconds", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStage", "healthThreshold", "number", "percent", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("RolloutStage", "requireApproval", "boolean", "", "never", "strategies_are_found_by_name_and_by_uuid"),
    ("CanaryStage", "id", "string", "UUID", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "abReleaseId", "string", "UUID", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "stageNumber", "integer", "from 1", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "name", "string", "", "never", "every_field_is_shown_as_the_table_says"),
    ("CanaryStage", "trafficPercentage", "number", "percent", "never", "blue_green_instant_gives_green_nothing_and_then_everything"),
    ("CanaryStage", "status", "string", "word", "never", "a_release_goes_through_its_statuses_and_stages_and_ends_promoted"),
    ("CanaryStage", "healthThreshold", "number", "percent", "health is not asked for", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "durationSeconds", "number", "seconds", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "requireApproval", "boolean", "", "never", "without_auto_advance_each_stage_but_the_last_waits_for_somebody"),
    ("CanaryStage", "startedAt", "string", "RFC 3339", "nobody has begun it", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "completedAt", "string", "RFC 3339", "until it has passed, failed, or was left out", "the_views_say_what_the_calls_say_in_every_status"),
    ("CanaryStage", "healthResult", "object", "", "nothing was measured", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthResult", "healthy", "boolean", "", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthResult", "healthPercentage", "number", "percent of targets", "no router looks at targets, or the stage has passed", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("HealthResult", "metrics", "object", "", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthResult", "samples", "integer", "calls", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthResult", "evaluatedAt", "string", "RFC 3339", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthMetrics", "successRate", "number", "percent of calls", "no calls", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthMetrics", "errorRate", "number", "percent of calls", "no calls", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthMetrics", "latencyP50", "number", "milliseconds", "no times", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("HealthMetrics", "latencyP90", "number", "milliseconds", "no times", "times_are_of_all_children_together_in_calls_and_views"),
    ("HealthMetrics", "latencyP95", "number", "milliseconds", "no times", "times_are_of_all_children_together_in_calls_and_views"),
    ("HealthMetrics", "latencyP99", "number", "milliseconds", "no times", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("TrafficDistribution", "backends", "array", "", "never", "every_field_is_shown_as_the_table_says"),
    ("TrafficDistribution", "timestamp", "string", "RFC 3339", "never", "every_field_is_shown_as_the_table_says"),
    ("BackendShare", "name", "string", "variation", "never", "every_field_is_shown_as_the_table_says"),
    ("BackendShare", "weight", "number", "percent", "never", "every_field_is_shown_as_the_table_says"),
    ("BackendShare", "lowest", "number", "percent", "no router tells", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("BackendShare", "highest", "number", "percent", "no router tells", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("BackendShare", "healthyTargets", "integer", "targets", "no router looks at them", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("BackendShare", "totalTargets", "integer", "targets", "never", "every_field_is_shown_as_the_table_says"),
    ("RouteConfig", "upstream", "string", "service", "never", "a_route_is_told_in_seconds_and_percent"),
    ("RouteConfig", "backends", "array", "", "never", "a_route_is_told_in_seconds_and_percent"),
    ("RouteConfig", "healthCheck", "object", "", "nobody looks", "a_route_is_told_in_seconds_and_percent"),
    ("RouteBackend", "name", "string", "variation", "never", "a_route_is_told_in_seconds_and_percent"),
    ("RouteBackend", "targets", "array", "host:port", "never", "a_route_is_told_in_seconds_and_percent"),
    ("RouteBackend", "weight", "number", "percent", "never", "a_route_is_told_in_seconds_and_percent"),
    ("HealthCheck", "path", "string", "", "never", "a_route_is_told_in_seconds_and_percent"),
    ("HealthCheck", "interval", "number", "seconds", "never", "a_route_is_told_in_seconds_and_percent"),
    ("HealthCheck", "timeout", "number", "seconds", "never", "a_route_is_told_in_seconds_and_percent"),
    ("ABTraffic", "currentSplit", "object", "", "never", "every_field_is_shown_as_the_table_says"),
    ("ABTraffic", "history", "array", "", "never", "a_roll_back_gives_everything_to_the_stable_variation"),
    ("ABHealth", "variations", "array", "", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("VariationHealth", "name", "string", "variation", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("VariationHealth", "healthStatus", "string", "word", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("VariationHealth", "metrics", "object", "", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("VariationHealth", "samples", "integer", "calls", "never", "what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times"),
    ("TrafficHistory", "timestamp", "string", "RFC 3339", "never", "a_roll_back_gives_everything_to_the_stable_variation"),
    ("TrafficHistory", "router", "string", "id", "all that lead the calls", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("TrafficHistory", "generation", "integer", "", "not told one at a time", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("TrafficHistory", "from", "object", "percent", "never", "a_roll_back_gives_everything_to_the_stable_variation"),
    ("TrafficHistory", "to", "object", "percent", "never", "a_roll_back_gives_everything_to_the_stable_variation"),
    ("TrafficHistory", "wanted", "object", "percent", "no router tells", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("TrafficHistory", "seen", "object", "percent", "no router tells", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("TrafficHistory", "measured", "object", "percent", "no router tells", "what_routers_read_back_and_count_is_shown_by_router_and_over_all"),
    ("TrafficHistory", "by", "string", "", "never", "a_roll_back_gives_everything_to_the_stable_variation"),
    ("release.ab_releases", "id", "uuid", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "tenant_id", "uuid", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "environment_id", "uuid", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "name", "varchar", "", "never", "every_column_is_there_under_its_name"),
    ("release.ab_releases", "variations", "jsonb", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "active_variation", "varchar", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "traffic_split", "jsonb", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "rollout_strategy", "jsonb", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "status", "varchar", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "created_at", "timestamptz", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "completed_at", "timestamptz", "", "until it is over", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.ab_releases", "created_by", "uuid", "", "nobody said who", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "id", "uuid", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "ab_release_id", "uuid", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "stage_number", "integer", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "traffic_percentage", "integer", "percent", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "status", "varchar", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "health_threshold", "numeric", "percent", "health is not asked for", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "duration_seconds", "integer", "seconds", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "require_approval", "boolean", "", "never", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "started_at", "timestamptz", "", "nobody has begun it", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "completed_at", "timestamptz", "", "until it has passed, failed, or was left out", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.canary_stages", "health_result", "jsonb", "", "nothing was measured", "the_views_say_what_the_calls_say_in_every_status"),
    ("release.tenants", "id", "uuid", "", "never", "every_column_is_there_under_its_name"),
    ("release.tenants", "name", "text", "", "never", "every_column_is_there_under_its_name"),
    ("release.tenants", "created_at", "timestamptz", "", "never", "every_column_is_there_under_its_name"),
    ("release.tenants", "max_children", "bigint", "children", "who is bound to no tenant", "every_column_is_there_under_its_name"),
    ("release.tenants", "max_releases", "bigint", "releases", "who is bound to no tenant", "every_column_is_there_under_its_name"),
    ("release.tenants", "max_bytes", "bigint", "bytes", "who is bound to no tenant", "every_column_is_there_under_its_name"),
    ("release.tenants", "is_deleted", "boolean", "", "never", "every_column_is_there_under_its_name"),
    ("release.users", "id", "uuid", "", "never", "every_column_is_there_under_its_name"),
    ("release.users", "tenant_id", "uuid", "", "never", "every_column_is_there_under_its_name"),
    ("release.users", "name", "text", "", "never", "every_column_is_there_under_its_name"),
    ("release.users", "created_at", "timestamptz", "", "never", "every_column_is_there_under_its_name"),
    ("release.environments", "id", "uuid", "", "never", "every_column_is_there_under_its_name"),
    ("release.environments", "tenant_id", "uuid", "", "never", "every_column_is_there_under_its_name"),
    ("release.environments", "name", "text", "", "never", "every_column_is_there_under_its_name"),
    ("release.environments", "detail", "jsonb", "", "never", "every_column_is_there_under_its_name"),
    ("release.environments", "created_at", "timestamptz", "", "nobody registered it", "every_column_is_there_under_its_name"),
    ("release.environments", "removed_at", "timestamptz", "", "it was not removed", "every_column_is_there_under_its_name"),
];

const SOURCES: [&str; 7] = [
    include_str!("agents.rs"),
    include_str!("calls.rs"),
    include_str!("course.rs"),
    include_str!("names.rs"),
    include_str!("table.rs"),
    include_str!("tenants.rs"),
    include_str!("views.rs"),
];

fn fields_of(entity: &str) -> BTreeSet<&'static str> {
    FIELDS.iter().filter(|row| row.0 == entity).map(|row| row.1).collect()
}

#[test]
fn the_table_has_every_field_of_the_interface_and_each_is_read_by_a_test() {
    for line in include_str!("interfaces.txt").lines() {
        let (entity, fields) = line.split_once(": ").unwrap();
        let known = fields_of(entity);
        for field in fields.split(' ') {
            assert!(known.contains(field), "{entity}.{field} is missing");
        }
    }
    for (entity, field, .., test) in FIELDS {
        assert!(
            SOURCES.iter().any(|text| text.contains(&format!("fn {test}("))),
            "{entity}.{field}: no test {test}"
        );
    }
}

#[tokio::test]
async fn the_table_has_every_field_that_the_description_of_the_api_has() {
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    let entities: BTreeSet<&str> =
        FIELDS.iter().map(|row| row.0).filter(|name| !name.contains('.')).collect();
    for entity in entities {
        // What routers are told is described where routers are.
        let Some(properties) = document["components"]["schemas"][entity]["properties"].as_object() else {
            assert!(["RouteConfig", "RouteBackend"].contains(&entity), "{entity} is not described");
            continue;
        };
        let described: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(described, fields_of(entity), "{entity}");
        for (name, described) in properties {
            let row = FIELDS.iter().find(|row| row.0 == entity && row.1 == name).unwrap();
            let kinds = match &described["type"] {
                Value::String(kind) => vec![kind.as_str()],
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                // A reference, or one beside null.
                _ => vec!["object"],
            };
            assert!(kinds.contains(&row.2), "{entity}.{name} is {kinds:?}");
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_is_shown_as_the_table_says() {
    let player = Player::start().await;
    let created = player.create(&body("r", &two_stages())).await.ok().json();
    let has_all = |entity: &str, shown: &Value| {
        for (_, field, kind, .., null, _) in FIELDS.iter().filter(|row| row.0 == entity) {
            let value = &shown[*field];
            let fits = match *kind {
                "string" => value.is_string(),
                "number" => value.is_number(),
                "integer" => value.is_u64(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                _ => value.is_object(),
            };
            assert!(fits || (value.is_null() && *null != "never"), "{entity}.{field} is {value}: {shown:#}");
        }
    };
    has_all("ABRelease", &created);
    has_all("Variation", &created["variations"][1]);
    has_all("TrafficSplit", &created["trafficSplit"]);
    has_all("RolloutStrategy", &created["rolloutStrategy"]);
    has_all("RolloutStage", &created["rolloutStrategy"]["stages"][0]);
    has_all("CanaryStage", &created["stages"][0]);
    assert_eq!(
        (&created["environment"], &created["createdByName"], &created["variations"][1]["version"]),
        (&json!("shop-prod"), &json!("ann"), &json!("v42"))
    );
    assert_eq!(created["stages"][0]["name"], "10 %");
    let nothing = ["targetGroup", "targetGroupId", "deploymentJobId"];
    assert!(nothing.iter().all(|field| created["variations"][1][field].is_null()));
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.walks("r", "10 %").await;
    let traffic = player.world.get("/api/v1/ab-releases/r/traffic").await.ok().json();
    has_all("ABTraffic", &traffic);
    has_all("TrafficDistribution", &traffic["currentSplit"]);
    has_all("BackendShare", &traffic["currentSplit"]["backends"][1]);
    has_all("TrafficHistory", &traffic["history"][0]);
    let backends = &traffic["currentSplit"]["backends"];
    assert_eq!((&backends[1]["weight"], &backends[1]["totalTargets"]), (&json!(10.0), &json!(1)));
    let router = &traffic["currentSplit"]["routers"][0];
    assert_eq!((&router["router"], &router["stage"]), (&json!(player.router), &json!("10 %")));
    assert_eq!(router["wanted"], json!({"A": 90.0, "B": 10.0}));
    let result = &player.shown("r").await["stages"][0]["healthResult"];
    has_all("HealthResult", result);
    has_all("HealthMetrics", &result["metrics"]);
    let health = player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    has_all("ABHealth", &health);
    has_all("VariationHealth", &health["variations"][0]);
    player.world.stop().await;
}

#[test]
fn a_route_is_told_in_seconds_and_percent() {
    let route = RouteConfig {
        upstream: "checkout".to_owned(),
        backends: vec![RouteBackend {
            name: "B".to_owned(),
            targets: vec!["127.0.0.1:1".to_owned()],
            weight: 10.0,
        }],
        health_check: Some(RouteHealthCheck { path: "/ready".to_owned(), interval: 2.0, timeout: 0.5 }),
    };
    let expected = json!({
        "upstream": "checkout",
        "backends": [{"name": "B", "targets": ["127.0.0.1:1"], "weight": 10.0}],
        "healthCheck": {"path": "/ready", "interval": 2.0, "timeout": 0.5},
    });
    assert_eq!(serde_json::to_value(route).unwrap(), expected);
}
