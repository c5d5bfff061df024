//! A download that goes on where it was broken off.
//!
//! ```text
//! nothing kept ─▶ GET ────────────────▶ 200 ─▶ written from the beginning ─▶ whole ─▶ digest ─▶ named
//! a part kept ──▶ GET, Range, If-Range ─▶ 206 ─▶ written behind it ────────────┘        │ wrong
//!                                      └▶ 200: it has changed since                     └▶ begun anew, once
//! ```
//!
//! What is sent is the manager's `fns.zip`; its `ETag` says which one, and its `Repr-Digest` (RFC 9530) what its bytes are. Of a manager
//! that sends neither, a download is whole or nothing, and what is in the zip is checked when it is unpacked.

use std::{fs, io::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, RANGE},
};
use tokio::task::spawn_blocking;

use super::{
    Caller, LinkError, Span, next_chunk,
    part::{Note, Part, Sum},
};

/// So much is gathered before it is written, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// How one try went.
enum Tried {
    /// Everything has come, and is on disk; the digest that it is to have.
    Whole(Option<Sum>),
    /// What is kept can't be gone on with, and was taken away.
    Useless,
}

/// What is downloaded, and how much of it is taken.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    id: &'a str,
    offer: &'a str,
    /// In bytes.
    at_most: u64,
}

/// Downloads the functions of an offer, a zip of `at_most` so many bytes, to the file `into`, which is there when this returns well, and
/// survives a power loss.
///
/// Until it is whole it is kept beside it, as `into` with `.part` behind its name; who asks again goes on from there, if the manager
/// still has the same. One download a file at a time. It may take as long as it takes: only silence ends it ([`CALL_TIMEOUT`]), and an hour.
///
/// [`CALL_TIMEOUT`]: super::CALL_TIMEOUT
pub fn download<'a>(
    caller: &'a Caller,
    id: &'a str,
    offer: &'a str,
    into: &'a Path,
    at_most: u64,
) -> BoxFuture<'a, Result<(), LinkError>> {
    Box::pin(whole(caller, Wanted { id, offer, at_most }, into))
}

async fn whole(caller: &Caller, wanted: Wanted<'_>, into: &Path) -> Result<(), LinkError> {
    let offer = wanted.offer;
    let part = Part::of(into);
    let (place, of) = (part.clone(), offer.to_owned());
    if blocking(move || is_whole(&place, &of)).await? {
        return blocking(move || part.finish()).await;
    }
    let mut is_anew = false;
    loop {
        let sum = match attempt(caller, wanted, &part).await? {
            Tried::Whole(sum) => sum,
            Tried::Useless if !is_anew => {
                is_anew = true;
                continue;
            }
            Tried::Useless => {
                return Err(LinkError::Nonsense("parts of functions that don't go together".to_owned()));
            }
        };
        let place = part.clone();
        let is_right = blocking(move || match sum {
            Some(sum) => place.sum().map(|found| found == sum),
            None => Ok(true),
        });
        if is_right.await? {
            let place = part.clone();
            return blocking(move || place.finish()).await;
        }
        let place = part.clone();
        blocking(move || place.forget()).await?;
        if is_anew {
            let why = "functions whose bytes don't have the digest that it names, twice".to_owned();
            return Err(LinkError::Nonsense(why));
        }
        tracing::warn!(
            offer,
            "the functions that were downloaded have another digest than the manager names; once more"
        );
        is_anew = true;
    }
}

/// Whether everything has come already, and only its name is missing.
fn is_whole(part: &Part, offer: &str) -> Result<bool, LinkError> {
    match part.kept() {
        Some((_, Note { sum: Some(sum), offer: of, .. })) if of == offer => Ok(part.sum()? == sum),
        Some(_) | None => Ok(false),
    }
}

