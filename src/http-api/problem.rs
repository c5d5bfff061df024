//! From what went wrong to an answer: the one place that maps domain errors to HTTP.
//!
//! Developers and operators get RFC 9457 problems; children a status and one line of text (see [`super::child`]).
//! What is shown says what happened, to which id, and what to do; what is internal goes to the log alone.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use ab_releases::Fault;
use domain::release::command::Refusal;
use engine::EngineError;
use language::functions::ArchiveError;
use protocol::api;
use store::StoreError;

/// Seconds after which a caller who was turned away may try again.
pub const RETRY_AFTER_S: &str = "2";

/// The media type of problems.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Longest detail of a problem, in bytes: part of it may come from the caller.
const MAX_DETAIL_BYTES: usize = 2_000;

/// The status of an error of the engine.
pub fn status(error: &EngineError) -> StatusCode {
    match error {
        EngineError::Refused(refusal) => refused(refusal).0,
        EngineError::Busy | EngineError::Full | EngineError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        EngineError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status and the kind of a refusal.
fn refused(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::UnknownChild(_) => (StatusCode::NOT_FOUND, "unknown-child"),
        Refusal::LeadsNoRouter(_) => (StatusCode::NOT_FOUND, "unknown-router"),
        Refusal::UnknownService { .. } => (StatusCode::NOT_FOUND, "unknown-service"),
        Refusal::UnknownRelease(_) => (StatusCode::NOT_FOUND, "unknown-release"),
        Refusal::UnknownWorkflow(_) => (StatusCode::NOT_FOUND, "unknown-workflow"),
        Refusal::WorkflowTaken(_) => (StatusCode::CONFLICT, "workflow-taken"),
        Refusal::UnknownPart { .. } => (StatusCode::NOT_FOUND, "unknown-function"),
        Refusal::CanNotMove { .. } => (StatusCode::CONFLICT, "can-not-move"),
        Refusal::NeverOffered { .. } => (StatusCode::NOT_FOUND, "never-offered"),
        Refusal::NoPart { .. } => (StatusCode::NOT_FOUND, "no-part"),
        Refusal::NotAReport(_) => (StatusCode::BAD_REQUEST, "bad-request"),
        Refusal::UnknownStage { .. } => (StatusCode::CONFLICT, "unknown-stage"),
        Refusal::NotStarted { .. } | Refusal::EndedOtherwise { .. } | Refusal::Late { .. } => {
            (StatusCode::CONFLICT, "stage")
        }
        Refusal::IdTaken(_) => (StatusCode::CONFLICT, "id-taken"),
        Refusal::IdAmbiguous { .. } => (StatusCode::CONFLICT, "id-ambiguous"),
        Refusal::OtherBase(_) => (StatusCode::CONFLICT, "other-base"),
        Refusal::CanNotLead(_) => (StatusCode::CONFLICT, "can-not-lead"),
        Refusal::PortTaken(_) => (StatusCode::UNPROCESSABLE_ENTITY, "port-taken"),
        Refusal::Conflict(_) | Refusal::SameAdoption(_) | Refusal::AnothersConflict => {
            (StatusCode::CONFLICT, "conflict")
        }
        Refusal::UnknownVariation { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "unknown-variation"),
        Refusal::WrongState { .. } | Refusal::CanNotWin { .. } | Refusal::CanNotShare { .. } => {
            (StatusCode::CONFLICT, "wrong-state")
        }
        Refusal::HeldByParent { .. } => (StatusCode::CONFLICT, "held-above"),
        Refusal::HasPart { .. } => (StatusCode::CONFLICT, "has-part"),
        Refusal::Owes { .. } => (StatusCode::CONFLICT, "owes"),
        Refusal::Changed { .. } => (StatusCode::PRECONDITION_FAILED, "changed"),
        Refusal::NothingToRetry(_) => (StatusCode::CONFLICT, "nothing-to-retry"),
        Refusal::Unfit { .. } => (StatusCode::CONFLICT, "unfit"),
        Refusal::TooManyAdopted { .. } => (StatusCode::TOO_MANY_REQUESTS, "limit"),
        Refusal::Limit { .. } => (StatusCode::SERVICE_UNAVAILABLE, "limit"),
    }
}

/// An error on its way to a developer or an operator.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    /// The last part of the problem's type; `None`: the status says all.
    kind: Option<&'static str>,
    detail: String,
    diagnostics: Vec<api::Diagnostic>,
}

