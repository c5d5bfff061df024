//! Functions and services in one strategy: how its stages are divided, and what is refused.

use language::{
    Action, Group, Strategy, check, check_from_parent, check_stored, check_submission, offer, render_full,
};

use super::{load, rendered};

const HYBRID: &str = r#"id: checkout-42
name: checkout
functions:
  - name: sieve
    base_version: {path: fns/sieve_1, env: nodejs}
    new_version: {path: fns/sieve_2, env: nodejs}
    retry: failed
services:
  - name: checkout
    ports: [{port: 8080, protocol: HTTP}]
    sticky: {cookie: cm_checkout}
    variations:
      - {name: A, targets: ["127.0.0.1:9101"]}
      - {name: B, targets: ["127.0.0.1:9111"]}
stages:
  - name: Canary
    type: A/B
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 90}, {name: new_version, trafficPercentage: 10}]
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_conditions: [{name: minDuration, threshold: 10s}, {name: minCalls, threshold: "10"}]
    end_action: {onSuccess: Half}
  - name: Half
    type: WaitForSignal
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 50}, {name: new_version, trafficPercentage: 50}]
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: 10 %}
strategy: canary-10-25-50-100
"#;

fn with(from: &str, to: &str) -> String {
    let text = HYBRID.replacen(from, to, 1);
    assert_ne!(text, HYBRID, "{from}");
    text
}

fn table(strategy: &Strategy) -> String {
    let action = |action: Action| match action {
        Action::Rollout => "rollout".to_owned(),
        Action::Rollback => "rollback".to_owned(),
        Action::Stage(next) => strategy.stages[next].name.clone(),
    };
    let row = |(at, stage): (usize, &language::Stage)| {
        let (group, key) = (strategy.group_of_stage(at).name(), strategy.subject_key(stage.subject).unwrap());
        let (success, failure) = (action(stage.on_success), action(stage.on_failure));
        format!("{group:7} {key:16} {:6} {:>3} → {success}, {failure}\n", stage.name, stage.new_traffic)
    };
    strategy.stages.iter().enumerate().map(row).collect()
}

