//! The task that leads a router, on a clock that only goes on while nothing else does.

use std::{sync::Arc, time::Duration};

use router::{
    controller::{DriveSettings, Lead, OnDrift, Phase, RouterEvent, Status},
    health::Fault,
};
use tokio::sync::broadcast::Receiver;
use traffic::{
    desired::{DesiredConfig, ServiceSpec},
    observed::ObservedConfig,
};

use super::{
    fake::{FakeRouter, Turn},
    states::{edit, obeyed, shares, spec, target, wanted_of},
};
use crate::{
    health::{BAD, Backend, GOOD, how},
    names::Scripted,
};

/// Not looked at: these tests have no network.
fn unchecked(hundredths: &[u16]) -> ServiceSpec {
    let mut spec = spec("shop", 8080, hundredths);
    spec.variations.iter_mut().for_each(|variation| variation.health = None);
    spec
}

fn shop(generation: u64, hundredths: &[u16]) -> DesiredConfig {
    wanted_of(generation, vec![unchecked(hundredths)])
}

struct Led {
    lead: Lead,
    router: Arc<FakeRouter>,
    names: Arc<Scripted>,
    facts: Receiver<RouterEvent>,
}

fn led() -> Led {
    let (router, names) = (Arc::new(FakeRouter::default()), Arc::new(Scripted::default()));
    let settings = DriveSettings::of(&*router);
    let lead = Lead::start(Arc::clone(&router) as _, Arc::clone(&names) as _, settings);
    let facts = lead.facts();
    Led { lead, router, names, facts }
}

impl Led {
    async fn until(&self, is_so: impl FnMut(&Arc<Status>) -> bool) -> Arc<Status> {
        self.lead.status().wait_for(is_so).await.unwrap().clone()
    }

    async fn until_in_force(&self, generation: u64) -> Arc<Status> {
        self.until(|status| {
            status.phase == Phase::InForce && status.wanted.is_some_and(|one| one.generation == generation)
        })
        .await
    }

