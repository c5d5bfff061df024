//! Calls of AWS's API: each with a limit of time, repeated with pauses by the SDK where AWS is busy, and with an error in one line.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_elasticloadbalancingv2::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types,
};
use aws_smithy_http_client::tls;
use reqwest::Url;
use tokio::sync::OnceCell;

use super::{
    NAME,
    rule::{Condition, Forward, RuleText},
};
use crate::{RouterError, remote};

/// How often a call is made at most before it counts as failed.
const ATTEMPTS: u32 = 4;

/// The first pause before a call is repeated, and the longest; by chance any part of it.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So many things' tags are asked for at once, and set.
const TAGGED: usize = 20;

/// Characters of what AWS says that are shown.
const SHOWN: usize = 300;

/// Of refusals whose texts may quote what a call was signed with.
const OF_SIGNATURES: [&str; 4] =
    ["SignatureDoesNotMatch", "IncompleteSignature", "InvalidSignatureException", "AuthFailure"];

/// What AWS says when it has had too much from whoever calls.
const TOO_MUCH: [&str; 6] = [
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "TooManyRequestsException",
    "SlowDown",
];

/// What may be otherwise at the next try: a token is had anew, and what is gone is seen to be.
const PASSES: [&str; 10] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "PriorityInUse",
    "RuleNotFound",
    "ListenerNotFound",
    "LoadBalancerNotFound",
    "TargetGroupNotFound",
    "ResourceInUse",
    "DuplicateTargetGroupName",
];

/// Where and how AWS is called.
pub(super) struct Api {
    /// None: as AWS's chain of settings says.
    region: Option<String>,
    endpoint: Option<Url>,
    time_limit: Duration,
    client: OnceCell<Client>,
}

/// A load balancer.
#[derive(Debug, Clone)]
pub(super) struct LoadBalancer {
    pub arn: String,
    pub vpc: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub arn: String,
    pub port: u16,
    pub protocol: String,
}

/// A rule as it is there. The listener's default isn't one.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub arn: String,
    pub priority: u16,
    pub text: RuleText,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub arn: String,
    pub name: String,
    pub checks: Checks,
    /// What isn't like in a group of ours, in words.
    pub beside: Vec<String>,
}

/// How AWS looks whether targets are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checks {
    pub path: String,
    /// Which statuses are good ones.
    pub good: String,
    pub interval_s: i32,
    pub timeout_s: i32,
    pub healthy_after: i32,
    pub unhealthy_after: i32,
}

/// A target: its address, its port, and whether it is there; none where that isn't known.
pub(super) type Registered = BTreeMap<(String, u16), Option<bool>>;

pub(super) type Tags = BTreeMap<String, String>;

impl Api {
    pub(super) fn new(region: Option<String>, endpoint: Option<Url>, time_limit: Duration) -> Self {
        Self { region, endpoint, time_limit, client: OnceCell::new() }
    }

    /// Credentials are those that AWS's chain finds, and read anew before they end.
    async fn client(&self) -> &Client {
        let make = async || {
            let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
            let http = aws_smithy_http_client::Builder::new().tls_provider(provider).build_https();
            let retries = RetryConfig::standard()
                .with_max_attempts(ATTEMPTS)
                .with_initial_backoff(FIRST_PAUSE)
                .with_max_backoff(LONGEST_PAUSE);
            let times = TimeoutConfig::builder()
                .connect_timeout(self.time_limit)
                .operation_timeout(self.time_limit)
                .build();
            let mut loader = aws_config::defaults(BehaviorVersion::latest())
                .http_client(http)
                .retry_config(retries)
                .timeout_config(times);
            if let Some(region) = &self.region {
                loader = loader.region(Region::new(region.clone()));
            }
            let shared = loader.load().await;
            let mut config = aws_sdk_elasticloadbalancingv2::config::Builder::from(&shared);
            if let Some(endpoint) = &self.endpoint {
                config = config.endpoint_url(endpoint.as_str().trim_end_matches('/'));
            }
            Client::from_conf(config.build())
        };
        self.client.get_or_init(make).await
    }

    fn fault<E, R>(&self, doing: &str) -> impl Fn(SdkError<E, R>) -> RouterError
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        R: std::fmt::Debug + Send + Sync + 'static,
    {
        move |error| self.said(&error, doing)
    }

