//! Paths of pages.

use axum::response::{IntoResponse, Redirect};

use crate::ROOT;

/// The first page is the list of releases.
pub async fn root() -> impl IntoResponse {
    Redirect::to(&releases())
}

pub fn releases() -> String {
    format!("{ROOT}/releases")
}

pub fn new_release() -> String {
    format!("{ROOT}/strategies/new")
}

pub fn release(id: &str) -> String {
    format!("{ROOT}/releases/{}", escaped(id))
}

/// What happened in a release.
pub fn trail_of(release: &str) -> String {
    format!("{}/trail", self::release(release))
}

/// Who takes part in a release.
pub fn children_of(release: &str) -> String {
    format!("{}/children", self::release(release))
}

/// Those of who takes part in a release of whom the API says that this has that value.
pub fn some_children_of(release: &str, what: &str, value: &str) -> String {
    format!("{}?{what}={}", children_of(release), escaped(value))
}

pub fn children() -> String {
    format!("{ROOT}/children")
}

pub fn child(id: &str) -> String {
    format!("{ROOT}/children/{}", escaped(id))
}

/// The children of a manager below; none named: this one's.
pub fn children_below(path: &str) -> String {
    if path.is_empty() { children() } else { format!("{ROOT}/children?below={}", escaped(path)) }
}

/// Managers and agents of any depth.
pub const TREE: &str = "/ui/tree";

pub const ROUTERS: &str = "/ui/routers";

pub fn router(id: &str) -> String {
    format!("{ROUTERS}/{}", escaped(id))
}

pub const SERVICES: &str = "/ui/services";

pub fn service(name: &str) -> String {
    format!("{SERVICES}/{}", escaped(name))
}

/// The tree of those who have a part in a release.
pub fn tree_of(release: &str) -> String {
    format!("{TREE}?release={}", escaped(release))
}

/// The releases of managers below.
pub const RELEASES_BELOW: &str = "/ui/below/releases";

pub fn releases_below(path: &str) -> String {
    format!("{RELEASES_BELOW}?below={}", escaped(path))
}

/// A release of a manager below.
pub fn release_below(path: &str, id: &str) -> String {
    format!("{RELEASES_BELOW}/{}?below={}", escaped(id), escaped(path))
}

/// The map of the fleet.
pub fn map() -> String {
    format!("{ROOT}/map")
}

/// The map of the fleet around a child.
pub fn on_map(child: &str) -> String {
    format!("{}?child={}", map(), escaped(child))
}

/// The map of a release around a child.
pub fn on_release_map(release: &str, child: &str) -> String {
    format!("{}?child={}", release_map(release), escaped(child))
}

/// The map of a release.
pub fn release_map(id: &str) -> String {
    format!("{}/map", release(id))
}

/// A text that somebody chose, as one piece of a path or of a query.
pub fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A path of ours that a form or an address says to go on to. Anything else, such as another site's, is the first page.
pub fn onward(next: Option<&str>) -> String {
    let fits = |next: &&str| {
        let rest = next.strip_prefix(ROOT);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !next.starts_with("/ui/sign-")
    };
    next.filter(fits).map_or_else(releases, str::to_owned)
}