async fn attempt(caller: &Caller, wanted: Wanted<'_>, part: &Part) -> Result<Tried, LinkError> {
    let Wanted { id, offer, at_most } = wanted;
    let place = part.clone();
    let kept = blocking(move || Ok(place.kept())).await?;
    let mut request = caller.functions(id, offer);
    if let Some((len, note)) = &kept {
        request = request.header(RANGE, format!("bytes={len}-")).header(IF_RANGE, note.tag.as_str());
    }
    let answer = match caller.open(request, Span::Streamed, None).await {
        Err(LinkError::Refused { status, .. })
            if status == StatusCode::RANGE_NOT_SATISFIABLE.as_u16() && kept.is_some() =>
        {
            return useless(part).await;
        }
        answer => answer?,
    };
    let place = part.clone();
    match (answer.status(), kept) {
        (StatusCode::OK, _) => {
            let (len, note) = (answer.content_length(), note(offer, answer.headers()));
            let sum = sum(answer.headers());
            within_limit(len, at_most)?;
            let file = blocking(move || place.begin(note.as_ref())).await?;
            write(answer, part, file, Come { have: 0, total: len, at_most }).await?;
            Ok(Tried::Whole(sum))
        }
        (StatusCode::PARTIAL_CONTENT, Some((have, note))) => {
            let Some(total) = rest_of(answer.headers(), have, &note) else { return useless(part).await };
            within_limit(Some(total), at_most)?;
            let file = blocking(move || place.go_on()).await?;
            write(answer, part, file, Come { have, total: Some(total), at_most }).await?;
            Ok(Tried::Whole(note.sum))
        }
        (status, _) => Err(LinkError::Nonsense(format!("functions with the status {}", status.as_u16()))),
    }
}

async fn useless(part: &Part) -> Result<Tried, LinkError> {
    let place = part.clone();
    blocking(move || place.forget()).await?;
    Ok(Tried::Useless)
}

/// How large the whole is of which a part was sent, if it is the part that is missing.
fn rest_of(headers: &HeaderMap, have: u64, kept: &Note) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let [first, last, total]: [u64; 3] = [first.parse().ok()?, last.parse().ok()?, total.parse().ok()?];
    let is_the_rest = first == have && last.checked_add(1)? == total;
    let is_of_the_same = note(&kept.offer, headers).is_none_or(|sent| {
        sent.tag == kept.tag && (sent.sum.is_none() || kept.sum.is_none() || sent.sum == kept.sum)
    });
    (is_the_rest && is_of_the_same).then_some(total)
}

/// Of what an answer is, where it says so in a way that lets a part be gone on with.
fn note(offer: &str, headers: &HeaderMap) -> Option<Note> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    let is_strong = tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"');
    is_strong.then(|| Note { offer: offer.to_owned(), tag: tag.to_owned(), sum: sum(headers) })
}

/// The digest of the whole, of which a part may have been sent.
fn sum(headers: &HeaderMap) -> Option<Sum> {
    let all = headers.get_all("repr-digest").iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).find_map(|one| {
        let bytes = one.trim().strip_prefix("sha-256=:")?.strip_suffix(':')?;
        STANDARD.decode(bytes).ok()?.try_into().ok()
    })
}

fn within_limit(len: Option<u64>, at_most: u64) -> Result<(), LinkError> {
    match len {
        Some(len) if len > at_most => Err(LinkError::TooLarge { at_most }),
        Some(_) | None => Ok(()),
    }
}

/// How much is there before an answer, how much there is to be in the end, and how much there may be, in bytes.
struct Come {
    have: u64,
    total: Option<u64>,
    at_most: u64,
}

/// Writes what comes behind the first bytes. What has come when the line breaks stays.
async fn write(
    mut answer: Response,
    part: &Part,
    mut file: fs::File,
    Come { have, total, at_most }: Come,
) -> Result<(), LinkError> {
    let mut len = have;
    loop {
        let mut gathered = Vec::new();
        let end = loop {
            match next_chunk(&mut answer).await {
                Ok(Some(chunk)) => gathered.extend_from_slice(&chunk),
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
            if gathered.len() >= WRITE_BYTES {
                break None;
            }
        };
        len += gathered.len() as u64;
        within_limit(Some(len), at_most)?;
        let place = part.clone();
        file = blocking(move || {
            file.write_all(&gathered).map_err(place.failed("writing"))?;
            Ok(file)
        })
        .await?;
        match end {
            None => {}
            Some(Err(error)) => return Err(error),
            Some(Ok(())) => break,
        }
    }
    if let Some(total) = total.filter(|total| *total != len) {
        return Err(LinkError::Unreachable(format!("the functions broke off after {len} of {total} bytes")));
    }
    let place = part.clone();
    blocking(move || file.sync_all().map_err(place.failed("writing"))).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LinkError> + Send + 'static,
) -> Result<T, LinkError> {
    spawn_blocking(work).await.map_err(|error| LinkError::Disk(error.to_string()))?
}
