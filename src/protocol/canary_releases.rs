//! The forms of the interface `CanaryRelease`: a canary of a registered release, and the release itself, with the field names of that
//! interface (`camelCase`). They come as YAML or JSON, as manifests of Kubernetes are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ab_releases::EnvironmentPort, api::ShareRange};

/// What a text of this interface is as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest<S> {
    /// Whatever it says, it is read.
    #[serde(default)]
    pub api_version: String,
    /// `CanaryRelease`, `Release`.
    pub kind: String,
    pub metadata: Metadata,
    pub spec: S,
    /// Passed over: a status follows from what happens.
    #[serde(default, skip_serializing)]
    #[schema(value_type = Object)]
    pub status: Value,
}

/// Other tools note more of it, which is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
}

/// A canary of a registered release.
// Digests of it are stored: absent, a new field must leave the JSON as it was.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryReleaseSpec {
    /// The name of a registered release.
    pub release: String,
    /// The version of it that the canary runs.
    pub version: i32,
    /// The part of the release that has a canary; `/` if absent.
    #[serde(default)]
    pub path: String,
    /// The configuration of that version: a text.
    #[serde(default)]
    #[schema(value_type = String)]
    pub config: Value,
    /// Whose calls are shared.
    #[serde(default)]
    pub services: Vec<CanaryService>,
    /// What the canary may use: `limits` of `cpu` and `memory`. Absent: what its release says.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub resources: Map<String, Value>,
    /// `Adopted`: the release becomes what the canary is. `Deprecated`: all is as it was. Absent: calls are shared.
    #[serde(default)]
    pub transition: String,
}

/// A service of the release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryService {
    /// Its name.
    #[serde(default)]
    pub service: String,
    /// Where it takes the calls that are shared.
    #[serde(default)]
    pub ports: Vec<CanaryPort>,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryPort {
    /// Its number.
    #[serde(default)]
    pub port: i32,
    /// `HTTP`, `HTTPS`, `TCP`, `UDP`; that of the release if absent.
    #[serde(default)]
    pub protocol: String,
    /// How its calls are shared.
    #[serde(default)]
    pub config: CanaryConfig,
}

/// How the calls of a port are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryConfig {
    /// What the canary gets: 0 to 100 percent.
    #[serde(default)]
    pub weight: Option<i32>,
}

/// What is registered as a release: its services, and where each version of it listens.
// Digests of what canaries adopt are stored: absent, a new field must leave the JSON as it was.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseSpec {
    /// Labels of the routers that lead its calls; empty: all that know how.
    #[serde(default)]
    pub routers: BTreeMap<String, String>,
    /// What it consists of.
    pub services: Vec<ReleaseService>,
    /// What its services were and will be.
    pub versions: Vec<ReleaseVersion>,
    /// The one that serves.
    pub version: i32,
    /// The configuration of the version that serves.
    #[serde(default)]
    pub config: String,
    /// What its versions may use where they are started: `limits` of `cpu` and `memory`. A canary may say something else for itself.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub resources: Map<String, Value>,
    /// In a manifest `metadata.name` says it.
    #[serde(default)]
    pub name: String,
}

/// A service of a release, and where it takes calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseService {
    /// As canaries call it.
    pub name: String,
    /// The part of the release to which it belongs; `/` if absent.
    #[serde(default = "root")]
    pub path: String,
    /// Where it takes calls.
    pub ports: Vec<EnvironmentPort>,
    /// A PROXY header of this version, `v1` or `v2`, says to targets who calls; none if absent. Not of UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<String>,
    /// How long connections and flows may stay with a version that gets none any more, as in `1h`; as long as the router is set to if absent.
    /// Not of HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
}

fn root() -> String {
    "/".to_owned()
}

/// A version of a release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseVersion {
    /// From 1.
    pub version: i32,
    /// Service → hosts and ports at which this version of it listens.
    #[serde(default)]
    pub targets: BTreeMap<String, Vec<String>>,
    /// Service → what agents start for this version of it, where it has no targets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run: BTreeMap<String, ReleaseRun>,
}