#[test]
fn the_stages_are_of_agents_and_then_of_routers() {
    let strategy = load(HYBRID);
    insta::assert_snapshot!(table(&strategy), @r#"
    agents  sieve            Canary  10 → Half, rollback
    agents  sieve            Half    50 → rollout, rollback
    routers service/checkout 10 %    10 → 25 %, rollback
    routers service/checkout 25 %    25 → 50 %, rollback
    routers service/checkout 50 %    50 → 100 %, rollback
    routers service/checkout 100 %  100 → rollout, rollback
    "#);
    assert!(strategy.is_hybrid() && strategy.rollout.is_some());
    assert_eq!(Group::ALL.map(|group| strategy.first_stage_of(group)), [0, 2]);
    assert_eq!(Group::ALL.map(|group| strategy.subjects_of(group)), [0b01, 0b10]);
    assert_eq!((strategy.success_path(), strategy.success_path_from(2)), (vec![0, 1], vec![2, 3, 4, 5]));
    assert!(strategy.reachable().iter().all(|reached| *reached));
    // To end in the roll-out is the same.
    assert_eq!(load(&with("onSuccess: 10 %", "onSuccess: rollout")).stages, strategy.stages);
}

#[test]
fn each_group_has_a_strategy_without_anything_of_the_other() {
    let strategy = load(HYBRID);
    let (agents, routers) = (strategy.of_group(Group::Agents), strategy.of_group(Group::Routers));
    assert_eq!(table(&agents) + &table(&routers), table(&strategy));
    for (part, group) in [(&agents, Group::Agents), (&routers, Group::Routers)] {
        assert!(table(part).lines().all(|line| line.starts_with(group.name())), "{}", table(part));
    }
    for (part, has, lacks) in [(&agents, "sieve", "checkout:"), (&routers, "shares:", "func_name")] {
        assert!(!part.is_hybrid());
        let text = render_full::in_place(part, "checkout-42", false);
        assert!(text.contains(has) && !text.contains(lacks), "{text}");
        let read = offer::read(&text).unwrap();
        assert_eq!((read.functions.len(), read.services.len()), (part.functions.len(), part.services.len()));
        // And as a manager below reads it.
        let read = check_from_parent(render_full::whole(part).as_bytes()).strategy.unwrap();
        assert_eq!(read.stages.len(), part.stages.len());
        assert_eq!(part.of_group(Group::Agents), *part, "it is divided already");
    }
}

#[test]
fn approvals_stay_with_the_stages_that_they_name() {
    let strategy = load(&with("strategy: c", "rollout: {approval: {stages: [Half, 25 %]}}\nstrategy: c"));
    let named = |group| strategy.of_group(group).rollout.unwrap().approval.unwrap().of;
    assert_eq!(named(Group::Agents), language::ApprovalOf::Stages(vec![1]));
    assert_eq!(named(Group::Routers), language::ApprovalOf::Stages(vec![1]));
}

#[test]
fn what_is_submitted_is_read_as_the_same_again() {
    let checked = check_submission(HYBRID.as_bytes());
    let (strategy, frozen) = (checked.strategy.unwrap(), checked.frozen.unwrap());
    assert_eq!(check_stored(&frozen).strategy.as_ref(), Some(&strategy));
    assert_eq!(check(&frozen).strategy.unwrap(), strategy);
}

#[test]
fn hybrid_strategy_routing_calls_to_untested_version_is_refused() {
    let mut said = String::new();
    let traffic = |name: &str, next: &str| {
        format!(
            "  - {{name: {name}, type: Traffic, shares: {{B: 100}}, end_action: {{onSuccess: {next}}}}}\n"
        )
    };
    let end = "strategy: canary-10-25-50-100\n";
    for text in [
        with("onSuccess: 10 %", "onSuccess: 25 %"),
        with("onSuccess: 10 %", "onSuccess: rollout, onFailure: 10 %"),
        HYBRID.replace("strategy: canary-10-25-50-100\n", "").replace("10 %}", "rollout}"),
        {
            let (before, after) = HYBRID.split_once("stages:").unwrap();
            format!("{before}strategy:{}", after.split_once("strategy:").unwrap().1)
        },
        with("onSuccess: 10 %", "onSuccess: rollout")
            .replace("stages:\n", &format!("stages:\n{}", traffic("T", "rollout"))),
        with("onSuccess: 10 %", "onSuccess: rollout").replace(end, &traffic("last", "Canary")),
        with("name: Half", "name: 10 %")
            .replace("onSuccess: Half", "onSuccess: rollout")
            .replace("onSuccess: 10 %", "onSuccess: rollout"),
    ] {
        assert!(check(&text).strategy.is_none(), "{text}");
        let errors =
            check(&text).diagnostics.into_iter().filter(|found| found.severity == language::Severity::Error);
        errors.for_each(|found| said.push_str(&format!("{}: {}\n", found.code, found.message)));
        said.push('\n');
    }
    insta::assert_snapshot!(said, @r#"
    order-of-groups: stage "Half" leads to stage "25 %", and routers begin with the first stage of a service, "10 %"

    order-of-groups: stage "Half" leads to stage "10 %" of a service when it fails: calls would go to what no agent has proven

    missing-stage: no stage shares out the calls of a service

    missing-stage: no stage tests a function, and routers begin only when the agents are done

    order-of-groups: agents go first, and the first stage is of a service

    order-of-groups: stage "last" of a service leads to stage "Canary" of a function, and agents go first

    duplicate-name: there are two stages "10 %", the first in line 23
    "#);
    assert!(!rendered(HYBRID).contains("error"), "{}", rendered(HYBRID));
}

#[test]
fn agents_and_routers_are_chosen_each_by_labels_of_their_own() {
    let strategy = load(
        &with("  - name: sieve\n", "  - name: sieve\n    agents: {labels: {tier: batch}}\n")
            .replace("  - name: checkout\n", "  - name: checkout\n    routers: {labels: {env: prod}}\n"),
    );
    let pair = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    assert_eq!(
        (&strategy.functions[0].agents, &strategy.services[0].routers),
        (&pair("tier", "batch"), &pair("env", "prod"))
    );
    assert_eq!(strategy.of_group(Group::Agents).functions, strategy.functions);
    let text = render_full::whole(&strategy.of_group(Group::Agents));
    assert_eq!(check_from_parent(text.as_bytes()).strategy.unwrap().functions, strategy.functions);
}

#[test]
fn no_offer_has_both() {
    let whole = render_full::in_place(&load(HYBRID), "checkout-42", false);
    let faults = offer::read(&whole).unwrap_err();
    assert!(faults.iter().any(|fault| fault.message.contains("and not both")), "{faults:?}");
    let from_parent = render_full::whole(&load(HYBRID)) + "from_above: {classes: true}\n";
    let checked = check_from_parent(from_parent.as_bytes());
    assert!(checked.strategy.is_none(), "{from_parent}");
}
