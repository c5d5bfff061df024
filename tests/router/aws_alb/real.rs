use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_elasticloadbalancingv2::types;
use router::{
    Router,
    aws_alb::{
        AwsAlb, Settings,
        rule::{Marks, Role, SERVICE},
    },
    log_line::LogPath,
    measure::Measure,
};
use tempfile::TempDir;
use traffic::{HashFunction, RouterKind, desired::Protocol};

use super::{
    aws::Aws,
    moto::{MOTO, REGION},
    plane::Plane,
};
use crate::{
    conformance::{Real, operators::Sites},
    loss::wait::wait_until,
    world::{liar::Door, place::at},
};

/// Listeners of HTTP, and one of HTTPS.
const LISTENERS: usize = 10;

static NAMES: AtomicUsize = AtomicUsize::new(0);

/// A load balancer at moto, with the listeners that its operator has made.
pub struct RealAlb {
    pub aws: Aws,
    pub arn: String,
    pub plane: Plane,
    folder: TempDir,
    ports: Vec<u16>,
    of_tls: u16,
    given: AtomicUsize,
    dying: Mutex<Vec<Aws>>,
}

/// A rule with its tags.
pub type Tagged = (types::Rule, BTreeMap<String, String>);

/// What a test asks between its own steps, in a place where it can't wait.
fn now<T>(answer: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(answer))
}

pub fn open_by(settings: Settings) -> Arc<dyn Router> {
    Arc::new(AwsAlb::open(settings).unwrap())
}

impl RealAlb {
    pub fn settings(&self, at: SocketAddr) -> Settings {
        Settings {
            region: Some(REGION.to_owned()),
            endpoint: Some(format!("http://{at}").parse().unwrap()),
            load_balancer: self.arn.clone(),
            priorities: (100, 999),
            sticky_for: Duration::from_hours(1),
            time_limit: Duration::from_secs(4),
            folder: self.folder.path().join("ours"),
        }
    }

    /// Has the operator's change seen.
    pub fn changed(&self) {
        self.aws.version.fetch_add(1, Ordering::SeqCst);
    }

    pub async fn listener(&self, port: u16) -> String {
        let there = MOTO.client().describe_listeners().load_balancer_arn(&self.arn);
        let there: Vec<types::Listener> =
            there.into_paginator().items().send().collect::<Result<_, _>>().await.unwrap();
        let found = there.iter().find(|one| one.port() == Some(port.into())).unwrap();
        found.listener_arn().unwrap().to_owned()
    }

    pub async fn rules(&self) -> Vec<Tagged> {
        let client = MOTO.client();
        let mut all = Vec::new();
        for port in self.ports.iter().chain([&self.of_tls]) {
            let asked = client.describe_rules().listener_arn(self.listener(*port).await).into_paginator();
            let asked: Vec<types::Rule> = asked.items().send().collect::<Result<_, _>>().await.unwrap();
            for rule in asked.iter().filter(|rule| rule.is_default() != Some(true)) {
                let tags =
                    client.describe_tags().resource_arns(rule.rule_arn().unwrap()).send().await.unwrap();
                let tags = tags.tag_descriptions().iter().flat_map(types::TagDescription::tags);
                let tags = tags.map(|tag| (tag.key().unwrap().to_owned(), tag.value().unwrap().to_owned()));
                all.push((rule.clone(), tags.collect()));
            }
        }
        all
    }

    /// The rule that shares out the calls of a service, with what its tags say.
    pub async fn shares_of(&self, service: &str) -> (types::Rule, Marks) {
        let all = self.rules().await.into_iter();
        let mut marked = all.filter_map(|(rule, tags)| Some((rule, Marks::read(&tags)?)));
        marked.find(|(_, marks)| marks.service == service && marks.role == Role::Shares).expect("it has one")
    }

    /// Has the rule of a service forward so, behind the back of who leads it.
    pub async fn rewrite(&self, service: &str, config: types::ForwardActionConfig) {
        let (rule, _) = self.shares_of(service).await;
        let action = types::Action::builder().r#type(types::ActionTypeEnum::Forward).forward_config(config);
        let ask = MOTO.client().modify_rule().rule_arn(rule.rule_arn().unwrap()).actions(action.build());
        ask.send().await.unwrap();
        self.changed();
    }
}

pub fn tag(key: &str, value: &str) -> types::Tag {
    types::Tag::builder().key(key).value(value).build()
}

pub fn path(path: &str) -> types::RuleCondition {
    let config = types::PathPatternConditionConfig::builder().values(path).build();
    types::RuleCondition::builder().field("path-pattern").path_pattern_config(config).build()
}

impl Real for RealAlb {
    const KIND: RouterKind = RouterKind::AwsAlb;
    /// It draws none.
    const HASH: HashFunction = HashFunction::Murmur2;
    const RELOADS: bool = false;
    const MANY: usize = 8;
    const LED_BY: &'static str = "nothing: its rules come to the listener";

    async fn start() -> Self {
        let listeners = (0..=LISTENERS).map(|at| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (listener, if at < LISTENERS { "HTTP" } else { "HTTPS" })
        });
        let listeners: Vec<(TcpListener, &str)> = listeners.collect();
        let of_listener =
            |(listener, protocol): &(TcpListener, _)| (listener.local_addr().unwrap().port(), *protocol);
        let made: Vec<(u16, &str)> = listeners.iter().map(of_listener).collect();
        let mut ports: Vec<u16> = made.iter().map(|(port, _)| *port).collect();
        let of_tls = ports.pop().unwrap();
        let name = format!("alb-{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let arn = tokio::task::spawn_blocking(move || MOTO.load_balancer(&name, &made)).await.unwrap();
        let version = Arc::new(AtomicU64::new(1));
        let plane = Plane::start(MOTO.client(), &arn, listeners, &version).await;
        let aws = Aws::start(at(0), &version).await;
        let (folder, given) = (tempfile::tempdir().unwrap(), AtomicUsize::new(0));
        Self { aws, arn, plane, folder, ports, of_tls, given, dying: Mutex::default() }
    }

