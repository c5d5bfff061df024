//! The page of the tree: one level, and within it those that were opened.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::level::{self, PageContents};
use crate::{
    api::Api,
    children::who,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places,
    query::{self, Filter, Input, Query},
    text,
    visit::Visit,
};
use protocol::api::TreeLevel;

/// Nodes of a level. What a manager below is asked for comes in one answer, which has no room for more.
const LIMIT: &str = "100";

/// Managers that are open on one page; further ones stay closed, and say so.
const MAX_OPEN: usize = 16;

const FILTERS: [Filter; 1] =
    [Filter { name: "release", label: text::TREE_OF_RELEASE, input: Input::Text("canary") }];

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let (below, release) = (asked.get("below"), asked.get("release"));
    let api = Api::new(page, visit);
    let top = read(&api, asked, below, asked.get("after")).await?;
    let (opened, left_closed) = open(&api, asked, below).await;
    let live = below.is_empty().then(|| Live {
        after,
        release: Some(release).filter(|release| !release.is_empty()),
        ticks: true,
    });
    let head = Head { title: text::TREE, part: Some(Part::Tree), live };
    let shown = PageContents { asked, opened: &opened, left_closed: &left_closed };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::TREE) }
            @if !below.is_empty() {
                (who::trail_of(below, |path| asked.with("below", path).without("after").at(places::TREE)))
                p.hint { (text::ASKED_NOW) }
            }
            (query::form(places::TREE, &FILTERS, &["below"], asked))
            @if !release.is_empty() { p { a href=(places::release(release)) { bdi { (release) } } } }
            p #sum { (level::sum(&top.sum, !release.is_empty())) }
            @if top.items.is_empty() { p { (text::TREE_EMPTY) } }
            @else { (level::list(&shown, below, &top)) }
            (query::more(places::TREE, asked, top.next.as_deref()))
        },
    ))
}

async fn read(api: &Api<'_>, asked: &Query, below: &str, after: &str) -> Result<TreeLevel, Fault> {
    let wanted = Query::default().with("release", asked.get("release")).with("limit", LIMIT);
    api.get(&wanted.with("below", below).with("after", after).at("/api/v1/tree")).await
}

/// Levels by the path of the manager, and paths for which there is no room.
type Open = (BTreeMap<String, Result<TreeLevel, Fault>>, BTreeSet<String>);

/// The levels that are open: all managers on the way to each are open too. They are asked at once.
async fn open(api: &Api<'_>, asked: &Query, below: &str) -> Open {
    let all: Vec<&str> = asked.all("open").collect();
    let is_seen = |path: &str| {
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            if parent == below {
                return true;
            }
            if !all.contains(&parent) {
                return false;
            }
            above = parent;
        }
        below.is_empty()
    };
    let mut seen: Vec<&str> = all.iter().copied().filter(|path| is_seen(path)).collect();
    seen.sort_unstable();
    seen.dedup();
    let left_closed = seen.split_off(seen.len().min(MAX_OPEN)).into_iter().map(str::to_owned).collect();
    let levels = join_all(seen.iter().map(|path| read(api, asked, path, ""))).await;
    (seen.into_iter().map(str::to_owned).zip(levels).collect(), left_closed)
}
