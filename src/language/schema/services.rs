//! Services, and how their shares grow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{DurationForm, OnLimitForm, RetryForm, Scalar, StickyForm};

/// A service behind routers that share its calls among variations. These run already, or agents start them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceForm {
    /// At most 63 letters, digits and `. _ -`.
    #[schemars(extend("examples" = ["checkout"]))]
    pub name: Scalar,
    /// Which routers share its calls.
    #[schemars(extend("x-default" = "all that can"))]
    pub routers: Option<SelectorForm>,
    /// Where it takes calls.
    #[schemars(length(min = 1, max = 16))]
    pub ports: Vec<PortForm>,
    /// What keeps all calls of one user with one variation.
    #[schemars(extend("x-default" = "each call by itself"))]
    pub sticky: Option<StickyForm>,
    /// A header whose values ask for variations, whatever the shares.
    pub header: Option<HeaderRuleForm>,
    /// The one that serves now first.
    #[schemars(length(min = 2, max = 8))]
    pub variations: Vec<VariationForm>,
    /// Whether each release begins with other users, or each release of the service with the same.
    #[schemars(extend("default" = "release"))]
    pub salt: Option<SaltForm>,
    /// By which function of their key users are drawn. The built-in proxy knows both, nginx `murmur2`, `HAProxy` `xxh32`. Routers with the
    /// same function give a user the same variation.
    #[schemars(extend("x-default" = "what each kind of router usually takes; the built-in proxy `murmur2`"))]
    pub hash: Option<HashForm>,
    /// `serving`: the first variation has to be what serves now, or the release is refused where that is known. `replace`: it replaces
    /// what serves now.
    #[schemars(extend("default" = "serving"))]
    pub base: Option<BaseForm>,
    /// What a rollback leaves at a router where the service was not managed before the release. `keep`: the first variation serves on.
    /// `retire`: the service is managed no longer, as before.
    #[schemars(extend("default" = "keep"))]
    pub at_rollback: Option<AtRollbackForm>,
    /// Which calls that a variation failed are repeated on the first one, where the router can.
    #[schemars(extend("x-default" = "`failed` for GET, HEAD, PUT, DELETE and OPTIONS, else `refused`"))]
    pub retry: Option<RetryForm>,
    /// A PROXY header of this version goes in front of each connection to a target and says who the caller is. At the proxies of
    /// agents; not for UDP, and not with health checks of a path, which send none.
    #[schemars(extend("x-default" = "none"))]
    pub proxy_protocol: Option<ProxyProtocolForm>,
    /// How long connections of TCP, those of TLS that pass unopened, and flows of UDP may stay with a variation that gets no more calls:
    /// whole seconds, at most 30d. Then they are cut. At the proxies of agents.
    #[schemars(extend("examples" = ["1h"], "x-default" = "what the proxy is set to"))]
    pub drain: Option<DurationForm>,
}

/// Chooses children by their labels.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectorForm {
    /// Labels that a child has, all of them. A label that an operator set counts instead of the one that the child reports.
    #[schemars(extend("examples" = [{"env": "prod"}]))]
    pub labels: BTreeMap<String, Scalar>,
}

/// A port on which a service takes calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortForm {
    /// Its number.
    #[schemars(range(min = 1), extend("examples" = [8080], "x-unit" = "port"))]
    pub port: u16,
    /// What callers speak there.
    #[schemars(extend("default" = "HTTP"))]
    pub protocol: Option<ProtocolForm>,
    /// Hosts whose calls it takes there, of HTTP and HTTPS: names such as `shop.example`, without `*`. A call belongs to the service that
    /// names its host, else to the one that names none.
    #[schemars(length(min = 1, max = 16), extend("examples" = [["shop.example"]], "x-default" = "any"))]
    pub hosts: Option<Vec<String>>,
    /// What the paths of its calls begin with, in whole segments: `/api` takes `/api` and `/api/x`, and not `/apix`. The longest one
    /// counts, and targets get the path unchanged.
    #[schemars(extend("examples" = ["/api"], "x-default" = "any"))]
    pub path: Option<String>,
    /// Who ends TLS, of HTTPS. `certificate`: the router, with a certificate that its operator has given it. `pass`: the targets. Then TLS
    /// passes unopened, at the proxies of agents, to the service whose host the caller names. Nobody sees its calls, so there are no
    /// cookies, headers and paths.
    #[schemars(extend("default" = "certificate"))]
    pub tls: Option<TlsEndForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TlsEndForm {
    Certificate,
    Pass,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocolForm {
    V1,
    V2,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProtocolForm {
    Http,
    Https,
    Tcp,
    Udp,
}

/// A header by which callers ask for a variation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderRuleForm {
    /// What it is called.
    #[schemars(extend("examples" = ["X-Variation"]))]
    pub name: Scalar,
    /// Values of the header, and the variation that each asks for.
    #[schemars(extend("examples" = [{"beta": "B"}]))]
    pub values: BTreeMap<String, Scalar>,
}

/// A variation of a service.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariationForm {
    /// At most 63 letters, digits and `. _ -`.
    #[schemars(extend("examples" = ["B"]))]
    pub name: Scalar,
    /// Where it listens: hosts and ports, such as `127.0.0.1:9000`. Needed without `run`.
    #[schemars(length(min = 1, max = 64), extend("examples" = [["127.0.0.1:9000"]], "x-default" = "none"))]
    pub targets: Option<Vec<String>>,
    /// What the agent of a router starts instead. Not of UDP.
    pub run: Option<RunForm>,
    /// How routers check whether its targets are healthy. The proxies of agents go by calls alone.
    #[schemars(extend("x-default" = "no checks"))]
    pub health: Option<HealthForm>,
}

