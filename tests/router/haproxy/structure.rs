//! What takes a reload, and what becomes of it.

use router::haproxy::config::Folder;
use router::{
    Router as _, RouterError,
    haproxy::{Haproxy, Reload, Settings},
};
use traffic::{HashFunction, desired::ServiceSpec};

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done, state::with_shares},
    world::{
        backend::Backend,
        caller::Caller,
        place::free_port,
        wants::{RULE, rule, service, wanted},
    },
};

fn spec_of(backends: &[Backend], port: u16) -> ServiceSpec {
    let mut spec = service("checkout", port, backends, &[10_000, 0]);
    spec.hash = HashFunction::Xxh32;
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_a_rule_change_without_a_reload() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = spec_of(&backends, port);
    spec.rule = Some(rule(&[("B", 1)]));
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    assert_eq!(caller.variation(&[(RULE, "B")]).await, "B");
    spec.rule = Some(rule(&[("canary", 1), ("B", 0)]));
    assert!(!done(&router, &wanted(2, &[&spec])).await.was_reloaded);
    assert_eq!(caller.variation(&[(RULE, "B")]).await, "A");
    assert_eq!(caller.variation(&[(RULE, "canary")]).await, "B");
    spec.rule = Some(rule(&[]));
    assert!(!done(&router, &wanted(3, &[&spec])).await.was_reloaded);
    assert_eq!(caller.variation(&[(RULE, "canary")]).await, "A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_was_changed_by_hand_is_seen_and_repaired() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = spec_of(&backends, free_port());
    spec.rule = Some(rule(&[("B", 1)]));
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    let mut runtime = real.runtime().await;
    let map = runtime.map("checkout.rule").await;
    runtime.obeys(&format!("set map {map} 42 A")).await;
    assert_eq!(router.read().await.unwrap().number, None);
    assert!(!done(&router, &wanted).await.was_reloaded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_was_given_another_address_by_hand_is_seen_and_repaired() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let elsewhere = Backend::start("elsewhere").await;
    let port = free_port();
    let spec = spec_of(&backends, port);
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    let target = &backends[0].target;
    let command =
        format!("set server choirmaster:checkout:A/{target} addr 127.0.0.1 port {}", elsewhere.target.port);
    real.runtime().await.ask(&command).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "elsewhere");
    let seen = router.read().await.unwrap();
    assert_eq!(seen.services["checkout"].variations[0].targets[0].target, elsewhere.target);
    assert!(done(&router, &wanted).await.was_reloaded);
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "A");
}

