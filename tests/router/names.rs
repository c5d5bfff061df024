//! Names of targets become addresses, again and again.

use std::{
    collections::BTreeMap,
    future::pending,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use router::names::{Answers, Lookup, Names, Resolver, Settings, System, Trouble, Unresolvable, resolve};
use tokio::sync::watch;
use traffic::{
    desired::{DesiredConfig, MAX_TARGETS, Protocol, Target},
    observed::ObservedConfig,
};

use crate::controller::states::{obeyed, spec, target, wanted_of};

/// A resolver that says what it was told to say.
#[derive(Debug, Default)]
pub struct Scripted(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    addresses: BTreeMap<String, Vec<IpAddr>>,
    hangs: bool,
    asked: Vec<String>,
}

impl Scripted {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.inside().addresses.insert(name.to_owned(), addresses);
    }

    fn fail(&self, name: &str) {
        self.inside().addresses.remove(name);
    }
}

impl Resolver for Scripted {
    fn lookup<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let (hangs, found) = {
                let mut inside = self.inside();
                inside.asked.push(name.to_owned());
                (inside.hangs, inside.addresses.get(name).cloned())
            };
            if hangs {
                pending::<()>().await;
            }
            found.ok_or_else(|| io::Error::other("no such name"))
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || address == "10.0.0.1".parse::<IpAddr>().unwrap()
    }
}

struct Asking {
    resolver: Arc<Scripted>,
    wanted: watch::Sender<Option<Arc<DesiredConfig>>>,
    names: Names,
}

impl Asking {
    fn start() -> Self {
        let resolver = Arc::new(Scripted::default());
        let (wanted, seen) = watch::channel(None);
        let names = Names::start(Arc::clone(&resolver) as _, seen, Settings::default());
        Self { resolver, wanted, names }
    }

    fn want(&self, wanted: DesiredConfig) -> DesiredConfig {
        self.wanted.send_replace(Some(Arc::new(wanted.clone())));
        wanted
    }

    async fn until(&self, is_so: impl Fn(&Answers) -> bool) -> Arc<Answers> {
        self.names.answers().wait_for(|answers| is_so(answers)).await.unwrap().clone()
    }
}

/// The service `shop` on port 8080, whose variation B leads there.
fn leads_to(generation: u64, targets: &[&str]) -> DesiredConfig {
    let mut spec = spec("shop", 8080, &[9_000, 1_000]);
    spec.variations[1].targets = targets.iter().map(|text| target(text)).collect();
    wanted_of(generation, vec![spec])
}

fn of_b(wanted: &DesiredConfig) -> Vec<String> {
    wanted.services()[0].variations[1].targets.iter().map(Target::to_string).collect()
}

fn resolved(wanted: &DesiredConfig, answers: &Answers) -> Vec<String> {
    of_b(&resolve(wanted, answers, None).unwrap().wanted)
}

fn trouble(answers: &Answers, text: &str) -> Option<Trouble> {
    answers.of(&target(text), false)?.trouble.clone()
}

#[tokio::test(start_paused = true)]
async fn all_addresses_of_a_name_count() {
    let asking = Asking::start();
    asking.resolver.set("b.example", &["10.1.1.2", "10.1.1.1", "10.1.1.1", "::1:2", "::ffff:10.1.1.2"]);
    let wanted = asking.want(leads_to(1, &["b.example:9000", "10.7.7.7:1"]));
    let answers = asking.until(|answers| !answers.has_none() && *answers != Answers::default()).await;
    assert_eq!(resolved(&wanted, &answers), ["10.1.1.1:9000", "10.1.1.2:9000", "10.7.7.7:1", "[::1:2]:9000"]);
    // The rest of it is as it was.
    let all = resolve(&wanted, &answers, None).unwrap().wanted;
    assert_eq!(all.services()[0].variations[0], wanted.services()[0].variations[0]);
    assert_eq!((all.number, &all.services()[0].table), (wanted.number, &wanted.services()[0].table));
}