/// Something that takes calls at `$HOST:$PORT`, which the agent's runtime chooses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunForm {
    /// Its folder among those of functions: relative, with forward slashes.
    #[schemars(extend("examples" = ["shop_v2"]))]
    pub path: String,
    /// What its folder holds: a program `run`, or a file `image` that names an image by its digest.
    #[schemars(extend("default" = "program"))]
    pub env: Option<RunnableForm>,
    /// The most that it may use.
    #[schemars(extend("x-default" = "what the agent is set to"))]
    pub limits: Option<ResourcesForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunnableForm {
    Program,
    Image,
}

/// Quantities as Kubernetes writes them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourcesForm {
    /// Processors, in whole hundredths: `500m`, `1.5`. Needs an agent that has control groups.
    #[schemars(extend("examples" = ["500m"], "x-default" = "what the agent is set to", "x-unit" = "processors"))]
    pub cpu: Option<Scalar>,
    /// Memory: `128Mi`, `1G`.
    #[schemars(extend("examples" = ["128Mi"], "x-default" = "what the agent is set to", "x-unit" = "bytes"))]
    pub memory: Option<Scalar>,
}

/// How targets are checked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthForm {
    /// A GET of this path is to be answered with a status from 200 to 399.
    #[schemars(extend("examples" = ["/ready"], "x-default" = "a connection is enough"))]
    pub path: Option<String>,
    /// Between two checks: from 100ms to 1h.
    #[schemars(extend("examples" = ["5s"], "default" = "2s"))]
    pub interval: Option<DurationForm>,
    /// How long a check may take: from 100ms to 1m.
    #[schemars(extend("examples" = ["500ms"], "default" = "1s"))]
    pub timeout: Option<DurationForm>,
    /// So many good checks in a row make a target healthy.
    #[schemars(range(min = 1, max = 100), extend("examples" = [3], "default" = 2, "x-unit" = "checks"))]
    pub healthy_after: Option<u32>,
    /// So many bad checks in a row make it unhealthy.
    #[schemars(range(min = 1, max = 100), extend("examples" = [5], "default" = 3, "x-unit" = "checks"))]
    pub unhealthy_after: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BaseForm {
    Serving,
    Replace,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AtRollbackForm {
    Keep,
    Retire,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaltForm {
    Release,
    Service,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HashForm {
    Murmur2,
    Xxh32,
}

/// A number from 0 to 100 with at most two decimals: `10`, `"0.25"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "percentage", extend("examples" = [10], "x-unit" = "%"))]
pub enum PercentForm {
    Number(#[schemars(range(min = 0, max = 100))] f64),
    Text(#[schemars(regex(pattern = r"^\s*(0?[0-9]{1,2}(\.[0-9]{1,2})?|100(\.0{1,2})?)\s*$"))] String),
}

/// How a share grows: by name, or written out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RolloutStrategyForm {
    Name(String),
    WrittenOut(RolloutTemplateForm),
}

/// How the share of a service's second variation grows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutTemplateForm {
    /// What it is called.
    #[schemars(extend("examples" = ["my-canary"], "x-default" = "none"))]
    pub name: Option<Scalar>,
    /// For people.
    #[schemars(extend("examples" = ["10 %, then all"], "x-default" = "none"))]
    pub description: Option<Scalar>,
    /// The shares that the new variation gets, one after the other.
    #[schemars(length(min = 1, max = 64))]
    pub stages: Vec<TemplateStageForm>,
    /// If `false`, somebody must approve after each stage but the last.
    #[schemars(extend("default" = true))]
    pub auto_advance: Option<TruthForm>,
    /// What follows when a stage fails.
    #[schemars(extend("default" = "rollback"))]
    pub on_failure: Option<OnLimitForm>,
    /// How often the health of targets is checked.
    #[schemars(extend("examples" = ["10s"], "default" = "30s"))]
    pub interval: Option<DurationForm>,
}

/// A stage: so much for so long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateStageForm {
    /// What the new variation gets.
    pub traffic: PercentForm,
    /// How long it lasts; with `0s`, until the new variation has had its calls.
    #[schemars(extend("examples" = ["5m"]))]
    pub duration: DurationForm,
    /// Targets that must be healthy.
    #[schemars(extend("examples" = [80], "default" = 95))]
    pub healthy_targets: Option<PercentForm>,
    /// Whether somebody must approve when it has passed.
    #[schemars(extend("default" = false))]
    pub approval: Option<TruthForm>,
}

/// `true` or `false`, also as a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "true or false")]
pub enum TruthForm {
    Truth(bool),
    Text(#[schemars(regex(pattern = r"^(true|false)$"))] String),
}