/// Their section of the same name: a reload doesn't take it away, and isn't tried again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_marked_as_ours_is_listed_and_stays() {
    let mut real = RealHaproxy::start().await;
    real.write_operators("backend choirmaster:ghost:A\n    server one 127.0.0.1:9\n");
    real.start_again().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = spec_of(&backends, free_port());
    router.apply(&wanted(1, &[&spec])).await.unwrap();
    for (generation, share) in [(2, 1_000), (3, 0)] {
        let next = wanted(generation, &[&with_shares(&spec, &[10_000 - share, share])]);
        assert!(!router.apply(&next).await.unwrap().was_reloaded);
        assert_eq!(router.read().await.unwrap().left_over, ["choirmaster:ghost:A"]);
    }
    assert_eq!(router.check(None).await.unwrap().left_over, ["choirmaster:ghost:A"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_whose_name_leads_nowhere_or_back_is_refused() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = spec_of(&backends, port);
    let stays = router.read().await.unwrap();
    spec.variations[1].targets = vec!["nobody.invalid:9000".parse().unwrap()];
    let error = router.apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(
        matches!(&error, RouterError::Refused { said, .. } if said.contains("nobody.invalid:9000")),
        "{error}"
    );
    assert_eq!(router.read().await.unwrap(), stays);
    spec.variations[1].targets = vec![format!("localhost:{}", backends[1].target.port).parse().unwrap()];
    spec.table = spec.table.with_shares(&crate::world::wants::shares(&[0, 10_000])).unwrap();
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_than_its_master_is_sent_no_signal() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = spec_of(&backends, free_port());
    done(&router, &wanted(1, &[&spec])).await;
    let on_disk = real.on_disk();
    // It would end by such a signal.
    let mut other = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let pid = real.settings().pid;
    let of_master = std::fs::read(&pid).unwrap();
    for text in
        [other.id().unwrap().to_string(), "1".to_owned(), "-1".to_owned(), "0".to_owned(), "x".to_owned()]
    {
        std::fs::write(&pid, text).unwrap();
        let more = {
            let mut more = spec_of(&backends, free_port());
            more.name = "more".parse().unwrap();
            more
        };
        let error = router.apply(&wanted(2, &[&spec, &more])).await.unwrap_err();
        assert!(matches!(&error, RouterError::File { path, .. } if *path == pid), "{error}");
        assert_eq!(real.on_disk(), on_disk);
    }
    assert!(other.try_wait().unwrap().is_none());
    std::fs::write(&pid, of_master).unwrap();
    router.reload().await.unwrap();
}

/// Tells it a first service by these settings, until it says what is the matter with it.
async fn trouble_of(settings: &Settings, spec: &ServiceSpec, with: &str) -> String {
    let mut last = String::new();
    // How long a process takes to come up is the machine's matter.
    for seconds in [1, 2, 4, 8, 16, 32] {
        let mut settings = settings.clone();
        settings.limits.reload = std::time::Duration::from_secs(seconds);
        let haproxy = Haproxy::open(settings).unwrap();
        last = haproxy.apply(&wanted(seconds, &[spec])).await.unwrap_err().to_string();
        if last.contains(with) {
            break;
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_given_another_file_is_told_from_none() {
    let real = RealHaproxy::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = spec_of(&backends, free_port());
    let mut idle = real.settings();
    idle.reload = Reload::Command(vec!["true".into()]);
    let pid = real.runtime().await.pid().await;
    let said = trouble_of(&idle, &spec, "goes on").await;
    assert!(said.contains(&format!("process {pid} goes on, and none came up")), "{said}");
    let mut elsewhere = real.settings();
    elsewhere.frame.folder = Folder::new(&real.section().with_file_name("elsewhere")).unwrap();
    let said = trouble_of(&elsewhere, &spec, "is it its last -f?").await;
    assert!(said.contains("elsewhere/choirmaster.cfg: is it its last -f?"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_may_reload_it_and_may_fail() {
    let real = RealHaproxy::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = spec_of(&backends, free_port());
    let with = |words: &[&str]| {
        let mut settings = real.settings();
        settings.reload = Reload::Command(words.iter().map(|&word| word.into()).collect());
        Haproxy::open(settings).unwrap()
    };
    let before = real.on_disk();
    let failing = with(&["sh", "-c", "echo it is Sunday >&2; exit 3"]);
    let error = failing.apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(matches!(&error, RouterError::Refused { said, .. } if said == "it is Sunday"), "{error}");
    assert_eq!(real.on_disk(), before);
    drop(failing);
    let kill = format!("kill -USR2 $(cat {})", real.settings().pid.display());
    let haproxy = with(&["sh", "-c", &kill]);
    assert!(haproxy.apply(&wanted(2, &[&spec])).await.unwrap().was_reloaded);
}

/// It was put on disk while the process that serves could not be asked, and can't come up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_config_written_blindly_is_restored_if_it_fails() {
    let mut real = RealHaproxy::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let (port, other) = (free_port(), free_port());
    let spec = spec_of(&backends, port);
    done(&router, &wanted(1, &[&spec])).await;
    let on_disk = real.on_disk();
    drop(router);
    let mut more = spec_of(&backends, other);
    more.name = "more".parse().unwrap();
    let blind = {
        let mut settings = real.settings();
        settings.socket = settings.socket.with_extension("nobody");
        Haproxy::open(settings).unwrap()
    };
    let error = blind.apply(&wanted(2, &[&spec, &more])).await.unwrap_err();
    assert!(matches!(error, RouterError::Away { .. }), "{error}");
    assert!(std::fs::read_to_string(real.section()).unwrap().contains("choirmaster:more"));
    drop(blind);
    let taken = std::net::TcpListener::bind(real.at(other)).unwrap();
    let router = real.open();
    let error = router.apply(&wanted(3, &[&spec, &more])).await.unwrap_err();
    assert!(matches!(error, RouterError::Refused { .. }), "{error}");
    assert_eq!(real.on_disk(), on_disk);
    real.start_again().await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "A");
    drop(taken);
    done(&router, &wanted(4, &[&spec, &more])).await;
    assert_eq!(router.check(None).await.unwrap().left_over, [""; 0]);
}
