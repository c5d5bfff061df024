//! Scripts and styles: small, packed, kept for as long as browsers like; and the cookie of a session where the page is served over TLS.

use std::{collections::BTreeMap, io::Read as _};

use flate2::read::GzDecoder;
use reqwest::header;

use super::{Browser, attribute};
use crate::{
    http::tenants::Shared,
    world::{Answer, World, strategy},
};

/// All scripts and styles together, packed: what a slow line has to bear once.
const MAX_PACKED: usize = 60 * 1_024;

async fn get(world: &World, path: &str, asked: &[(header::HeaderName, &str)]) -> Answer {
    let request = world.request("GET", path);
    world.send(asked.iter().fold(request, |request, (name, value)| request.header(name, *value))).await
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut plain).unwrap();
    plain
}

/// The modules that a script names, as addresses.
fn imports<'s>(path: &'s str, script: &'s str) -> impl Iterator<Item = String> + 's {
    let (folder, _) = path.rsplit_once('/').unwrap();
    let named = script.split("import").skip(1).filter_map(|rest| {
        let quoted = rest.lines().next()?.split('"').nth(1)?;
        quoted.starts_with('.').then_some(quoted)
    });
    named.map(move |name| match name.strip_prefix("../") {
        Some(above) => format!("{}/{above}", folder.rsplit_once('/').unwrap().0),
        None => format!("{folder}/{}", name.trim_start_matches("./")),
    })
}

/// Every script and style that a page leads to, packed, by address.
async fn assets(world: &World, page: &str) -> BTreeMap<String, Answer> {
    let linked = |opening: &str, name| {
        page.split(opening).skip(1).map(|rest| attribute(rest.split('>').next().unwrap(), name)).collect()
    };
    let mut open: Vec<String> = linked("<script", "src");
    open.extend(linked("<link rel=\"stylesheet\"", "href"));
    let mut found = BTreeMap::new();
    while let Some(path) = open.pop() {
        if found.contains_key(&path) {
            continue;
        }
        let answer = get(world, &path, &[(header::ACCEPT_ENCODING, "gzip")]).await.ok();
        let text = String::from_utf8(unpacked(&answer.body)).unwrap();
        open.extend(imports(&path, &text));
        found.insert(path, answer);
    }
    found
}

#[tokio::test]
async fn scripts_and_styles_are_few_bytes_and_asked_for_once() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let page = world.get("/ui/releases/a").await.ok().text();
    let assets = assets(&world, &page).await;
    let has = |name: &str| assets.keys().any(|path| path.ends_with(name));
    for name in ["/style.css", "/page.js", "/live.js", "/stream.js", "/map/map.js", "/map/draw.js"] {
        assert!(has(name), "{name} in {:?}", assets.keys());
    }
    let sum: usize = assets.values().map(|answer| answer.body.len()).sum();
    assert!(sum <= MAX_PACKED, "{sum} bytes");
    for (path, packed) in &assets {
        assert_eq!(packed.header("content-encoding"), "gzip", "{path}");
        assert_eq!(packed.header("vary"), "accept-encoding", "{path}");
        assert_eq!(packed.header("cache-control"), "public, max-age=31536000, immutable", "{path}");
        let tag = packed.header("etag");
        // Also as what packs on the way writes it, and among others.
        for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let again = get(&world, path, &[(header::IF_NONE_MATCH, &known)]).await;
            assert_eq!(
                (again.status, again.body.len(), again.header("etag")),
                (304, 0, tag),
                "{path} {known}"
            );
        }
        for unpackable in ["identity", "gzip;q=0", "gzip; q=0.0, br"] {
            let plain = get(&world, path, &[(header::ACCEPT_ENCODING, unpackable)]).await.ok();
            assert_eq!(plain.header("content-encoding"), "", "{path} {unpackable}");
            assert_eq!(plain.body, unpacked(&packed.body), "{path}");
        }
    }
    // Of another build, whatever it said.
    let (path, _) = assets.first_key_value().unwrap();
    let digest = path.split('/').nth(3).unwrap();
    let other = path.replace(digest, &"0".repeat(digest.len()));
    assert_eq!(world.get(&other).await.status, 404);
    world.stop().await;
}

#[tokio::test]
async fn a_page_is_packed_and_never_kept() {
    let world = World::start().await;
    let plain = get(&world, "/ui/releases", &[]).await.ok();
    let packed = get(&world, "/ui/releases", &[(header::ACCEPT_ENCODING, "gzip, br")]).await.ok();
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), ("", "gzip"));
    assert!(packed.body.len() * 2 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    let text = String::from_utf8(unpacked(&packed.body)).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"));
    for answer in [plain, packed] {
        assert_eq!((answer.header("cache-control"), answer.header("vary")), ("no-store", "accept-encoding"));
    }
    // The icon is asked for at one address whatever the build.
    let icon = world.get("/favicon.ico").await.ok();
    assert_eq!(
        (icon.header("content-type"), icon.header("cache-control")),
        ("image/svg+xml", "public, max-age=3600")
    );
    world.stop().await;
}

#[tokio::test]
async fn the_cookie_is_sent_over_tls_alone_where_there_is_tls() {
    for secure in [false, true] {
        let shared = Shared::with(|options| options.page.secure = secure).await;
        let browser = Browser::new(&shared.world);
        let signed_in = browser.form("/ui/sign-in", &[("token", Shared::secret("root"))]);
        let answer = browser.send(signed_in).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        assert_eq!(answer.header("set-cookie").contains("; Secure"), secure);
        shared.world.stop().await;
    }
}