#[tokio::test(start_paused = true)]
async fn names_are_asked_for_again_and_the_last_answer_stays_while_they_fail() {
    let asking = Asking::start();
    asking.resolver.set("b.example", &["10.1.1.1"]);
    let wanted = asking.want(leads_to(1, &["b.example:9000"]));
    asking.until(|answers| resolve(&wanted, answers, None).is_ok()).await;
    asking.resolver.set("b.example", &["10.1.1.9"]);
    let began = tokio::time::Instant::now();
    asking.until(|answers| resolved(&wanted, answers) == ["10.1.1.9:9000"]).await;
    assert!(began.elapsed() <= Duration::from_secs(30));
    asking.resolver.fail("b.example");
    let failed = asking.until(|answers| trouble(answers, "b.example:9000").is_some()).await;
    assert_eq!(resolved(&wanted, &failed), ["10.1.1.9:9000"]);
    let stale = resolve(&wanted, &failed, None).unwrap().stale;
    insta::assert_snapshot!(stale[0], @"the target b.example:9000 of variation B of service shop: it can't be resolved: no such name");
    asking.resolver.set("b.example", &[]);
    let empty = asking.until(|answers| trouble(answers, "b.example:9000") == Some(Trouble::Nothing)).await;
    assert_eq!(resolved(&wanted, &empty), ["10.1.1.9:9000"]);
    asking.resolver.inside().hangs = true;
    let late = asking.until(|answers| trouble(answers, "b.example:9000") == Some(Trouble::Late)).await;
    assert_eq!(resolved(&wanted, &late), ["10.1.1.9:9000"]);
    asking.resolver.inside().hangs = false;
    asking.resolver.set("b.example", &["10.1.1.2"]);
    let back = asking.until(|answers| trouble(answers, "b.example:9000").is_none()).await;
    assert_eq!(resolved(&wanted, &back), ["10.1.1.2:9000"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_without_any_answer_is_asked_for_soon_again_and_others_are_not() {
    let asking = Asking::start();
    asking.resolver.set("a.example", &["10.1.1.1"]);
    let wanted = asking.want(leads_to(1, &["a.example:9000", "b.example:9000"]));
    let failed = asking.until(|answers| trouble(answers, "b.example:9000").is_some()).await;
    let error = resolve(&wanted, &failed, None).unwrap_err();
    insta::assert_snapshot!(error, @"the target b.example:9000 of variation B of service shop: it can't be resolved: no such name");
    asking.resolver.set("b.example", &["10.1.1.2"]);
    let began = tokio::time::Instant::now();
    asking.until(|answers| !answers.has_none()).await;
    assert!(began.elapsed() <= Duration::from_secs(3));
    let asked = asking.resolver.inside().asked.iter().filter(|name| *name == "a.example").count();
    assert_eq!(asked, 1);
}

#[tokio::test(start_paused = true)]
async fn what_leads_to_the_router_itself_is_refused_whenever_it_does() {
    let asking = Asking::start();
    asking.resolver.set("b.example", &["10.0.0.7"]);
    let wanted = asking.want(leads_to(1, &["b.example:8080"]));
    asking.until(|answers| resolve(&wanted, answers, None).is_ok()).await;
    asking.resolver.set("b.example", &["10.0.0.8", "10.0.0.1"]);
    let refused = asking.until(|answers| trouble(answers, "b.example:8080").is_some()).await;
    assert_eq!(resolved(&wanted, &refused), ["10.0.0.7:8080"]);
    insta::assert_snapshot!(trouble(&refused, "b.example:8080").unwrap(), @"it leads to 10.0.0.1, where this router itself listens: calls would go round");
    // At another port, or another kind of it, it is somebody else.
    asking.want(leads_to(2, &["b.example:8081"]));
    let other = asking
        .until(|answers| {
            answers.of(&target("b.example:8081"), false).is_some_and(|one| one.addresses.is_some())
        })
        .await;
    assert_eq!(trouble(&other, "b.example:8081"), None);
    let mut over_udp = spec("shop", 8080, &[10_000]);
    over_udp.listens[0].protocol = Protocol::Udp;
    over_udp.variations[0].targets = vec![target("10.0.0.1:81")];
    asking.want(wanted_of(3, vec![over_udp.clone(), spec("web", 81, &[10_000])]));
    let wanted = asking.wanted.borrow().clone().unwrap();
    asking.until(|answers| resolve(&wanted, answers, None).is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_of_this_machine_with_a_port_of_the_router_is_refused() {
    let asking = Asking::start();
    // A resolver that hangs keeps nobody from seeing that.
    asking.resolver.inside().hangs = true;
    let began = tokio::time::Instant::now();
    let wanted = asking.want(leads_to(1, &["10.0.0.1:8080", "b.example:9000"]));
    let before = resolve(&wanted, &Answers::default(), None).unwrap_err();
    insta::assert_snapshot!(before, @"the target 10.0.0.1:8080 of variation B of service shop: it wasn't looked at yet");
    let answers = asking.until(|answers| *answers != Answers::default()).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let error = resolve(&wanted, &answers, None).unwrap_err();
    insta::assert_snapshot!(error, @"the target 10.0.0.1:8080 of variation B of service shop: it leads to 10.0.0.1, where this router itself listens: calls would go round");
    assert!(matches!(error, Unresolvable::Target(_)));
    let fine = asking.want(leads_to(2, &["10.0.0.2:8080", "10.0.0.1:9999"]));
    let answers = asking.until(|answers| answers.of(&target("10.0.0.2:8080"), false).is_some()).await;
    assert_eq!(resolved(&fine, &answers), ["10.0.0.2:8080", "10.0.0.1:9999"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_names_that_stay_is_kept_and_the_rest_forgotten() {
    let asking = Asking::start();
    asking.resolver.set("b.example", &["10.1.1.1"]);
    let first = asking.want(leads_to(1, &["b.example:9000"]));
    asking.until(|answers| resolve(&first, answers, None).is_ok()).await;
    asking.resolver.inside().hangs = true;
    let second = asking.want(leads_to(2, &["b.example:9000", "c.example:1"]));
    let answers = asking.until(|answers| answers.of(&target("c.example:1"), false).is_some()).await;
    assert_eq!(resolved(&first, &answers), ["10.1.1.1:9000"]);
    assert!(resolve(&second, &answers, None).is_err());
    asking.want(leads_to(3, &["10.1.1.1:1"]));
    asking.until(|answers| *answers == Answers::default()).await;
}

#[test]
fn while_a_name_has_no_answer_what_the_router_has_counts() {
    let wanted = leads_to(2, &["b.example:9000"]);
    let none = Answers::default();
    let fails = |seen: &ObservedConfig| resolve(&wanted, &none, Some(seen)).is_err();
    assert!(fails(&ObservedConfig::default()));
    let there = leads_to(1, &["10.1.1.1:9000", "10.1.1.2:9000", "10.1.1.3:1"]);
    let found = resolve(&wanted, &none, Some(&obeyed(&there))).unwrap();
    assert_eq!(of_b(&found.wanted), ["10.1.1.1:9000", "10.1.1.2:9000"]);
    assert_eq!(found.stale.len(), 1);
    // At another port it has something else.
    assert!(fails(&obeyed(&leads_to(1, &["10.1.1.1:1"]))));
}

#[tokio::test(start_paused = true)]
async fn answers_are_bounded() {
    let asking = Asking::start();
    let many: Vec<String> = (0..=255).map(|last| format!("10.1.1.{last}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    asking.resolver.set("b.example", &many);
    asking.resolver.set("c.example", &["10.0.1.1"]);
    let wanted = asking.want(leads_to(1, &["b.example:9000", "c.example:9000"]));
    let answers = asking.until(|answers| resolve(&wanted, answers, None).is_ok()).await;
    assert_eq!(resolved(&wanted, &answers).len(), MAX_TARGETS);
}

#[tokio::test]
async fn the_resolver_of_the_system_knows_this_machine() {
    let system = System::default();
    let local = system.lookup("localhost").await.unwrap();
    assert!(local.iter().any(IpAddr::is_loopback), "{local:?}");
    assert!(local.iter().all(|address| system.is_own(*address)));
    for own in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"] {
        assert!(system.is_own(own.parse().unwrap()), "{own}");
    }
    for other in ["192.0.2.1", "198.51.100.7", "2001:db8::1"] {
        assert!(!system.is_own(other.parse().unwrap()), "{other}");
    }
}