    fn said<E, R>(&self, error: &SdkError<E, R>, doing: &str) -> RouterError
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        R: std::fmt::Debug + Send + Sync + 'static,
    {
        let away = |why: String| RouterError::Away {
            router: NAME,
            doing: doing.to_owned(),
            source: io::Error::other(why),
        };
        let silent =
            || RouterError::Silent { router: NAME, within: self.time_limit, doing: doing.to_owned() };
        match error {
            SdkError::TimeoutError(_) => silent(),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => silent(),
            SdkError::ResponseError(_) => RouterError::Nonsense { router: NAME, said: causes(error) },
            SdkError::ServiceError(failure) => {
                let (code, message) = (failure.err().code(), failure.err().message().unwrap_or_default());
                match code {
                    // An answer that is none of AWS's.
                    None => RouterError::Nonsense { router: NAME, said: causes(error) },
                    Some(code) if TOO_MUCH.contains(&code) => {
                        away(format!("{code}: it is called more often than AWS lets this account"))
                    }
                    Some(code) if OF_SIGNATURES.contains(&code) => {
                        away(format!("{code}: AWS takes these credentials for none"))
                    }
                    Some(code) if PASSES.contains(&code) => away(format!("{code}: {}", line(message))),
                    Some(code) => {
                        let what = format!("{doing}: {code}: {}", line(message));
                        RouterError::Unable { router: NAME, what }
                    }
                }
            }
            other => away(causes(other)),
        }
    }

