//! `If-Match`: who acts says which release they have seen.

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use utoipa::IntoParams;

use crate::problem::Problem;
use domain::release::{command::Command, revision::Tag};

/// Most tags that one call may name.
const MAX_TAGS: usize = 16;

/// The header, for the description of the calls.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "read by IfMatch; this only describes it")]
pub(super) struct Headers {
    /// The `tag` of the release as it was seen, in quotes. If that is not its tag any more, nothing happens and the answer is
    /// 412. A pause and an abort are done all the same where the release has only gone on by itself since (it came to a gate, opened a
    /// wave, was judged, stopped at a limit), and are refused where somebody acted on it, where it was tried again, and where it is over.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The tags that the caller has seen; `None`: it is done to whatever release there is.
#[derive(Debug)]
pub(super) struct IfMatch(pub Option<Vec<Tag>>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let lines = parts.headers.get_all(header::IF_MATCH).iter();
        let lines: Result<Vec<&str>, _> = lines.map(|line| line.to_str()).collect();
        let lines = lines.map_err(|_| unread())?;
        if lines.is_empty() {
            return Ok(Self(None));
        }
        read(&lines.join(",")).ok_or_else(unread)
    }
}

fn unread() -> Problem {
    Problem::bad_request(format!(
        "`If-Match` can't be read: write \"TAG\" with its quotes, up to {MAX_TAGS} of them with commas between, or *"
    ))
}

/// The tags in a header (RFC 9110, section 13.1.1): `*` is whatever is there, and what is no tag of a release, or a weak one, matches
/// none. `None`: it can't be read.
fn read(text: &str) -> Option<IfMatch> {
    if text.trim() == "*" {
        return Some(IfMatch(None));
    }
    let mut tags = Vec::new();
    for (at, part) in text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
        let strong = part.strip_prefix("W/").unwrap_or(part);
        let opaque = strong.strip_prefix('"')?.strip_suffix('"')?;
        if at >= MAX_TAGS || opaque.contains('"') {
            return None;
        }
        tags.extend(opaque.parse::<Tag>().ok().filter(|_| strong.len() == part.len()));
    }
    Some(IfMatch(Some(tags)))
}

impl IfMatch {
    /// The command, to be refused where the release is another one.
    pub(super) fn guard(&self, release: &str, then: Command) -> Command {
        match &self.0 {
            None => then,
            Some(tags) => {
                Command::Guarded { release: release.to_owned(), tags: tags.clone(), then: Box::new(then) }
            }
        }
    }
}