    async fn said(&mut self, is_it: impl Fn(&RouterEvent) -> bool) -> RouterEvent {
        loop {
            let fact = self.facts.recv().await.unwrap();
            if is_it(&fact) {
                return fact;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wanted_comes_to_be_in_force() {
    let led = led();
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    let status = led.until_in_force(1).await;
    assert_eq!(status.seen.as_deref(), Some(&obeyed(&shop(1, &[9_000, 1_000]))));
    led.lead.want(shop(2, &[5_000, 5_000])).await.unwrap();
    led.until_in_force(2).await;
    assert_eq!(led.router.inside().told.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_drift_is_told_and_repaired() {
    let mut led = led();
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    led.until_in_force(1).await;
    edit(&mut led.router.inside().does, "shop", &[0, 10_000]);
    let drift = led.said(|fact| matches!(fact, RouterEvent::Drift { .. })).await;
    insta::assert_snapshot!(drift, @"drift: shop is shared 0/100 %, and is to be 90/10 %; it is told again");
    led.said(|fact| matches!(fact, RouterEvent::InForce { .. })).await;
    assert_eq!(shares(&led.router.inside().does, "shop"), [9_000, 1_000]);
    led.lead.on_drift(OnDrift::Pause).await.unwrap();
    led.router.inside().does = ObservedConfig::default();
    led.until(|status| status.phase == Phase::Paused).await;
    led.lead.repair().await.unwrap();
    led.until_in_force(1).await;
    assert_eq!(shares(&led.router.inside().does, "shop"), [9_000, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn a_router_that_refuses_lies_hangs_or_breaks_off_gets_there() {
    let mut led = led();
    led.router.inside().applies.extend([Turn::Refuse, Turn::Panic, Turn::Lie, Turn::Hang]);
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    let refused = led.said(|fact| matches!(fact, RouterEvent::Trouble { .. })).await;
    insta::assert_snapshot!(refused, @"fake refuses the configuration, and the one before stays in force: line 1; line 2[31m");
    led.said(|fact| fact.to_string() == "what was to be done broke off").await;
    led.said(|fact| fact.to_string().contains("does something else")).await;
    led.said(|fact| fact.to_string() == "the router takes too long to take what it is told").await;
    led.until_in_force(1).await;
    // One that hangs keeps nothing newer back.
    led.router.inside().applies.push_back(Turn::Hang);
    led.lead.want(shop(2, &[5_000, 5_000])).await.unwrap();
    led.until(|status| status.wanted.is_some_and(|wanted| wanted.generation == 2)).await;
    while !led.router.inside().applies.is_empty() {
        tokio::task::yield_now().await;
    }
    led.lead.want(shop(3, &[10_000, 0])).await.unwrap();
    let began = tokio::time::Instant::now();
    led.until_in_force(3).await;
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_router_that_goes_away_and_comes_back_is_told_of() {
    let mut led = led();
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    led.until_in_force(1).await;
    led.router.inside().is_away = true;
    let away = led.said(|fact| matches!(fact, RouterEvent::Away { .. })).await;
    insta::assert_snapshot!(away, @"it can't be read: fake can't be reached: reading: connection refused");
    led.until(|status| !status.is_reached).await;
    led.router.inside().is_away = false;
    led.said(|fact| *fact == RouterEvent::Back).await;
}

#[tokio::test(start_paused = true)]
async fn names_are_resolved_first_and_followed() {
    let mut led = led();
    let mut named = unchecked(&[9_000, 1_000]);
    named.variations[1].targets = vec![target("b.example:9000")];
    led.lead.want(wanted_of(1, vec![named])).await.unwrap();
    led.until(|status| status.trouble.as_ref().is_some_and(|text| text.contains("can't be resolved"))).await;
    led.names.set("b.example", &["10.1.1.1", "10.1.1.2"]);
    led.until_in_force(1).await;
    let targets = |led: &Led| -> Vec<String> {
        let inside = led.router.inside();
        inside.does.services["shop"].variations[1].targets.iter().map(|one| one.target.to_string()).collect()
    };
    assert_eq!(targets(&led), ["10.1.1.1:9000", "10.1.1.2:9000"]);
    led.names.set("b.example", &["10.1.1.2", "10.1.1.3"]);
    let leaving = led.said(|fact| matches!(fact, RouterEvent::Leaving { .. })).await;
    insta::assert_snapshot!(leaving, @"10.1.1.1:9000 is no target of B of shop any more");
    led.said(|fact| matches!(fact, RouterEvent::InForce { .. })).await;
    assert_eq!(targets(&led), ["10.1.1.2:9000", "10.1.1.3:9000"]);
    // An answer that leads back to the router is refused, and the last one counts.
    let mut with_port = unchecked(&[9_000, 1_000]);
    with_port.variations[1].targets = vec![target("b.example:8080")];
    led.lead.want(wanted_of(2, vec![with_port])).await.unwrap();
    led.until_in_force(2).await;
    led.names.set("b.example", &["10.1.1.2", "127.0.0.5"]);
    let stale = led.said(|fact| matches!(fact, RouterEvent::Stale { .. })).await;
    insta::assert_snapshot!(stale, @"the target b.example:8080 of variation B of service shop: it leads to 127.0.0.5, where this router itself listens: calls would go round; what is known counts");
    assert_eq!(targets(&led), ["10.1.1.2:8080", "10.1.1.3:8080"]);
}

#[tokio::test(start_paused = true)]
async fn drains_are_told_at_their_end() {
    let mut led = led();
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    led.until_in_force(1).await;
    led.router.inside().connections = Some(2);
    led.lead.want(shop(2, &[10_000, 0])).await.unwrap();
    led.lead.drain("shop", "B", Duration::from_mins(1)).await.unwrap();
    led.until(|status| status.draining.first().is_some_and(|drain| drain.left == Some(2))).await;
    led.router.inside().connections = Some(0);
    let drained = led.said(|fact| matches!(fact, RouterEvent::Drained { .. })).await;
    insta::assert_snapshot!(drained, @"B of shop is drained");
}

#[tokio::test(start_paused = true)]
async fn router_no_longer_managed_is_left_unchanged() {
    let led = led();
    led.lead.want(shop(1, &[9_000, 1_000])).await.unwrap();
    led.until_in_force(1).await;
    let Led { lead, router, .. } = led;
    drop(lead);
    edit(&mut router.inside().does, "shop", &[5_000, 5_000]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(shares(&router.inside().does, "shop"), [5_000, 5_000]);
    assert_eq!(router.inside().told.len(), 1);
}

/// With checks over real connections.
#[tokio::test]
async fn a_candidate_whose_targets_die_loses_its_share_and_gets_it_back_as_it_was() {
    let (a, b) = (Backend::start(GOOD).await, Backend::start(GOOD).await);
    let mut led = led();
    let mut spec = spec("shop", 1, &[7_500, 2_500]);
    for (variation, backend) in spec.variations.iter_mut().zip([&a, &b]) {
        variation.targets = vec![backend.target()];
        variation.health = Some(how(Some("/ready")));
    }
    let wanted = wanted_of(1, vec![spec]);
    led.lead.want(wanted.clone()).await.unwrap();
    let is_all =
        |fact: &RouterEvent| matches!(fact, RouterEvent::InForce { departures, .. } if departures.is_empty());
    led.said(is_all).await;
    assert_eq!(led.router.inside().does, obeyed(&wanted));
    b.says.send_replace(BAD.to_vec());
    led.said(|fact| matches!(fact, RouterEvent::InForce { .. })).await;
    assert_eq!(shares(&led.router.inside().does, "shop"), [10_000, 0]);
    let found = led.lead.found().borrow().clone();
    assert_eq!(found.faults.values().next(), Some(&Fault::Status(503)));
    b.says.send_replace(GOOD.to_vec());
    led.said(is_all).await;
    assert_eq!(led.router.inside().does, obeyed(&wanted));
    // The stable variation serves on, whatever its checks say, and somebody is to look at it.
    a.says.send_replace(BAD.to_vec());
    let alarm = led.said(RouterEvent::is_alarm).await;
    assert!(alarm.to_string().starts_with("A of shop is the stable variation and has no healthy target"));
    assert_eq!(led.router.inside().does, obeyed(&wanted));
}
