//! `MapLibre GL`, a general library for maps, with the same children as circles, as its examples show points.

use std::{path::Path, sync::Arc};

use axum::{Router, http::header, response::Html, routing::get};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Drawn, clock, number};
use crate::{
    bodies::{self, Caller},
    browser::browse,
};

/// Its own page: nothing but the map, as large as the window.
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Map</title><link rel=stylesheet href=/maplibre-gl.css>\
    <style>html, body, #map { height: 100%; margin: 0 }</style><div id=map></div><script type=module src=/page.js></script>";

/// What the page shows, and when it was shown whole.
fn script(is_clustered: bool) -> String {
    let style = json!({"version": 8,
        "sources": {"children": {"type": "geojson", "data": "/children.json", "cluster": is_clustered}},
        "layers": [{"id": "ground", "type": "background", "paint": {"background-color": "#eee"}},
            {"id": "children", "type": "circle", "source": "children", "paint": {"circle-radius": 4, "circle-color": "#06c"}}]});
    format!(
        "import * as library from '/maplibre-gl.mjs'; \
         const {{ Map }} = library.Map ? library : library.default; \
         globalThis.map = new Map({{ container: 'map', style: {style}, center: [5, -37], zoom: 4, fadeDuration: 0 }}); \
         map.once('idle', () => (globalThis.idleAt = performance.now()));"
    )
}

/// Its middle, as the manager's map has it.
fn point(caller: &Caller) -> Value {
    let area: Value = serde_json::from_str(&bodies::area(caller.index)).unwrap_or_default();
    let corner = |at: usize, axis: usize| area["coordinates"][0][at][axis].as_f64().unwrap_or_default();
    let middle = |axis: usize| f64::midpoint(corner(0, axis), corner(2, axis));
    json!({"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [middle(0), middle(1)]}})
}

fn file(folder: &Path, name: &str, kind: &'static str) -> anyhow::Result<axum::routing::MethodRouter> {
    let bytes = bytes::Bytes::from(std::fs::read(folder.join(name))?);
    Ok(get(move || async move { ([(header::CONTENT_TYPE, kind)], bytes) }))
}

/// What a browser draws of a folder with the library's files.
pub async fn drawn(folder: &Path, callers: &[Caller], is_clustered: bool) -> anyhow::Result<Drawn> {
    const MODULE: &str = "text/javascript";
    let points =
        json!({"type": "FeatureCollection", "features": callers.iter().map(point).collect::<Vec<_>>()});
    let points: Arc<str> = points.to_string().into();
    let script = script(is_clustered);
    let routes = Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/page.js", get(move || async move { ([(header::CONTENT_TYPE, MODULE)], script) }))
        .route(
            "/children.json",
            get(move || async move { ([(header::CONTENT_TYPE, "application/json")], points.to_string()) }),
        )
        .route("/favicon.ico", get(|| async {}))
        .route("/maplibre-gl.mjs", file(folder, "maplibre-gl.mjs", MODULE)?)
        .route("/maplibre-gl-shared.mjs", file(folder, "maplibre-gl-shared.mjs", MODULE)?)
        .route("/maplibre-gl-worker.mjs", file(folder, "maplibre-gl-worker.mjs", MODULE)?)
        .route("/maplibre-gl.css", file(folder, "maplibre-gl.css", "text/css")?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
    let drawn = browse(async |page| {
        clock::warm(page).await?;
        page.go(&format!("http://{address}/")).await;
        page.holds("globalThis.idleAt > 0").await;
        let first = number(page, "idleAt / 1e3").await?;
        let frames = clock::frames(page, "() => map.panBy([60, 0], { animate: false })").await?;
        // Hints of the library's own concern nobody here.
        page.take_reports().await;
        anyhow::Ok(Drawn { first, frames })
    })
    .await;
    serving.abort();
    drawn
}
