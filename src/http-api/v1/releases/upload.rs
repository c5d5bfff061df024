//! What `POST /release` is sent: YAML alone, or YAML and a zip.

use std::sync::Arc;

use axum::{
    body::{Body as AnyBody, Bytes},
    extract::{FromRequest as _, Multipart, Request, multipart::MultipartError},
    http::StatusCode,
};

use crate::{
    Context,
    auth::CallingOperator,
    extract::{Body, media_type},
    metered_body::{MemoryReservation, MeteredBody},
    problem::Problem,
};
use engine::EngineError;
use language::{
    MAX_STRATEGY_BYTES,
    functions::{MAX_UPLOAD_BYTES, Unpacked},
};

/// Largest body of a submission, in bytes: the largest strategy and zip, and what multipart puts around them.
pub const MAX_BODY_BYTES: usize = MAX_UPLOAD_BYTES as usize + MAX_STRATEGY_BYTES + 64 * 1024;

/// Most parts of a multipart body.
const MAX_PARTS: usize = 8;

/// A submission as it was sent.
#[derive(Debug)]
pub struct Upload {
    pub strategy: Bytes,
    /// A zip.
    pub functions: Option<Bytes>,
    /// What was unpacked of archives that the manager has; it takes the place of a zip.
    pub files: Option<Unpacked>,
    /// The memory that they take.
    _accounts: [Arc<MemoryReservation>; 2],
}

impl Upload {
    /// A strategy that this manager has made itself.
    pub(in crate::v1) fn made(strategy: String, files: Option<Unpacked>) -> Self {
        Self { strategy: strategy.into(), functions: None, files, _accounts: Default::default() }
    }
}

/// Reads a submission of any of the accepted forms. Whoever sends slowly is in nobody's way; where those that are being
/// read take too much memory already, there is an answer at once.
pub async fn read(ctx: &Context, request: Request) -> Result<Upload, Problem> {
    read_text(ctx, request, STRATEGY).await
}

/// The same with a workflow in place of the strategy.
pub async fn read_workflow(ctx: &Context, request: Request) -> Result<Upload, Problem> {
    read_text(ctx, request, WORKFLOW).await
}

/// What stands beside functions: the part's name, and the media types of a body that is that alone.
type Text = (&'static str, &'static [&'static [u8]]);

const STRATEGY: Text = (
    "strategy",
    &[
        b"application/yaml",
        b"application/x-yaml",
        b"text/yaml",
        b"text/x-yaml",
        b"text/plain",
        b"application/octet-stream",
    ],
);
const WORKFLOW: Text = ("workflow", &[b"application/json", b"application/x-www-form-urlencoded"]);

async fn read_text(ctx: &Context, request: Request, of: Text) -> Result<Upload, Problem> {
    let accounts = [Arc::new(MemoryReservation::default()), Arc::new(MemoryReservation::default())];
    let [account, of_tenant] = accounts.clone();
    let caller = request.extensions().get::<CallingOperator>();
    // A tenant takes no more than its part, whoever else submits.
    let part = caller.and_then(|caller| Some(ctx.uploading_of(caller.grant.tenant.as_ref()?)));
    let memory = Arc::clone(&ctx.uploading);
    let request = request.map(|body| match part {
        Some(part) => AnyBody::new(MeteredBody::new(
            AnyBody::new(MeteredBody::new(body, part, of_tenant)),
            memory,
            account,
        )),
        None => AnyBody::new(MeteredBody::new(body, memory, account)),
    });
    match parts(ctx, request, of).await {
        Ok((strategy, functions)) => Ok(Upload { strategy, functions, files: None, _accounts: accounts }),
        Err(_) if accounts.iter().any(|account| account.was_refused()) => Err(EngineError::Busy.into()),
        Err(problem) => Err(problem),
    }
}

/// The strategy, and a zip if there is one.
async fn parts(ctx: &Context, request: Request, of: Text) -> Result<(Bytes, Option<Bytes>), Problem> {
    match media_type(request.headers()).as_deref() {
        Some(b"multipart/form-data") => multipart(ctx, request, of.0).await,
        media if media.is_none_or(|media| of.1.contains(&media)) => {
            let Body(strategy) = Body::from_request(request, ctx).await?;
            Ok((strategy, None))
        }
        other => {
            let other = other.unwrap_or_default();
            let mut detail = format!(
                "the body must be {} or multipart/form-data, not {}",
                String::from_utf8_lossy(of.1.first().copied().unwrap_or_default()),
                String::from_utf8_lossy(other).chars().filter(|c| !c.is_control()).collect::<String>()
            );
            if other == b"application/x-www-form-urlencoded" {
                detail.push_str("; with curl: --data-binary @FILE -H 'Content-Type: application/yaml'");
            }
            Err(Problem::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

async fn multipart(ctx: &Context, request: Request, text: &str) -> Result<(Bytes, Option<Bytes>), Problem> {
    let mut form = Multipart::from_request(request, ctx)
        .await
        .map_err(|rejection| Problem::plain(rejection.status(), rejection.body_text()))?;
    let (mut strategy, mut functions) = (None, None);
    let mut parts = 0;
    while let Some(part) = form.next_field().await.map_err(|error| unread(&error))? {
        parts += 1;
        if parts > MAX_PARTS {
            return Err(Problem::bad_request("there are too many parts; two are expected"));
        }
        let place = match part.name() {
            Some(name) if name == text => &mut strategy,
            Some("functions") => &mut functions,
            other => {
                let name = other.unwrap_or_default();
                let detail = format!("the part {name:?} is not known; the parts are {text} and functions");
                return Err(Problem::bad_request(detail));
            }
        };
        let content = part.bytes().await.map_err(|error| unread(&error))?;
        if place.replace(content).is_some() {
            return Err(Problem::bad_request("a part is there twice"));
        }
    }
    match strategy {
        Some(strategy) => Ok((strategy, functions)),
        None => Err(Problem::bad_request(format!("the part `{text}` is missing"))),
    }
}

/// Whatever it is, the caller sent it: too much, something that is no multipart, or not all of it.
fn unread(error: &MultipartError) -> Problem {
    let status = match error.status() {
        status if status.is_client_error() => status,
        _ => StatusCode::BAD_REQUEST,
    };
    let why = if status == error.status() { error.body_text() } else { "the body ends too early".to_owned() };
    Problem::plain(status, format!("the parts can't be read: {why}"))
}