impl Problem {
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind: Some(kind), detail: detail.into(), diagnostics: Vec::new() }
    }

    /// With the faults of a strategy, as another manager lists them.
    #[must_use]
    pub fn with_diagnostics(self, diagnostics: Vec<api::Diagnostic>) -> Self {
        Self { diagnostics, ..self }
    }

    /// A problem of which the status says all.
    pub fn plain(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, kind: None, detail: detail.into(), diagnostics: Vec::new() }
    }

    /// The last part of its type; `None`: the status says all.
    pub const fn kind(&self) -> Option<&'static str> {
        self.kind
    }

    /// What it says.
    pub fn into_detail(self) -> String {
        self.detail
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::plain(StatusCode::BAD_REQUEST, detail)
    }

    pub fn unknown_release(id: &str) -> Self {
        Refusal::UnknownRelease(quoted(id)).into()
    }

    pub fn unknown_tenant(name: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_TENANT).collect();
        Self::new(StatusCode::NOT_FOUND, "unknown-tenant", format!("tenant {name} is not known"))
    }

    pub fn unknown_child(id: &str) -> Self {
        Refusal::UnknownChild(quoted(id)).into()
    }

    pub fn unknown_router(id: &str) -> Self {
        let detail = format!("there is no router {}: no child of this id leads one", quoted(id));
        Self::new(StatusCode::NOT_FOUND, "unknown-router", detail)
    }

    pub fn unknown_service(name: &str) -> Self {
        let detail = format!("no router leads a service {}", quoted(name));
        Self::new(StatusCode::NOT_FOUND, "unknown-service", detail)
    }

    /// Nothing can be stored.
    pub fn store_full() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-full", EngineError::Full.to_string())
    }

    /// A strategy with faults, all of them at once.
    pub fn invalid_strategy(diagnostics: &[language::Diagnostic]) -> Self {
        let is_error = |d: &&language::Diagnostic| d.severity == language::Severity::Error;
        let faults = diagnostics.iter().filter(is_error).count();
        let first = diagnostics.iter().find(is_error).map_or("", |first| &first.message);
        let detail = match faults {
            1 => format!("the strategy has a fault: {first}"),
            _ => format!("the strategy has {faults} faults; the first: {first}"),
        };
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-strategy", detail);
        problem.diagnostics = diagnostics.iter().map(diagnostic).collect();
        problem
    }
}

/// A diagnostic as it is sent.
pub fn diagnostic(found: &language::Diagnostic) -> api::Diagnostic {
    api::Diagnostic {
        severity: found.severity.to_string(),
        code: found.code.to_owned(),
        line: found.line,
        column: found.column,
        message: found.message.clone(),
        source_line: found.source_line.clone(),
        fix: found.fix.clone(),
    }
}

/// Longest part of a tenant's name that an answer repeats, in characters.
const MAX_SHOWN_TENANT: usize = 64;

/// An id as the caller sent it, fit for a line of text.
fn quoted(id: &str) -> String {
    id.chars().filter(|c| !c.is_control()).take(model::MAX_OFFER_ID_LEN).collect()
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, kind) = refused(&refusal);
        Self::new(status, kind, refusal.to_string())
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error.to_string()),
            EngineError::Full => Self::store_full(),
            EngineError::Stopped => Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", error.to_string()),
            EngineError::Failed => Self::plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full(_) => Self::store_full(),
            StoreError::Unavailable(_) => {
                tracing::warn!(%error, "a question to the store was not answered");
                let detail = "the store does not answer at the moment; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", detail)
            }
            StoreError::LeaseLost(_)
            | StoreError::Held { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::BadRow { .. }
            | StoreError::Refused(_) => {
                tracing::error!(%error, "a question to the store failed");
                let detail = "the store could not be read; see the manager's log";
                Self::plain(StatusCode::INTERNAL_SERVER_ERROR, detail)
            }
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-field", fault.to_string())
    }
}

impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Self {
        let status = match &error {
            ArchiveError::UploadTooLarge { .. }
            | ArchiveError::TooManyEntries { .. }
            | ArchiveError::FileTooLarge { .. }
            | ArchiveError::TooLarge { .. }
            | ArchiveError::Ratio { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ArchiveError::NotAZip(_) | ArchiveError::Damaged { .. } => StatusCode::BAD_REQUEST,
            ArchiveError::Name { .. }
            | ArchiveError::Duplicate { .. }
            | ArchiveError::Case { .. }
            | ArchiveError::DuplicateNames
            | ArchiveError::FileAndFolder { .. }
            | ArchiveError::Link { .. }
            | ArchiveError::Special { .. }
            | ArchiveError::Encrypted { .. }
            | ArchiveError::Compression { .. }
            | ArchiveError::Missing { .. }
            | ArchiveError::Empty { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            ArchiveError::Io { .. } | ArchiveError::Pack(_) => {
                tracing::error!(%error, "the functions of a release could not be packed");
                let detail = "the functions could not be packed; see the manager's log";
                return Self::plain(StatusCode::INTERNAL_SERVER_ERROR, detail);
            }
        };
        Self::new(status, "invalid-functions", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.kind.and_then(title).or(self.status.canonical_reason()).unwrap_or("Error");
        let mut detail = self.detail;
        if detail.len() > MAX_DETAIL_BYTES {
            detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
            detail.push('…');
        }
        let body = api::Problem {
            kind: self.kind.map_or_else(|| "about:blank".to_owned(), |kind| format!("/problems/{kind}")),
            title: title.to_owned(),
            status: self.status.as_u16(),
            detail,
            diagnostics: self.diagnostics,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

/// The short title of a kind of problem.
fn title(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "unknown-child" => "Unknown child",
        "unknown-release" => "Unknown release",
        "unknown-stage" => "Unknown stage",
        "invalid-strategy" => "Invalid strategy",
        "invalid-functions" => "Invalid functions",
        "invalid-field" => "A field can't be taken",
        "unknown-ab-release" => "Unknown A/B release",
        "unknown-rollout-strategy" => "Unknown rollout strategy",
        "unknown-environment" => "Unknown environment",
        "unknown-target-group" => "Unknown target group",
        "unknown-version" => "Unknown version",
        "unknown-canary-release" => "Unknown canary release",
        "unknown-registered-release" => "Unknown registered release",
        "in-use" => "In use",
        "id-taken" => "The id is taken",
        "id-ambiguous" => "The id is ambiguous",
        "conflict" => "Unfinished releases are in the way",
        "wrong-state" => "Not in this state",
        "held-above" => "The manager above decides",
        "changed-since" => "A later release changed the same",
        "not-kept" => "It is not kept any more",
        "changed" => "The release has changed since",
        "nothing-to-retry" => "Nothing to retry",
        "no-part" => "No part in the release",
        "no-offer" => "No offer for this child",
        "forward" => "Not taken over by the manager above",
        "forwarded" => "The manager above has it",
        "limit" => "A limit is reached",
        "not-heard" => "A manager below was not heard",
        "busy" => "Busy",
        "stopping" => "Stopping",
        "not-ready" => "Not ready",
        "store-full" => "The store has no space left",
        "unknown-tenant" => "Unknown tenant",
        "tenant-limit" => "A limit of the tenant is reached",
        "tenant-taken" => "The name was given",
        "has-part" => "It has a part in a release",
        "reserved-id" => "The id is kept for tenants",
        "missing-role" => "The token lacks a role",
        "whole-manager" => "Not for a tenant",
        "store-unavailable" => "The store does not answer",
        _ => return None,
    })
}
