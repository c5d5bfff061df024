//! Scripts, styles and pictures: embedded, packed once, and kept by browsers for as long as they like, since another content has another
//! address.

use std::sync::LazyLock;

use axum::{
    Router,
    body::Bytes,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use flate2::Compression;
use model::hex;
use sha2::{Digest as _, Sha256};

use crate::{ROOT, base_map, headers};

struct Source {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! sources {
    ($($name:literal: $kind:expr),* $(,)?) => {
        &[$(Source { name: $name, kind: $kind, bytes: include_bytes!(concat!("assets/", $name)) }),*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
const BINARY: &str = "application/octet-stream";

/// Modules name each other by relative addresses, so one part of the address is the same for all: the digest of everything.
const SOURCES: &[Source] = sources! {
    "style.css": STYLE,
    "page.js": SCRIPT,
    "live.js": SCRIPT,
    "make.js": SCRIPT,
    "morph.js": SCRIPT,
    "stream.js": SCRIPT,
    "texts.js": SCRIPT,
    "times.js": SCRIPT,
    "keys.js": SCRIPT,
    "said.js": SCRIPT,
    "actions.js": SCRIPT,
    "icon.svg": PICTURE,
    "map/map.js": SCRIPT,
    "map/data.js": SCRIPT,
    "map/draw.js": SCRIPT,
    "map/view.js": SCRIPT,
    "map/past.js": SCRIPT,
    "land/land-110.bin": BINARY,
    "land/land-50.bin": BINARY,
};

/// As it is sent.
struct File {
    name: &'static str,
    kind: &'static str,
    plain: Bytes,
    packed: Bytes,
}

/// What the land of drawings is made from.
const LAND: &[u8] = include_bytes!("assets/land/land-110.bin");

struct Files {
    digest: String,
    all: Vec<File>,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    let mut all = Vec::new();
    let given = SOURCES.iter().map(|source| (source.name, source.kind, Bytes::from_static(source.bytes)));
    let made = [("land.svg", PICTURE, Bytes::from(base_map::svg(LAND)))];
    for (name, kind, plain) in given.chain(made) {
        hash.update(name);
        hash.update(&plain);
        let packed = headers::gzip(&plain, Compression::best()).unwrap_or_default().into();
        all.push(File { name, kind, plain, packed });
    }
    Files { digest: hex::encode(&hash.finalize()[..8]), all }
});

/// The address of a file.
pub fn path(name: &str) -> String {
    format!("{ROOT}/assets/{}/{name}", FILES.digest)
}

/// For how long browsers may keep what has the digest in its address.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// For how long they may keep what every build has at one address.
const AN_HOUR: &str = "public, max-age=3600";

pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/ui/assets/{digest}/{*name}", get(file)).route("/favicon.ico", get(icon))
}

async fn icon() -> Response {
    answer("icon.svg", AN_HOUR, &HeaderMap::new())
}

async fn file(Path((digest, name)): Path<(String, String)>, asked: HeaderMap) -> Response {
    // A page of an earlier build may ask for files that are gone: what it says is then not what these files expect.
    if digest == FILES.digest {
        answer(&name, FOR_GOOD, &asked)
    } else {
        StatusCode::NOT_FOUND.into_response()
    }
}

fn answer(name: &str, kept: &'static str, asked: &HeaderMap) -> Response {
    let Some(found) = FILES.all.iter().find(|file| file.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let fixed = [
        (header::CONTENT_TYPE, found.kind),
        (header::CACHE_CONTROL, kept),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::VARY, "accept-encoding"),
    ];
    let tag = format!("\"{}\"", FILES.digest);
    if asked.get_all(header::IF_NONE_MATCH).iter().any(|known| has_tag(known, &tag)) {
        return (StatusCode::NOT_MODIFIED, fixed, [(header::ETAG, tag)]).into_response();
    }
    let is_packed = headers::takes_gzip(asked);
    let body = if is_packed { found.packed.clone() } else { found.plain.clone() };
    let mut response = (fixed, [(header::ETAG, tag)], body).into_response();
    if is_packed {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether one of the tags that a browser has is this, also where a proxy on the way made it a weak one.
fn has_tag(known: &HeaderValue, tag: &str) -> bool {
    let mut known = known.to_str().unwrap_or_default().split(',').map(str::trim);
    known.any(|known| known.strip_prefix("W/").unwrap_or(known) == tag)
}
