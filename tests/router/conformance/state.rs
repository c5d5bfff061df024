//! What is wanted, what is there, and what is on disk.

use router::RouterError;
use traffic::{
    desired::{ServiceSpec, StickyTo},
    observed::{Difference, differences},
};

use super::{Real, comes_true, done};
use crate::world::{
    backend::Backend,
    caller::Caller,
    wants::{HEADER, number, rule, service, shares, wanted},
};

/// Has a service with these shares in the place of what it had.
pub fn with_shares(spec: &ServiceSpec, hundredths: &[u16]) -> ServiceSpec {
    let mut spec = spec.clone();
    spec.table = spec.table.with_shares(&shares(hundredths)).unwrap();
    spec
}

pub async fn what_was_applied_is_read_back<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    assert_eq!(router.kind(), R::KIND);
    let nothing = router.read().await.unwrap();
    assert_eq!((nothing.number, nothing.services.len(), nothing.left_over.len()), (None, 0, 0));
    let backends = Backend::start_all(["A", "B", "C"]).await;
    let mut plain = service("Plain", real.port(), &backends[..1], &[10_000]);
    let mut cookie = service("checkout", real.port(), &backends, &[3_333, 3_333, 3_334]);
    let mut header = service("checkout.eu-1", real.port(), &backends[..2], &[1, 9_999]);
    for spec in [&mut plain, &mut cookie, &mut header] {
        spec.hash = R::HASH;
    }
    plain.sticky = None;
    cookie.variations[1].targets.extend([backends[0].target.clone(), backends[2].target.clone()]);
    cookie.rule = Some(rule(&[("B", 1), ("C", 2)]));
    header.sticky = Some(StickyTo::Header(HEADER.parse().unwrap()));
    let all = wanted(1, &[&plain, &cookie, &header]);
    assert!(done(&router, &all).await.was_reloaded);
    let seen = router.read().await.unwrap();
    assert_eq!(seen.number, Some(number(1)));
    for service in all.services() {
        let there = &seen.services[service.name.as_str()];
        assert_eq!(there.table.as_ref(), Some(&service.table), "this kind tells buckets");
        let shares: Vec<u16> = there.variations.iter().map(|one| one.hundredths).collect();
        assert_eq!(shares, service.table.hundredths());
    }
    // Whoever asks later, without having told it anything, reads the same.
    drop(router);
    assert_eq!(real.open().read().await.unwrap(), seen);
}

pub async fn hundreds_of_services_are_read_back_and_change_without_a_reload<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec_of = |at: usize| {
        let mut spec = service(&format!("service-{at}"), real.port(), &backends, &[9_990, 10]);
        spec.hash = R::HASH;
        spec.rule = Some(rule(&[("B", 1)]));
        spec
    };
    let mut specs: Vec<ServiceSpec> = (0..R::MANY).map(spec_of).collect();
    let first = done(&router, &wanted(1, &specs.iter().collect::<Vec<_>>())).await;
    assert_eq!(first.was_reloaded, R::RELOADS);
    assert_eq!(router.read().await.unwrap().services.len(), R::MANY);
    specs[R::MANY / 2] = with_shares(&specs[R::MANY / 2], &[0, 10_000]);
    assert!(!done(&router, &wanted(2, &specs.iter().collect::<Vec<_>>())).await.was_reloaded);
    let mut caller = Caller::new(real.at(specs[R::MANY / 2].listens[0].port));
    assert_eq!(caller.variation(&[]).await, "B");
}

pub async fn to_apply_the_same_again_changes_nothing<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    let (seen, on_disk) = (router.read().await.unwrap(), real.on_disk());
    for _ in 0..2 {
        assert!(!done(&router, &wanted).await.was_reloaded);
        assert_eq!((router.read().await.unwrap(), real.on_disk()), (seen.clone(), on_disk.clone()));
    }
    drop(router);
    assert!(!done(&real.open(), &wanted).await.was_reloaded, "nor by whoever comes after");
    assert_eq!(real.on_disk(), on_disk);
}

pub async fn targets_lead_elsewhere_once_that_was_applied<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let elsewhere = Backend::start("elsewhere").await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[0, 10_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    assert_eq!(caller.variation(&[]).await, "B");
    spec.variations[1].targets = vec![elsewhere.target.clone()];
    done(&router, &wanted(2, &[&spec])).await;
    // A connection that was there before may have been closed by then.
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "elsewhere");
    // The new version becomes the stable one, and another one comes.
    let promoted = [elsewhere, Backend::start("C").await];
    let mut next = service("checkout", port, &promoted, &[10_000, 0]);
    next.hash = R::HASH;
    next.variations[0].name = "B".parse().unwrap();
    done(&router, &wanted(3, &[&next])).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "elsewhere");
    let seen = router.read().await.unwrap();
    assert_eq!(seen.services["checkout"].variations[0].name, "B");
}