    /// By its name or its ARN.
    pub(super) async fn load_balancer(&self, called: &str) -> Result<LoadBalancer, RouterError> {
        let doing = format!("asking for the load balancer {called}");
        let ask = self.client().await.describe_load_balancers();
        let ask = if called.starts_with("arn:") { ask.load_balancer_arns(called) } else { ask.names(called) };
        let found = ask.send().await.map_err(self.fault(&doing))?;
        let found = found.load_balancers().first();
        let Some((found, arn)) = found.and_then(|one| Some((one, one.load_balancer_arn()?))) else {
            return Err(RouterError::Unable {
                router: NAME,
                what: format!("there is no load balancer {called}"),
            });
        };
        if found.r#type() != Some(&types::LoadBalancerTypeEnum::Application) {
            let what = format!("{called} is no application load balancer");
            return Err(RouterError::Unable { router: NAME, what });
        }
        Ok(LoadBalancer { arn: arn.to_owned(), vpc: found.vpc_id().map(str::to_owned) })
    }

    pub(super) async fn listeners(&self, of: &str) -> Result<Vec<Listener>, RouterError> {
        let ask = self.client().await.describe_listeners().load_balancer_arn(of);
        let mut pages = ask.into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            let one = one.map_err(self.fault("asking for its listeners"))?;
            let port = one.port().and_then(|port| u16::try_from(port).ok());
            if let (Some(arn), Some(port)) = (one.listener_arn(), port) {
                let protocol = one.protocol().map(|one| one.as_str().to_owned()).unwrap_or_default();
                all.push(Listener { arn: arn.to_owned(), port, protocol });
            }
        }
        Ok(all)
    }

    pub(super) async fn rules(&self, listener: &Listener) -> Result<Vec<Rule>, RouterError> {
        let doing = format!("asking for the rules of its listener at port {}", listener.port);
        let ask = self.client().await.describe_rules().listener_arn(&listener.arn);
        let mut pages = ask.into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            let one = one.map_err(self.fault(&doing))?;
            let priority = one.priority().and_then(|priority| priority.parse().ok());
            if let (Some(arn), Some(priority)) = (one.rule_arn(), priority) {
                all.push(Rule { arn: arn.to_owned(), priority, text: text_of(&one) });
            }
        }
        Ok(all)
    }

    pub(super) async fn tags(&self, arns: &[String]) -> Result<BTreeMap<String, Tags>, RouterError> {
        let mut all = BTreeMap::new();
        for some in arns.chunks(TAGGED) {
            let ask = self.client().await.describe_tags().set_resource_arns(Some(some.to_vec()));
            let found = ask.send().await.map_err(self.fault("asking for tags"))?;
            for one in found.tag_descriptions() {
                let pairs = one.tags().iter();
                let pairs = pairs.filter_map(|tag| {
                    Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned()))
                });
                all.insert(one.resource_arn().unwrap_or_default().to_owned(), pairs.collect());
            }
        }
        Ok(all)
    }

    /// Gives each of these things these tags, beside those that it has.
    pub(super) async fn tag(&self, arn: &str, tags: &Tags) -> Result<(), RouterError> {
        let ask = self.client().await.add_tags().resource_arns(arn).set_tags(Some(tag_list(tags)));
        ask.send().await.map(drop).map_err(self.fault(&format!("setting the tags of {arn}")))
    }

    pub(super) async fn create_rule(
        &self,
        listener: &str,
        priority: u16,
        text: &RuleText,
        tags: &Tags,
    ) -> Result<String, RouterError> {
        let doing = format!("creating a rule of priority {priority}");
        let ask = self.client().await.create_rule().listener_arn(listener).priority(priority.into());
        let ask = ask.set_conditions(Some(conditions_of(text))).actions(action_of(&text.forward));
        let made = ask.set_tags(Some(tag_list(tags))).send().await.map_err(self.fault(&doing))?;
        let arn = made.rules().first().and_then(types::Rule::rule_arn);
        arn.map(str::to_owned).ok_or_else(|| nonsense("it names no rule that it has made"))
    }

    /// Conditions and action at once.
    pub(super) async fn modify_rule(&self, arn: &str, text: &RuleText) -> Result<(), RouterError> {
        let ask = self.client().await.modify_rule().rule_arn(arn);
        let ask = ask.set_conditions(Some(conditions_of(text))).actions(action_of(&text.forward));
        ask.send().await.map(drop).map_err(self.fault(&format!("changing the rule {arn}")))
    }

    pub(super) async fn move_rules(&self, places: &[(String, u16)]) -> Result<(), RouterError> {
        let pair = |(arn, priority): &(String, u16)| {
            types::RulePriorityPair::builder().rule_arn(arn).priority((*priority).into()).build()
        };
        let ask = self.client().await.set_rule_priorities();
        let ask = ask.set_rule_priorities(Some(places.iter().map(pair).collect()));
        ask.send().await.map(drop).map_err(self.fault("changing the priorities of rules"))
    }

    pub(super) async fn delete_rule(&self, arn: &str) -> Result<(), RouterError> {
        let ask = self.client().await.delete_rule().rule_arn(arn);
        ask.send().await.map(drop).map_err(self.fault(&format!("deleting the rule {arn}")))
    }

    /// All of the account, in this region.
    pub(super) async fn groups(&self) -> Result<Vec<Group>, RouterError> {
        let mut pages = self.client().await.describe_target_groups().into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            all.extend(group_of(&one.map_err(self.fault("asking for target groups"))?));
        }
        Ok(all)
    }

    pub(super) async fn create_group(
        &self,
        name: &str,
        vpc: Option<&str>,
        is_ipv6: bool,
        checks: &Checks,
        tags: &Tags,
    ) -> Result<String, RouterError> {
        use types::{ProtocolEnum, TargetGroupIpAddressTypeEnum as Family, TargetTypeEnum};
        let ask = self.client().await.create_target_group().name(name).set_vpc_id(vpc.map(str::to_owned));
        let family = if is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        let ask = ask.target_type(TargetTypeEnum::Ip).ip_address_type(family);
        // Each target has a port of its own.
        let ask = ask.protocol(ProtocolEnum::Http).port(80).health_check_enabled(true);
        let ask = ask.health_check_protocol(ProtocolEnum::Http).health_check_path(&checks.path);
        let ask = ask.matcher(types::Matcher::builder().http_code(&checks.good).build());
        let ask = ask
            .health_check_interval_seconds(checks.interval_s)
            .health_check_timeout_seconds(checks.timeout_s);
        let ask = ask
            .healthy_threshold_count(checks.healthy_after)
            .unhealthy_threshold_count(checks.unhealthy_after);
        let made = ask.set_tags(Some(tag_list(tags))).send().await;
        let made = made.map_err(self.fault(&format!("creating the target group {name}")))?;
        let arn = made.target_groups().first().and_then(types::TargetGroup::target_group_arn);
        arn.map(str::to_owned).ok_or_else(|| nonsense("it names no target group that it has made"))
    }

    pub(super) async fn check_group(&self, arn: &str, checks: &Checks) -> Result<(), RouterError> {
        let ask =
            self.client().await.modify_target_group().target_group_arn(arn).health_check_path(&checks.path);
        let ask = ask.matcher(types::Matcher::builder().http_code(&checks.good).build());
        let ask = ask
            .health_check_interval_seconds(checks.interval_s)
            .health_check_timeout_seconds(checks.timeout_s);
        let ask = ask
            .healthy_threshold_count(checks.healthy_after)
            .unhealthy_threshold_count(checks.unhealthy_after);
        ask.send().await.map(drop).map_err(self.fault(&format!("changing the target group {arn}")))
    }

    /// False: somebody uses it.
    pub(super) async fn delete_group(&self, arn: &str) -> Result<bool, RouterError> {
        match self.client().await.delete_target_group().target_group_arn(arn).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("ResourceInUse") => Ok(false),
            Err(error) => Err(self.said(&error, &format!("deleting the target group {arn}"))),
        }
    }

    /// Those that get calls: not those that only end what they have. A group that is gone has none.
    pub(super) async fn targets(&self, group: &str) -> Result<Registered, RouterError> {
        use types::TargetHealthStateEnum as State;
        let found = match self.client().await.describe_target_health().target_group_arn(group).send().await {
            Ok(found) => found,
            Err(error) if error.code() == Some("TargetGroupNotFound") => return Ok(Registered::new()),
            Err(error) => return Err(self.said(&error, &format!("asking for the targets of {group}"))),
        };
        let mut all = Registered::new();
        for one in found.target_health_descriptions() {
            let state = one.target_health().and_then(types::TargetHealth::state);
            let is_healthy = match state {
                Some(State::Draining) => continue,
                Some(State::Healthy) => Some(true),
                Some(State::Unhealthy | State::UnhealthyDraining) => Some(false),
                _ => None,
            };
            let target = one.target().and_then(|target| Some((target.id()?.to_owned(), target.port()?)));
            if let Some((id, port)) = target.and_then(|(id, port)| Some((id, u16::try_from(port).ok()?))) {
                all.insert((id, port), is_healthy);
            }
        }
        Ok(all)
    }

    pub(super) async fn register(
        &self,
        group: &str,
        targets: &BTreeSet<(String, u16)>,
    ) -> Result<(), RouterError> {
        let ask =
            self.client().await.register_targets().target_group_arn(group).set_targets(Some(list(targets)));
        ask.send().await.map(drop).map_err(self.fault(&format!("giving targets to {group}")))
    }

    pub(super) async fn deregister(
        &self,
        group: &str,
        targets: &BTreeSet<(String, u16)>,
    ) -> Result<(), RouterError> {
        let ask =
            self.client().await.deregister_targets().target_group_arn(group).set_targets(Some(list(targets)));
        ask.send().await.map(drop).map_err(self.fault(&format!("taking targets out of {group}")))
    }
}

