//! What AWS's API may do to whoever calls it, and what is said of that.

use std::{sync::Arc, time::Duration};

use router::{Router, RouterError, aws_alb::Settings};
use traffic::observed::differences;

use super::{
    aws::Fault,
    real::{RealAlb, open_by},
};
use crate::{
    conformance::{Real as _, comes_true, done, state::with_shares},
    world::{
        backend::Backend,
        wants::{service, wanted},
    },
};

/// What no text may hold: what `tests/routers.sh` has AWS's chain of credentials find.
fn check_said(error: &RouterError) -> String {
    let said = error.to_string();
    assert!(!said.contains('\n') && said.len() < 600, "{said}");
    for text in [&said, &format!("{error:?}")] {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
            let secret = std::env::var(name).expect("tests/run sets it");
            assert!(!text.contains(&secret), "{text}");
        }
    }
    said
}

/// A load balancer that is led, with one service.
async fn led() -> (RealAlb, Arc<dyn Router>, traffic::desired::ServiceSpec, [Backend; 2]) {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    done(&router, &wanted(1, &[&spec])).await;
    real.aws.came();
    (real, router, spec, backends)
}

/// Ten minutes of refusals, as often as a controller asks in them: a read every two seconds. What the SDK repeats by itself is cut short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throttled_for_ten_minutes_it_says_so_each_time_and_then_goes_on() {
    let (real, _, spec, _backends) = led().await;
    let hasty = Settings { time_limit: Duration::from_millis(100), ..real.settings(real.aws.at) };
    let router = open_by(hasty);
    real.aws.always(Some(Fault::Throttled));
    let mut throttled = 0;
    for _ in 0..300 {
        let error = router.read().await.unwrap_err();
        let said = check_said(&error);
        match error {
            RouterError::Away { .. } if said.contains("Throttling: it is called more often") => {
                throttled += 1;
            }
            RouterError::Silent { .. } => {}
            error => panic!("{error}"),
        }
    }
    // Where it has the time to be told that, it says that.
    assert!(throttled > 0);
    let asked = real.aws.came().len();
    assert!(asked <= 4 * 300, "{asked}: each call is made four times at most");
    let error = real.open().apply(&wanted(2, &[&with_shares(&spec, &[5_000, 5_000])])).await.unwrap_err();
    assert!(
        check_said(&error).contains("Throttling: it is called more often than AWS lets this account"),
        "{error}"
    );
    assert!(real.aws.changes().is_empty());
    real.aws.always(None);
    done(&real.open(), &wanted(2, &[&with_shares(&spec, &[5_000, 5_000])])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_fails_for_a_moment_is_made_again() {
    let (real, router, spec, _backends) = led().await;
    for (generation, fault) in (2..).zip([Fault::Throttled, Fault::Broken]) {
        real.aws.next([fault, fault]);
        let shares = [10_000 - 100 * generation, 100 * generation];
        done(&router, &wanted(generation.into(), &[&with_shares(&spec, &shares)])).await;
        let came = real.aws.came();
        let first = came.iter().filter(|(action, _)| *action == came[0].0).count();
        assert!(first >= 3, "{came:?}");
    }
}

/// A call that was carried out and never answered isn't carried out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_gets_lost_leaves_nothing_behind() {
    let (real, _, spec, backends) = led().await;
    let hasty = Settings { time_limit: Duration::from_millis(700), ..real.settings(real.aws.at) };
    let more = service("more", real.port(), &backends, &[9_000, 1_000]);
    let next = wanted(2, &[&spec, &more]);
    let router = open_by(hasty);
    let mut lost = 0;
    loop {
        // Each time more calls come through.
        real.aws.next((0..lost).map(|_| Fault::Passes));
        real.aws.always(Some(Fault::Unanswered));
        let applied = router.apply(&next).await;
        real.aws.always(None);
        real.aws.forget();
        if applied.is_ok() {
            break;
        }
        check_said(&applied.unwrap_err());
        lost += 1 + lost / 4;
    }
    assert!(lost > 8, "{lost}");
    done(&router, &next).await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
    assert_eq!(real.rules().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_is_silent_is_waited_for_longer_than_the_limit() {
    let (real, _, spec, _backends) = led().await;
    let router = open_by(Settings { time_limit: Duration::from_millis(200), ..real.settings(real.aws.at) });
    real.aws.always(Some(Fault::Silent));
    for error in [
        router.read().await.unwrap_err(),
        router.apply(&wanted(1, &[&spec])).await.unwrap_err(),
        router.check(None).await.unwrap_err(),
        router.adopt("checkout").await.unwrap_err(),
    ] {
        let said = check_said(&error);
        assert!(
            matches!(error, RouterError::Silent { within, .. } if within == Duration::from_millis(200)),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_aws_refuses_is_said_in_one_line_each_and_no_secret_with_it() {
    let (real, router, spec, _backends) = led().await;
    let mut said = Vec::new();
    for code in
        ["ExpiredToken", "AccessDenied", "SignatureDoesNotMatch", "ListenerNotFound", "LoadBalancerNotFound"]
    {
        real.aws.always(Some(Fault::Refused(code)));
        said.push(check_said(&router.read().await.unwrap_err()));
    }
    real.aws.always(None);
    let other = with_shares(&spec, &[5_000, 5_000]);
    let more = service("more", real.port(), &[Backend::start("A").await], &[10_000]);
    for (at, code) in ["TooManyRules", "TargetGroupNotFound", "PriorityInUse"].into_iter().enumerate() {
        real.aws.on_change(Some(Fault::Refused(code)));
        let error = router.apply(&wanted(2 + at as u64, &[&other, &more])).await.unwrap_err();
        said.push(check_said(&error));
    }
    real.aws.on_change(None);
    // The end of a group's name depends on that of the load balancer.
    let said = said.join("\n").replace(&real.arn, "(LOAD BALANCER)");
    let said: Vec<&str> = said.split("cm-more-A-").collect();
    let said = said.iter().enumerate().map(|(at, part)| if at == 0 { part } else { &part[10..] });
    insta::assert_snapshot!(said.collect::<Vec<_>>().join("cm-more-A"), @r"
    the AWS ALB can't be reached: asking for its listeners: ExpiredToken: of the tests
    the AWS ALB can't do that: asking for the load balancer (LOAD BALANCER): AccessDenied: of the tests
    the AWS ALB can't be reached: asking for the load balancer (LOAD BALANCER): SignatureDoesNotMatch: AWS takes these credentials for none
    the AWS ALB can't be reached: asking for the load balancer (LOAD BALANCER): ListenerNotFound: of the tests
    the AWS ALB can't be reached: asking for the load balancer (LOAD BALANCER): LoadBalancerNotFound: of the tests
    the AWS ALB can't do that: creating the target group cm-more-A: TooManyRules: of the tests
    the AWS ALB can't be reached: creating the target group cm-more-A: TargetGroupNotFound: of the tests
    the AWS ALB can't be reached: creating the target group cm-more-A: PriorityInUse: of the tests
    ");
    // What can't be had for a moment is had at the next try.
    done(&router, &wanted(9, &[&other, &more])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_takes_effect_late_counts_once_it_is_read_back() {
    let (real, router, spec, _backends) = led().await;
    let next = wanted(2, &[&with_shares(&spec, &[5_000, 5_000])]);
    // The change of the rule; that of its tags comes after it, and brings it about.
    real.aws.on_change(Some(Fault::Late));
    router.apply(&next).await.unwrap();
    assert!(!differences(&next, &router.read().await.unwrap()).is_empty(), "it isn't there yet");
    real.aws.on_change(None);
    done(&router, &next).await;
    comes_true(&router, &next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_that_is_none_is_said_to_be_none() {
    let (real, ..) = led().await;
    let nobody = Settings { load_balancer: "nobody".to_owned(), ..real.settings(real.aws.at) };
    let folder = nobody.folder.with_file_name("nobody");
    let error = open_by(Settings { folder, ..nobody }).read().await.unwrap_err();
    assert!(check_said(&error).contains("the load balancer nobody"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_has_not_is_said() {
    let (_real, router, ..) = led().await;
    assert!(router.reload().await.unwrap_err().to_string().contains("nothing to load"));
    assert!(
        router.check(Some("/etc/alb".as_ref())).await.unwrap_err().to_string().contains("no configuration")
    );
    assert_eq!(router.connections("checkout", "A").await.unwrap(), None);
    let shown = format!("{router:?}");
    assert!(shown.contains("load_balancer") && !shown.contains("testssecretkey"), "{shown}");
}
