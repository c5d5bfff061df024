//! Services, and how their shares grow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{DurationForm, OnLimitForm, RetryForm, Scalar, StickyForm};

/// A service whose variations run already, or are started by agents, behind routers that share its calls among them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceForm {
    /// At most 63 letters, digits and `. _ -`.
    pub name: Scalar,
    /// Which routers lead its calls; all that know how if absent.
    pub routers: Option<SelectorForm>,
    /// Where it takes calls.
    #[schemars(length(min = 1, max = 16))]
    pub ports: Vec<PortForm>,
    /// By what all calls of one user stay with one variation; each call by itself if absent.
    pub sticky: Option<StickyForm>,
    /// A header whose values ask for variations, whatever the shares.
    pub header: Option<HeaderRuleForm>,
    /// The one that serves now first.
    #[schemars(length(min = 2, max = 8))]
    pub variations: Vec<VariationForm>,
    /// Whether each release begins with other users, or each with the same; `release` if absent.
    pub salt: Option<SaltForm>,
    /// By which function of their key users are drawn, at routers that know it: embedded ones know both, nginx `murmur2`, `HAProxy`
    /// `xxh32`. Routers that draw by the same give a user the same variation. What each kind usually draws by if absent: embedded
    /// ones by `murmur2`.
    pub hash: Option<HashForm>,
    /// `serving`, as if absent: the first variation has to be what serves now, or the release is refused where that is known.
    /// `replace`: it takes the place of whatever serves now.
    pub base: Option<BaseForm>,
    /// What becomes of it at a router where nothing led it before the release, once that is rolled back there. `keep`, as if absent: the
    /// first variation serves on. `retire`: it is led no more, as before.
    pub at_rollback: Option<AtRollbackForm>,
    /// Which calls that a variation failed are repeated on the stable one, where the router can.
    pub retry: Option<RetryForm>,
    /// A PROXY header of this version stands in front of each connection to a target, and says who the caller is. Not for UDP, and not
    /// beside health checks of a path, which go without; at the proxies of agents.
    pub proxy_protocol: Option<ProxyProtocolForm>,
    /// How long connections of TCP, those of TLS that pass unopened, and flows of UDP may stay with a variation that gets none any more:
    /// whole seconds, at most 30d. Then they are cut. As the proxy is set to if absent; at the proxies of agents.
    pub drain: Option<DurationForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectorForm {
    /// All of them must be a child's: those of operators win over those that it reports.
    pub labels: BTreeMap<String, Scalar>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortForm {
    #[schemars(range(min = 1))]
    pub port: u16,
    /// `HTTP` if absent.
    pub protocol: Option<ProtocolForm>,
    /// Whose calls it takes there, of HTTP and HTTPS: names as in `shop.example`, without `*`; whatever host if absent. A call is the
    /// service's that names its host, else the one's that names none.
    #[schemars(length(min = 1, max = 16))]
    pub hosts: Option<Vec<String>>,
    /// What the paths of its calls begin with, in whole segments: `/api` has `/api` and `/api/x`, and not `/apix`. Whatever path if
    /// absent. The longest one counts, and targets get it unchanged.
    pub path: Option<String>,
    /// Who ends TLS, of HTTPS. `certificate`, as if absent: the router, with a certificate that its operator has given it. `pass`: targets.
    /// It passes unopened then, at the proxies of agents, to the service whose host the caller names; nobody sees its calls, so there are
    /// no cookies, headers and paths.
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

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderRuleForm {
    pub name: Scalar,
    /// Values of the header, and the variation that each asks for.
    pub values: BTreeMap<String, Scalar>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariationForm {
    /// At most 63 letters, digits and `. _ -`.
    pub name: Scalar,
    /// Where it listens: a host and a port, as in `127.0.0.1:9000`. Needed without `run`.
    #[schemars(length(min = 1, max = 64))]
    pub targets: Option<Vec<String>>,
    /// What the agent of a router starts in the place of targets. Not of UDP.
    pub run: Option<RunForm>,
    /// How it is looked whether its targets are there.
    pub health: Option<HealthForm>,
}

/// Something that takes calls at `$HOST:$PORT`, which the agent's runtime chooses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunForm {
    /// Its folder among those of functions: relative, with forward slashes.
    pub path: String,
    /// What its folder holds: a program `run`, or a file `image` that names an image by its digest. `program` if absent.
    pub env: Option<RunnableForm>,
    /// The most that it may use; as the agent is set to if absent.
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
    /// Processors, in whole hundredths: `500m`, `1.5`. It takes an agent that has control groups.
    pub cpu: Option<Scalar>,
    /// Bytes: `128Mi`, `1G`.
    pub memory: Option<Scalar>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthForm {
    /// A GET of it is answered with a status from 200 to 399; if absent, a connection is enough.
    pub path: Option<String>,
    /// From 100ms to 1h; `2s` if absent.
    pub interval: Option<DurationForm>,
    /// From 100ms to 1m; `1s` if absent.
    pub timeout: Option<DurationForm>,
    /// So many in a row; 2 if absent.
    #[schemars(range(min = 1, max = 100))]
    pub healthy_after: Option<u32>,
    /// So many in a row; 3 if absent.
    #[schemars(range(min = 1, max = 100))]
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

/// A percentage with at most two decimals: `10`, `"0.25"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PercentForm {
    Number(#[schemars(range(min = 0, max = 100))] f64),
    Text(#[schemars(regex(pattern = r"^\s*(0?[0-9]{1,2}(\.[0-9]{1,2})?|100(\.0{1,2})?)\s*$"))] String),
}

/// How a share grows: the name of a template, or what one says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RolloutStrategyForm {
    Name(String),
    WrittenOut(RolloutTemplateForm),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutTemplateForm {
    pub name: Option<Scalar>,
    pub description: Option<Scalar>,
    #[schemars(length(min = 1, max = 64))]
    pub stages: Vec<TemplateStageForm>,
    /// If `false`, somebody is asked after each stage but the last; `true` if absent.
    pub auto_advance: Option<TruthForm>,
    /// What follows when a stage fails; `rollback` if absent.
    pub on_failure: Option<OnLimitForm>,
    /// How often the health of targets is looked at; `30s` if absent.
    pub interval: Option<DurationForm>,
}

/// A stage: so much for so long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateStageForm {
    /// What the new variation gets.
    pub traffic: PercentForm,
    /// `0s`: as soon as it has had its calls.
    pub duration: DurationForm,
    /// So much of the targets must be healthy; 95 if absent.
    pub healthy_targets: Option<PercentForm>,
    /// Whether somebody is asked when it has passed; `false` if absent.
    pub approval: Option<TruthForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TruthForm {
    Truth(bool),
    Text(#[schemars(regex(pattern = r"^(true|false)$"))] String),
}