fn nonsense(said: &str) -> RouterError {
    RouterError::Nonsense { router: NAME, said: said.to_owned() }
}

/// Why a call failed without an answer of AWS's.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    line(&remote::causes(error))
}

/// One line, of a length for people.
fn line(text: &str) -> String {
    let text = text.lines().next().unwrap_or_default();
    text.chars().filter(|one| !one.is_control()).take(SHOWN).collect()
}

fn list(targets: &BTreeSet<(String, u16)>) -> Vec<types::TargetDescription> {
    let one =
        |(id, port): &(String, u16)| types::TargetDescription::builder().id(id).port((*port).into()).build();
    targets.iter().map(one).collect()
}

fn tag_list(tags: &Tags) -> Vec<types::Tag> {
    tags.iter().map(|(key, value)| types::Tag::builder().key(key).value(value).build()).collect()
}

fn group_of(group: &types::TargetGroup) -> Option<Group> {
    let checks = Checks {
        path: group.health_check_path().unwrap_or_default().to_owned(),
        good: group.matcher().and_then(types::Matcher::http_code).unwrap_or_default().to_owned(),
        interval_s: group.health_check_interval_seconds().unwrap_or_default(),
        timeout_s: group.health_check_timeout_seconds().unwrap_or_default(),
        healthy_after: group.healthy_threshold_count().unwrap_or_default(),
        unhealthy_after: group.unhealthy_threshold_count().unwrap_or_default(),
    };
    let mut beside = Vec::new();
    if let Some(protocol) = group.protocol().filter(|one| **one != types::ProtocolEnum::Http) {
        beside.push(format!("calls to its targets by {}", protocol.as_str()));
    }
    if let Some(version) = group.protocol_version().filter(|version| *version != "HTTP1") {
        beside.push(format!("calls to its targets by {version}"));
    }
    if let Some(of) = group.target_type().filter(|one| **one != types::TargetTypeEnum::Ip) {
        beside.push(format!("targets that are of type {}", of.as_str()));
    }
    let (arn, name) = (group.target_group_arn()?.to_owned(), group.target_group_name()?.to_owned());
    Some(Group { arn, name, checks, beside })
}