    fn open(&self) -> Arc<dyn Router> {
        open_by(self.settings(self.aws.at))
    }

    fn open_logging(&self, _: &LogPath, _: Option<&Arc<Measure>>) -> Arc<dyn Router> {
        panic!("a load balancer logs to no socket")
    }

    fn open_dying(&self, steps: u64) -> Option<Arc<dyn Router>> {
        let aws = now(Aws::start_dying(steps, &self.aws.version));
        let router = open_by(self.settings(aws.at));
        self.dying.lock().unwrap().push(aws);
        Some(router)
    }

    /// Nobody reaches AWS; what it was told stays in force there.
    async fn kill(&mut self) {
        self.aws.stop();
    }

    async fn start_again(&mut self) {
        self.aws.stop();
        let at = self.aws.at;
        wait_until("the port is free", async || tokio::net::TcpListener::bind(at).await.is_ok()).await;
        self.aws.serve().await;
    }

    async fn meddle(&self, service: &str) {
        let (_, marks) = self.shares_of(service).await;
        let half = marks.variations[1].1 / 2;
        let group = |at: usize, share: u16| {
            let group = types::TargetGroupTuple::builder().target_group_arn(&marks.variations[at].2);
            group.weight((share / 100).into()).build()
        };
        let config = types::ForwardActionConfig::builder();
        let config = config.target_groups(group(0, 10_000 - half)).target_groups(group(1, half));
        self.rewrite(service, config.build()).await;
    }

    async fn take_out(&self, _: &str) {
        panic!("its calls aren't counted")
    }

    async fn leave_over(&self) -> String {
        let answer = types::FixedResponseActionConfig::builder().status_code("404").build();
        let action = types::Action::builder().r#type(types::ActionTypeEnum::FixedResponse);
        let ask = MOTO.client().create_rule().listener_arn(self.listener(self.ports[0]).await).priority(150);
        let ask = ask.conditions(path("/ghost")).actions(action.fixed_response_config(answer).build());
        let made = ask.tags(tag(SERVICE, "ghost")).send().await.unwrap();
        self.changed();
        made.rules()[0].rule_arn().unwrap().to_owned()
    }

    fn spoil(&self, _: bool) {
        panic!("it has no configuration as a whole")
    }

    fn serve_besides(&self, name: &str, port: u16, target: &str) {
        now(async {
            let (client, target) = (MOTO.client(), target.parse::<SocketAddr>().unwrap());
            let group = format!("operators-{}", self.arn.rsplit('/').next().unwrap());
            let there = client.describe_load_balancers().load_balancer_arns(&self.arn).send().await.unwrap();
            let vpc = there.load_balancers()[0].vpc_id().unwrap();
            let made = client.create_target_group().name(group).target_type(types::TargetTypeEnum::Ip);
            let made = made.protocol(types::ProtocolEnum::Http).port(80).vpc_id(vpc).send().await.unwrap();
            let group = made.target_groups()[0].target_group_arn().unwrap();
            let of_group = types::TargetDescription::builder()
                .id(target.ip().to_string())
                .port(target.port().into())
                .build();
            client.register_targets().target_group_arn(group).targets(of_group).send().await.unwrap();
            let action = types::Action::builder()
                .r#type(types::ActionTypeEnum::Forward)
                .target_group_arn(group)
                .build();
            let ask = client.create_rule().listener_arn(self.listener(port).await).priority(10);
            let ask = ask.conditions(path("/shop/*")).actions(action).tags(tag("Name", name));
            ask.send().await.unwrap();
        });
        self.changed();
    }

    fn serve_sites(&self, _: &Sites, _: &str) {
        panic!("it serves no static files")
    }

    fn of_others(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let all = now(self.rules()).into_iter().filter(|(_, tags)| !tags.contains_key(SERVICE));
        all.map(|(rule, tags)| (rule.rule_arn().unwrap().into(), format!("{rule:?} {tags:?}").into_bytes()))
            .collect()
    }

    /// Rules of ours, and the folder of whoever leads it, but for its notes.
    fn on_disk(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let own = now(self.rules()).into_iter().filter(|(_, tags)| tags.contains_key(SERVICE));
        let own = own.map(|(rule, tags)| {
            (PathBuf::from(rule.rule_arn().unwrap()), format!("{rule:?} {tags:?}").into_bytes())
        });
        let mut found: BTreeMap<PathBuf, Vec<u8>> = own.collect();
        let folder = fs::read_dir(self.folder.path().join("ours")).into_iter().flatten();
        let files = folder.map(|entry| entry.unwrap().path());
        let files = files.filter(|path| !path.ends_with("newest") && !path.ends_with("lock"));
        found.extend(files.map(|path| (path.clone(), fs::read(path).unwrap())));
        found
    }

    fn door(&self) -> Door {
        Door::Tcp(self.aws.at)
    }

    fn port(&self) -> u16 {
        self.ports[self.given.fetch_add(1, Ordering::Relaxed)]
    }

    fn port_of(&self, protocol: Protocol) -> u16 {
        if protocol == Protocol::Https { self.of_tls } else { self.port() }
    }

    async fn over_tls(&self, at: SocketAddr, call: &str) -> String {
        self.plane.over_tls(at, call).await
    }
}