pub async fn a_service_that_is_wanted_no_more_goes_wholly<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let before = real.on_disk();
    let backends = Backend::start_all(["A", "B"]).await;
    let (port, other) = (real.port(), real.port());
    let mut stays = service("remaining", other, &backends, &[5_000, 5_000]);
    let mut goes = service("departing", port, &backends, &[5_000, 5_000]);
    (stays.hash, goes.hash) = (R::HASH, R::HASH);
    done(&router, &wanted(1, &[&goes, &stays])).await;
    done(&router, &wanted(2, &[&stays])).await;
    let seen = router.read().await.unwrap();
    assert_eq!((seen.services.len(), seen.left_over), (1, Vec::new()));
    assert!(Caller::new(real.at(port)).try_get("/", &[]).await.is_err(), "nobody listens there any more");
    Caller::new(real.at(other)).get("/", &[]).await;
    done(&router, &wanted(3, &[])).await;
    assert!(Caller::new(real.at(other)).try_get("/", &[]).await.is_err());
    let text = |files: &std::collections::BTreeMap<_, Vec<u8>>| {
        files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect::<String>()
    };
    let (before, after) = (text(&before), text(&real.on_disk()));
    assert!(!after.contains("remaining") && !after.contains("departing"), "{before}\nbecame\n{after}");
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
}

pub async fn an_older_number_is_refused_also_after_both_were_started_anew<R: Real>() {
    let mut real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    let newer = wanted(5, &[&spec]);
    let older = wanted(4, &[&with_shares(&spec, &[5_000, 5_000])]);
    done(&router, &newer).await;
    let refused = async |router: &std::sync::Arc<dyn router::Router>| {
        let error = router.apply(&older).await.unwrap_err();
        let is_older = matches!(error, RouterError::Older { asked, newest } if (asked, newest) == (number(4), number(5)));
        assert!(is_older, "{error}");
        comes_true(router, &newer).await;
    };
    refused(&router).await;
    drop(router);
    refused(&real.open()).await;
    real.start_again().await;
    refused(&real.open()).await;
    real.kill().await;
    real.start_again().await;
    let router = real.open();
    let error = router.apply(&older).await.unwrap_err();
    assert!(matches!(error, RouterError::Older { .. }), "{error}");
    // Of a lease that began before, too; of a later one, however small its generation.
    let with_epoch = |epoch, generation| {
        let number = traffic::desired::Number { epoch, generation };
        let spec = traffic::desired::Service::new(spec.clone()).unwrap();
        traffic::desired::DesiredConfig::new(number, vec![spec]).unwrap()
    };
    let error = router.apply(&with_epoch(2, 99)).await.unwrap_err();
    assert!(matches!(error, RouterError::Older { .. }), "{error}");
    done(&router, &with_epoch(4, 1)).await;
}

pub async fn a_refused_configuration_leaves_the_one_before_in_force<R: Real>() {
    let mut real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[0, 10_000]);
    spec.hash = R::HASH;
    let good = wanted(1, &[&spec]);
    done(&router, &good).await;
    let on_disk = real.on_disk();
    let mut more = service("more", real.port(), &backends, &[0, 10_000]);
    more.hash = R::HASH;
    real.spoil(true);
    let error = router.apply(&wanted(2, &[&spec, &more])).await.unwrap_err();
    assert!(matches!(&error, RouterError::Refused { said, .. } if !said.is_empty()), "{error}");
    assert_eq!(real.on_disk(), on_disk);
    let refused = router.check(None).await.unwrap().refused.expect("its own check says why");
    assert!(!refused.is_empty());
    assert!(matches!(router.reload().await.unwrap_err(), RouterError::Refused { .. }));
    let seen = router.read().await.unwrap();
    assert!(seen.services.len() == 1, "it goes on as it was");
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    real.spoil(false);
    assert_eq!(router.check(None).await.unwrap().refused, None);
    real.start_again().await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    router.reload().await.unwrap();
    done(&router, &wanted(3, &[&spec, &more])).await;
    // Ports that somebody else has.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let on_disk = real.on_disk();
    let mut third = service("third", taken.local_addr().unwrap().port(), &backends, &[10_000, 0]);
    third.hash = R::HASH;
    let error = router.apply(&wanted(4, &[&spec, &more, &third])).await.unwrap_err();
    assert!(matches!(error, RouterError::Refused { .. }), "{error}");
    assert_eq!(real.on_disk(), on_disk);
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
}

pub async fn what_belongs_to_others_stays_as_it_is<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let of_others = real.of_others();
    assert!(!of_others.is_empty());
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    done(&router, &wanted(2, &[&with_shares(&spec, &[0, 10_000])])).await;
    real.spoil(true);
    let with_others = real.of_others();
    let mut more = service("more", real.port(), &backends, &[9_000, 1_000]);
    more.hash = R::HASH;
    router.apply(&wanted(3, &[&more])).await.unwrap_err();
    assert_eq!(real.of_others(), with_others);
    real.spoil(false);
    done(&router, &wanted(4, &[])).await;
    assert_eq!(real.of_others(), of_others);
}

pub async fn what_was_changed_by_hand_is_seen_and_repaired<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[6_000, 4_000]);
    spec.hash = R::HASH;
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    real.meddle("checkout").await;
    let seen = router.read().await.unwrap();
    let differ = differences(&wanted, &seen);
    let is_shares = |one: &Difference| matches!(one, Difference::Shares { service, seen, .. } if service == "checkout" && seen == &[8_000, 2_000]);
    assert!(differ.iter().any(is_shares), "{differ:?}");
    done(&router, &wanted).await;
}

pub async fn what_was_left_over_is_listed<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[6_000, 4_000]);
    spec.hash = R::HASH;
    let before = wanted(1, &[&spec]);
    done(&router, &before).await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
    let left = real.leave_over().await;
    let checked = router.check(None).await.unwrap();
    assert_eq!(checked.refused, None);
    assert!(checked.left_over.iter().any(|one| one.contains(&left)), "{left}: {checked:?}");
    assert!(router.read().await.unwrap().left_over.iter().any(|one| one.contains(&left)));
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0], "to apply takes it away");
}