fn conditions_of(text: &RuleText) -> Vec<types::RuleCondition> {
    use types::{
        HostHeaderConditionConfig as Host, HttpHeaderConditionConfig as Header,
        PathPatternConditionConfig as Path,
    };
    let one = |condition: &Condition| {
        let made = types::RuleCondition::builder();
        match condition {
            Condition::Host(values) => {
                let config = Host::builder().set_values(Some(values.clone())).build();
                Some(made.field("host-header").host_header_config(config).build())
            }
            Condition::Path(values) => {
                let config = Path::builder().set_values(Some(values.clone())).build();
                Some(made.field("path-pattern").path_pattern_config(config).build())
            }
            Condition::Header(name, values) => {
                let config =
                    Header::builder().http_header_name(name).set_values(Some(values.clone())).build();
                Some(made.field("http-header").http_header_config(config).build())
            }
            Condition::Other(_) => None,
        }
    };
    text.conditions.iter().filter_map(one).collect()
}

fn action_of(forward: &Forward) -> types::Action {
    let sticky = types::TargetGroupStickinessConfig::builder().enabled(forward.sticky.is_some());
    let sticky = sticky.set_duration_seconds(forward.sticky.and_then(|seconds| i32::try_from(seconds).ok()));
    let groups = forward.groups.iter().map(|(arn, weight)| {
        types::TargetGroupTuple::builder().target_group_arn(arn).weight((*weight).into()).build()
    });
    let config = types::ForwardActionConfig::builder();
    let config =
        config.set_target_groups(Some(groups.collect())).target_group_stickiness_config(sticky.build());
    let action = types::Action::builder().r#type(types::ActionTypeEnum::Forward).order(1);
    action.forward_config(config.build()).build()
}

fn text_of(rule: &types::Rule) -> RuleText {
    let mut text = RuleText::default();
    for condition in rule.conditions() {
        text.conditions.insert(condition_of(condition));
    }
    let mut is_forwarded = false;
    for action in rule.actions() {
        let kind = action.r#type().map_or("", types::ActionTypeEnum::as_str);
        if kind == "forward" && !is_forwarded {
            is_forwarded = true;
            text.forward = forward_of(action);
        } else {
            text.others.push(format!("an action {kind}"));
        }
    }
    text.others.extend(
        rule.transforms()
            .iter()
            .map(|one| format!("a transform {}", one.r#type().map_or("", types::TransformTypeEnum::as_str))),
    );
    text
}

fn condition_of(condition: &types::RuleCondition) -> Condition {
    let field = condition.field().unwrap_or_default();
    let mut values = condition.values().to_vec();
    match field {
        "path-pattern" if condition.regex_values().is_empty() => {
            values.extend(condition.path_pattern_config().iter().flat_map(|config| config.values().to_vec()));
            values.sort_unstable();
            values.dedup();
            Condition::Path(values)
        }
        "http-header" => {
            let config = condition.http_header_config();
            let name = config.and_then(|config| config.http_header_name()).unwrap_or_default();
            values.extend(config.iter().flat_map(|config| config.values().to_vec()));
            values.sort_unstable();
            values.dedup();
            Condition::Header(name.to_owned(), values)
        }
        "host-header" if condition.regex_values().is_empty() => {
            values.extend(condition.host_header_config().iter().flat_map(|config| config.values().to_vec()));
            values.sort_unstable();
            values.dedup();
            Condition::Host(values)
        }
        _ => Condition::Other(field.to_owned()),
    }
}

fn forward_of(action: &types::Action) -> Forward {
    let config = action.forward_config();
    let mut forward = Forward::default();
    for group in config.into_iter().flat_map(types::ForwardActionConfig::target_groups) {
        // One that isn't told is 1.
        let weight = group.weight().map_or(1, |weight| u16::try_from(weight).unwrap_or(u16::MAX));
        forward.groups.insert(group.target_group_arn().unwrap_or_default().to_owned(), weight);
    }
    if let Some(arn) = action.target_group_arn().filter(|_| forward.groups.is_empty()) {
        forward.groups.insert(arn.to_owned(), 1);
    }
    let sticky = config.and_then(|config| config.target_group_stickiness_config());
    let seconds = sticky
        .filter(|sticky| sticky.enabled() == Some(true))
        .and_then(types::TargetGroupStickinessConfig::duration_seconds);
    forward.sticky = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    forward
}