/// What agents start for a version of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseRun {
    /// SHA-256 of an archive that a release has brought along, hex; the manager's own folder of functions if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// The folder in it. Of its files those whose names end in `.tmpl` are rendered with the configuration.
    pub path: String,
    /// What that holds: `program` or `image`; `program` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
}

/// A release that canaries may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredRelease {
    pub id: String,
    pub tenant_id: String,
    pub created_at: String,
    pub created_by: Option<String>,
    #[serde(flatten)]
    pub spec: ReleaseSpec,
}

/// A canary as it is: `GET /api/v1/canary-releases/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryRelease {
    /// `choirmaster.internal/v1`.
    pub api_version: String,
    /// `CanaryRelease`.
    pub kind: String,
    pub metadata: CanaryMetadata,
    /// As it was submitted, as far as that is known: ports are those of its services, without options that are left out. `resources` are
    /// those of its release where it says none. `transition` is what somebody wanted last.
    pub spec: CanaryReleaseSpec,
    pub status: CanaryStatus,
}

/// What is known of a canary beside what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryMetadata {
    /// Also the id of the release that it is.
    pub name: String,
    pub uid: String,
    pub creation_timestamp: String,
    /// Who created it, if anybody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// Where a canary stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// `Pending`, `Starting`, `Canary`, `Held` (somebody has to decide), `Adopting`, `Adopted`, `Deprecating`, `Deprecated` (proven
    /// everywhere), `DeprecatedUnproven`, `RollingBack` (by itself), `RolledBack`, `RolledBackUnproven`, `NoParticipants`, `Failed`.
    pub phase: String,
    /// Percent of the calls that it is to get now; of several parts, of the first.
    pub weight: f64,
    /// What its routers were read back to give it; `None`: no router tells. Of several parts, of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<ShareRange>,
    /// Each service and port that has a weight of its own; left out where all is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<CanaryPart>,
    /// Each type once: `Accepted`, `WeightInForce`, `Healthy`, `Adopted`, `Deprecated`.
    pub conditions: Vec<CanaryCondition>,
}

/// A service of a canary, or one of its ports: what has a weight of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryPart {
    /// As routers call it: the name of the service, and of one with several ports the port behind it, as in `checkout.8443`.
    pub name: String,
    /// Where it takes calls.
    pub ports: Vec<i32>,
    /// Percent of its calls that the canary is to get now.
    pub weight: f64,
    /// What its routers were read back to give the canary; `None`: no router tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<ShareRange>,
}

/// Something that is so of a canary, or isn't, as conditions of Kubernetes say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryCondition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Why, in a word for programs.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When the status became what it is, as far as that is known.
    pub last_transition_time: String,
}

/// The folder of manifests that a manager watches: `GET /api/v1/canary-releases/folder`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryFolder {
    /// As the configuration names it; `null`: none is watched.
    pub folder: Option<String>,
    /// Why nothing of it is done, or nothing is deprecated.
    pub fault: Option<String>,
    /// Times that a file was read since the manager started. Only what changes is read again.
    pub files_read: u64,
    /// By their names.
    pub files: Vec<CanaryFile>,
    /// To be sent as `after` for the page that follows.
    pub next: Option<String>,
}

/// A manifest in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryFile {
    /// Its name in the folder.
    pub file: String,
    /// `CanaryRelease`, `Release`; `null`: it can't be read.
    pub kind: Option<String>,
    /// The id of the release, or the name of the registered release.
    pub id: Option<String>,
    pub state: CanaryFileState,
    /// Why it isn't applied.
    pub fault: Option<String>,
}

/// What has become of a manifest in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CanaryFileState {
    /// What it says was done, or was so already.
    Applied,
    /// It is tried again.
    Waiting,
    /// It isn't tried again before it changes.
    Faulty,
}
