//! Strategies that reach beyond this manager go to the one above, whole: text and functions.
//!
//! The parent answers, and its answer is the developer's. Nothing of the release is kept here but a pointer to
//! where it went; what this manager is to do of it comes down again as any offer of the parent's. A call that comes to
//! nothing leaves nothing behind, and may be made again: the same release twice is one release there.
//!
//! A strategy carries the ids of the managers that it passed, so that one which comes back to where it was is refused.
//!
//! Deliberately not here: when to ask (`http-api`), and the link to the parent as its child (`parent`).

use std::time::Duration;

use bytes::Bytes;
use geo::MultiPolygon;
use reqwest::{
    StatusCode, Url,
    multipart::{Form, Part},
};

use domain::plan::{Cover, Shape};
use language::Strategy;
use model::area;
use protocol::api;

/// The header in which a strategy carries the ids of the managers that it passed, divided by commas.
pub const PASSED_HEADER: &str = "choirmaster-passed";

/// Most managers that a strategy passes on its way up: no tree is as deep.
pub const MAX_PASSED: usize = 64;

/// The parent has this long to answer; a submission may carry megabytes over a slow line.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// A connection must be there within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// What lies beyond an area counts from this share of the target on: clipping is good to a millionth.
const LEAST_BEYOND: f64 = 1e-5;

/// What an operator sets of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the parent is called by operators: `http://HOST:PORT`.
    pub url: String,
    pub token: Option<String>,
    /// GeoJSON: what this manager is there for.
    pub area: String,
}

/// Why a strategy did not go up.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error("{0:?} is no address of a manager")]
    Address(String),
    #[error("the area of this manager can't be used: {0}")]
    Area(#[from] area::AreaError),
    #[error(
        "forward_up: this manager has a parent and can't tell whether the target reaches beyond its own area: name \
         that one's GeoJSON in parent.area_file, or leave forward_up out"
    )]
    AreaUnknown,
    #[error("the manager above can't be reached ({0}); nothing was submitted, try again")]
    Unreachable(String),
    #[error("the manager above answered nonsense: {0}")]
    Nonsense(String),
    /// As the parent put it.
    #[error("the manager above refuses it: {}", .0.detail)]
    Refused(Box<api::Problem>),
    #[error("the strategy passed {0} managers and went in a circle, or the tree is too deep")]
    TooFar(usize),
}

/// A release on its way up.
#[derive(Debug)]
pub struct Forwarded<'a> {
    pub strategy: &'a str,
    /// The archive of its functions.
    pub functions: Bytes,
    pub dry_run: bool,
    /// It is not to start yet.
    pub deferred: bool,
    pub by: &'a str,
    pub note: Option<&'a str>,
    /// Whose release it is. A manager that knows no tenants refuses it.
    pub tenant: Option<&'a str>,
    /// The managers that it passed; the last is this one.
    pub passed: &'a [String],
}

/// Who is above this manager, as far as strategies that reach beyond it are concerned.
#[derive(Debug)]
pub enum Forwarding {
    /// Nobody: all is released here.
    Nobody,
    /// Somebody, but it is not known where this manager's area ends.
    AreaUnknown,
    Known(Forward),
}

impl Forwarding {
    /// The way up for a strategy that reaches beyond this manager; `None`: it is released here.
    pub fn of(&self, strategy: &Strategy) -> Result<Option<(&Forward, f64)>, ForwardError> {
        let area = strategy.target.as_ref().and_then(|target| target.area.as_ref());
        let Some(area) = area.filter(|_| strategy.forward_up) else { return Ok(None) };
        match self {
            Self::Nobody => Ok(None),
            Self::AreaUnknown => Err(ForwardError::AreaUnknown),
            Self::Known(forward) => Ok(forward.beyond_km2(&area.polygons()).map(|km2| (forward, km2))),
        }
    }
}

/// The way up.
#[derive(Debug)]
pub struct Forward {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
    area: Shape,
}

impl Forward {
    pub fn new(settings: Settings) -> Result<Self, ForwardError> {
        let Settings { url, token, area } = settings;
        let parsed = Url::parse(&url).ok().filter(|url| !url.cannot_be_a_base());
        let url = parsed.ok_or(ForwardError::Address(url))?;
        let area = Shape::of(&area::parse(&area)?);
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(unreachable)?;
        Ok(Self { http, url, token, area })
    }

    /// The parent, as it is shown.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// How many square kilometres of a target lie beyond this manager's area; `None`: nothing does.
    fn beyond_km2(&self, target: &MultiPolygon) -> Option<f64> {
        let cover = Cover::anywhere(target);
        let whole = cover.km2();
        let beyond = whole - cover.km2_of(&self.area);
        (beyond > whole * LEAST_BEYOND).then_some(beyond)
    }

    /// Submits a release to the parent.
    pub async fn submit(&self, release: Forwarded<'_>) -> Result<(StatusCode, api::Submitted), ForwardError> {
        if release.passed.len() > MAX_PASSED {
            return Err(ForwardError::TooFar(release.passed.len()));
        }
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("release");
        }
        let mut request = self
            .http
            .post(url)
            .query(&[("dry_run", if release.dry_run { "true" } else { "false" }), ("by", release.by)])
            .header(PASSED_HEADER, release.passed.join(","));
        if release.deferred {
            request = request.query(&[("start", "false")]);
        }
        if let Some(note) = release.note {
            request = request.query(&[("note", note)]);
        }
        if let Some(tenant) = release.tenant {
            request = request.query(&[("tenant", tenant)]);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let form = Form::new()
            .part("strategy", Part::text(release.strategy.to_owned()).file_name("strategy.yml"))
            .part("functions", Part::stream(release.functions).file_name("fns.zip"));
        let mut answer = request.multipart(form).send().await.map_err(unreachable)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(ForwardError::Nonsense(format!("more than {MAX_ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            let submitted =
                serde_json::from_slice(&body).map_err(|e| ForwardError::Nonsense(e.to_string()))?;
            return Ok((status, submitted));
        }
        match serde_json::from_slice::<api::Problem>(&body) {
            Ok(problem) => {
                Err(ForwardError::Refused(Box::new(api::Problem { status: status.as_u16(), ..problem })))
            }
            Err(_) => Err(ForwardError::Nonsense(format!("it answered {status}"))),
        }
    }
}

fn unreachable(error: reqwest::Error) -> ForwardError {
    // The address may hold a secret.
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    ForwardError::Unreachable(format!("{error}{cause}"))
}
