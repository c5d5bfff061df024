//! Everything that the interface of canary releases asks for, in our words: each sentence in the order in which it says them, and each field.
//! Beside it stands the test that tries it, or what is missing. The page tells all that is missing under the same name.

use std::{collections::BTreeSet, fs, path::Path};

use canary_releases::crd::definitions;
use serde_json::Value;

use self::Tried::{By, Kubernetes, NotYet};
use super::{ADOPTED, DEPRECATED, canary, canary_of, release, several, shop};
use crate::{real_agents::canaries as real, structural_schemas::faults};

#[derive(Clone, Copy)]
enum Tried {
    /// By this test.
    By(&'static str),
    /// Missing, under this name.
    NotYet(&'static str),
    /// It is about objects in a cluster, which nothing looks at yet.
    Kubernetes,
}

/// Under this name it is missing where it takes a cluster.
const IN_A_CLUSTER: &str = "Kubernetes";

/// What is it about, what is asked for, what tries it.
#[rustfmt::skip]
const SENTENCES: &[(&str, &str, Tried)] = &[
    ("goal", "calls are shared by weight", By("weight_10_adopted_and_no_call_is_lost")),
    ("goal", "whoever calls notices nothing", By("canaries_at_others_ports_lose_no_call_of_http_and_https")),
    ("parts", "there is a kind of objects of its own for canaries", By("a_cluster_can_take_the_definitions")),
    ("parts", "one part of the system begins canaries, another one shares calls", By("weight_10_adopted_and_no_call_is_lost")),
    ("a canary has", "one version of a release", By("what_its_release_does_not_have_is_named")),
    ("a canary has", "a configuration from which whatever runs for it is made", By("templates_are_rendered_with_what_the_configuration_says")),
    ("a canary has", "services, and how the calls of each are shared", By("the_strategy_is_this_text")),
    ("controller", "canaries of a cluster are watched", Kubernetes),
    ("controller", "a canary that is new is begun", By("a_canary_is_created_adopted_and_is_the_release_then")),
    ("controller", "each canary has a proxy of its own", NotYet("Several canaries at one router")),
    ("controller", "when its object is deleted, a canary ends and its proxy with it", Kubernetes),
    ("controller", "all that is decided of a canary is decided in its proxy", Kubernetes),
    ("proxy", "it looks at its canary and the release of that, and at no others", Kubernetes),
    ("proxy", "calls go through an nginx", By("canaries_of_http_and_tcp_behind_nginx_are_adopted_and_no_call_is_lost")),
    ("begin", "the services of the release have copies, so that what serves is reached beside the canary", Kubernetes),
    ("begin", "services and resources of the canary are created", By("a_canary_is_started_adopted_without_a_restart_and_no_call_is_lost")),
    ("begin", "whatever shares calls is configured, and runs", By("weight_10_adopted_and_no_call_is_lost")),
    ("begin", "all calls of the original services come to it", By("a_port_is_taken_over_and_given_back_and_no_call_is_lost")),
    ("adopt", "all calls go to the canary", By("weight_10_adopted_and_no_call_is_lost")),
    ("adopt", "the copies of services are deleted", Kubernetes),
    ("adopt", "the services of the canary are deleted", Kubernetes),
    ("adopt", "the release becomes what the canary was", By("what_is_adopted_stands_there_with_the_end_or_not_at_all")),
    ("adopt", "the canary tells it in its status", By("conditions_say_where_a_canary_stands_over_its_whole_life")),
    ("adopt", "the resources of the canary replace those of the release", By("what_ran_as_the_canary_has_its_limits_as_the_release_and_so_does_the_next_one")),
    ("deprecate", "the original services serve as before", By("a_canary_is_deprecated_and_the_release_is_as_it_was")),
    ("deprecate", "the copies of services are deleted", Kubernetes),
    ("deprecate", "everything of the canary is deleted", By("nothing_is_left_of_a_first_canary_that_was_started")),
    ("deprecate", "the canary tells it in its status, where that is needed", By("conditions_say_where_a_canary_stands_over_its_whole_life")),
    ("deprecate", "for users it is as if there had been nothing", By("a_port_that_was_given_back_is_as_if_it_had_never_been_taken_over")),
    ("scaling", "neither do weights follow from numbers of instances, nor these from weights", By("a_weight_is_the_same_however_many_targets_a_version_has")),
    ("scaling", "a weight grows while its version is scaled up", By("five_weights_and_no_call_is_lost")),
    ("scaling", "the new version is scaled by itself", Kubernetes),
    ("objects", "a status is optional, and its form isn't laid down", By("json_is_read_as_yaml_is")),
    ("objects", "a transition is what a canary is to become next", By("the_same_again_changes_nothing")),
    ("weights", "each port of a service has its own", By("several_begin_change_and_are_adopted_as_one")),
    ("weights", "it is from 1 to 100; here 0 is taken, too", By("the_language_reads_it_without_a_fault")),
    ("weights", "none may be given; here nothing is guessed then", By("what_cant_be_taken_is_named")),
    ("weights", "nothing else is said of how calls are shared", By("what_no_field_is_for_is_refused")),
];

/// Field, or a word that it may have; what tries it.
#[rustfmt::skip]
const FIELDS: &[(&str, Tried)] = &[
    ("apiVersion", By("every_manifest_fits_whatever_version_of_the_api_it_names")),
    ("kind", By("a_kind_is_told_however_it_is_written")),
    ("metadata", By("a_tenants_name_has_less_room")),
    ("spec", By("what_has_another_form_is_refused")),
    ("spec.release", By("what_a_canary_names_has_to_be_there")),
    ("spec.version", By("what_its_release_does_not_have_is_named")),
    ("spec.path", By("what_its_release_does_not_have_is_named")),
    ("spec.config", By("what_is_adopted_is_the_release_with_another_version_and_configuration")),
    ("spec.services", By("several_begin_change_and_are_adopted_as_one")),
    ("spec.services[].service", By("what_its_release_does_not_have_is_named")),
    ("spec.services[].ports", By("ports_that_are_not_named_are_told")),
    ("spec.services[].ports[].port", By("what_its_release_does_not_have_is_named")),
    ("spec.services[].ports[].protocol", By("what_its_release_does_not_have_is_named")),
    ("spec.services[].ports[].protocol: \"\"", By("what_can_be_left_out_may_be")),
    ("spec.services[].ports[].protocol: \"HTTP\"", By("canaries_at_others_ports_lose_no_call_of_http_and_https")),
    ("spec.services[].ports[].protocol: \"HTTPS\"", By("a_canary_of_https_has_the_certificate_of_each_host")),
    ("spec.services[].ports[].protocol: \"TCP\"", By("connections_of_tcp_stay_as_long_as_they_may_and_targets_know_who_calls")),
    ("spec.services[].ports[].protocol: \"UDP\"", By("canaries_at_others_ports_lose_no_connection_and_move_no_flow")),
    ("spec.services[].ports[].config", By("what_no_field_is_for_is_refused")),
    ("spec.services[].ports[].config.weight", By("the_language_reads_it_without_a_fault")),
    ("spec.resources", By("what_a_release_says_of_resources_holds_for_all_that_is_started_of_it")),
    ("spec.transition", By("a_transition_is_read")),
    ("spec.transition: \"\"", By("the_same_again_changes_nothing")),
    ("spec.transition: \"Adopted\"", By("a_canary_is_created_adopted_and_is_the_release_then")),
    ("spec.transition: \"Deprecated\"", By("a_canary_is_deprecated_and_the_release_is_as_it_was")),
    ("status", By("a_status_with_conditions_fits")),
];

const SOURCES: [&str; 18] = [
    include_str!("before_and_after.rs"),
    include_str!("kills.rs"),
    include_str!("life.rs"),
    include_str!("several.rs"),
    include_str!("started.rs"),
    include_str!("status.rs"),
    include_str!("../real_agents/flows.rs"),
    include_str!("../real_agents/flows/cycles.rs"),
    include_str!("../engine/durable.rs"),
    include_str!("../real_agents/canaries.rs"),
    include_str!("../real_agents/started_canaries.rs"),
    include_str!("../real_agents/taken_over.rs"),
    include_str!("../real_agents/routed/canaries.rs"),
    include_str!("../../canary-releases/crd.rs"),
    include_str!("../../canary-releases/reading.rs"),
    include_str!("../../canary-releases/refused.rs"),
    include_str!("../../canary-releases/started.rs"),
    include_str!("../../canary-releases/strategy.rs"),
];

/// Each row, and what tries it.
fn all() -> impl Iterator<Item = (String, Tried)> {
    let sentences = SENTENCES.iter().map(|(about, asked, tried)| (format!("{about}: {asked}"), *tried));
    sentences.chain(FIELDS.iter().map(|(field, tried)| ((*field).to_owned(), *tried)))
}

/// What the page says to be missing, by its name.
fn missing() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/canary-releases.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## What isn't there yet\n").expect("a section of what is missing");
    let section = section.split("\n## ").next().unwrap();
    let items = section.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**"));
    items.map(|(name, _)| name.to_owned()).collect()
}

fn schema_of(kind: &Value) -> Value {
    let found = definitions().into_iter().find(|found| found["spec"]["names"]["kind"] == *kind).unwrap();
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Adds the names of fields below a node, and the words that they may have.
fn name_fields(node: &Value, place: &str, found: &mut BTreeSet<String>) {
    for (name, inner) in node["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}{name}");
        found.extend(inner["enum"].as_array().into_iter().flatten().map(|word| format!("{place}: {word}")));
        name_fields(inner, &format!("{place}."), found);
        name_fields(&inner["items"], &format!("{place}[]."), found);
        found.insert(place);
    }
}

#[test]
fn each_sentence_and_each_field_has_a_test_or_is_told_to_be_missing() {
    let told = missing();
    let mut needed = BTreeSet::new();
    for (row, tried) in all() {
        match tried {
            By(test) => {
                let is_there = SOURCES.iter().any(|text| text.contains(&format!("fn {test}(")));
                assert!(is_there, "{row}: no test {test}");
            }
            NotYet(what) => _ = needed.insert(what.to_owned()),
            Kubernetes => _ = needed.insert(IN_A_CLUSTER.to_owned()),
        }
    }
    let untold: Vec<&String> = needed.difference(&told).collect();
    assert!(
        untold.is_empty(),
        "docs/canary-releases.md says that these are missing, or they have a test: {untold:?}"
    );
}

#[test]
fn the_table_has_every_field_and_every_word_once() {
    let mut found = BTreeSet::new();
    let mut schema = schema_of(&"CanaryRelease".into());
    // What these two have is laid down elsewhere.
    for open in ["metadata", "status"] {
        schema["properties"][open] = Value::Null;
    }
    name_fields(&schema, "", &mut found);
    let listed: BTreeSet<String> = FIELDS.iter().map(|(field, _)| (*field).to_owned()).collect();
    assert_eq!(listed, found);
    assert_eq!(all().map(|(row, _)| row).collect::<BTreeSet<_>>().len(), SENTENCES.len() + FIELDS.len());
}

#[test]
fn the_manifests_of_these_tests_fit_the_definitions() {
    let [a, b] = ["127.0.0.1:9101", "[::1]:9111"].map(|at| at.parse().unwrap());
    let manifests = [
        shop(1, &[1, 2, 3]),
        release("mall", 3, &[3, 4]),
        canary(2, ""),
        canary(2, ADOPTED),
        canary(3, DEPRECATED),
        canary_of("mall", "basket-4", 4, ""),
        several::shop_of_two(),
        several::both([0, 30, 100], DEPRECATED),
        real::shop(8080, 2, &[a, b, a]),
        real::canary(8080, 2, 10, ""),
        real::canary(8080, 3, 50, "Adopted"),
        real::canary(8080, 3, 50, "Deprecated"),
    ];
    for manifest in manifests {
        let document: Value = serde_saphyr::from_str(&manifest).unwrap();
        let found = faults(&schema_of(&document["kind"]), &document, |_, _| true);
        assert_eq!(found, [""; 0], "{manifest}");
    }
}
