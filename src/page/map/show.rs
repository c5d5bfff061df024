//! The pages with a map.

use axum::{
    extract::{Path, RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use model::MapState;

use super::{
    drawing, symbols, table,
    window::{COLUMNS, WORLD, Window},
};
use crate::{
    api::Api,
    assets,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part},
    places, text,
    visit::Visit,
};
use protocol::api::{MapCells, MapChild, Release, ReleaseDetail};

/// Most children of which each is drawn; of more there are counts by cell.
const MOST_POINTS: u32 = 300_000;

pub async fn fleet(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    answer(&page, &visit, None, query.as_deref().unwrap_or_default()).await
}

pub async fn release(
    State(page): State<Page>,
    visit: Visit,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    answer(&page, &visit, Some(&id), query.as_deref().unwrap_or_default()).await
}

async fn answer(page: &Page, visit: &Visit, id: Option<&str>, query: &str) -> Response {
    match show(page, visit, id, query).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(visit),
    }
}

/// What is asked for beside the map itself.
#[derive(Debug, Default)]
struct Asked {
    window: Option<String>,
    /// A child's number in maps, or its id.
    child: Option<String>,
}

impl Asked {
    fn read(query: &str) -> Self {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            match key.as_ref() {
                "box" if !value.is_empty() => asked.window = Some(value.to_owned()),
                "child" if !value.is_empty() => asked.child = Some(value.to_owned()),
                _ => {}
            }
        }
        asked
    }
}

/// Everything that a page with a map is made from.
struct Shown {
    release: Option<ReleaseDetail>,
    cells: MapCells,
    window: Window,
    /// Who was asked for, and who that is; `None` within: nobody.
    child: Option<(String, Option<MapChild>)>,
    /// The page's own address without a query.
    base: String,
}

async fn show(page: &Page, visit: &Visit, id: Option<&str>, query: &str) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let shown = read(&Api::new(page, visit), id, &Asked::read(query)).await?;
    let release = shown.release.as_ref().map(|found| found.release.id.as_str());
    let title = release.map_or_else(|| text::map::MAP.to_owned(), |id| format!("{}: {id}", text::map::MAP));
    let live = Live { after, release, ticks: false };
    let head = Head { title: &title, part: Some(Part::Map), live: Some(live) };
    Ok(layout::page(visit, &head, &middle(&shown)))
}

async fn read(api: &Api<'_>, id: Option<&str>, asked: &Asked) -> Result<Shown, Fault> {
    let path = id.map(|id| format!("/api/v1/releases/{}", places::escaped(id)));
    let release = match &path {
        None => None,
        Some(path) => Some(api.get::<ReleaseDetail>(path).await?),
    };
    let child = match &asked.child {
        None => None,
        Some(child) => {
            Some((child.clone(), found(api, release.as_ref().map(|found| &found.release), child).await?))
        }
    };
    let at = child.as_ref().and_then(|(_, child)| child.as_ref()?.at);
    // The API refuses what is no box.
    let window = asked.window.as_deref().and_then(Window::read);
    let window = window.or_else(|| at.map(Window::near)).unwrap_or(WORLD);
    let wanted = asked.window.as_deref().map_or_else(|| window.text(), places::escaped);
    let start = path.as_deref().unwrap_or("/api/v1");
    let cells = api.get(&format!("{start}/map/cells?columns={COLUMNS}&box={wanted}")).await?;
    let base = release.as_ref().map_or_else(places::map, |found| places::release_map(&found.release.id));
    Ok(Shown { release, cells, window, child, base })
}

async fn found(api: &Api<'_>, release: Option<&Release>, child: &str) -> Result<Option<MapChild>, Fault> {
    let query = release.map(|release| format!("?release={}", places::escaped(&release.id)));
    let path = format!("/api/v1/map/children/{}{}", places::escaped(child), query.unwrap_or_default());
    api.find(&path).await
}

fn middle(shown: &Shown) -> Markup {
    let Shown { release, cells, window, base, .. } = shown;
    let states: &[MapState] = if release.is_some() { &symbols::OF_RELEASE } else { &symbols::OF_FLEET };
    let all = table::sum(&cells.total);
    let label = format!("{} {}", text::release::children(all), text::map::DRAWING);
    html! {
        @if let Some(ReleaseDetail { release, .. }) = release {
            h1 { (text::map::MAP) ": " a href=(places::release(&release.id)) { bdi { (release.id) } } }
        } @else {
            h1 { (text::map::MAP) }
        }
        (search(shown))
        @if let Some((asked, child)) = &shown.child { (who(asked, child.as_ref())) }
        (script(shown))
        figure #drawing {
            (drawing::drawing(cells, *window, &label, &drawing::outline(cells.target.as_deref().unwrap_or_default(), *window)))
            figcaption.hint {
                (text::map::IN_VIEW) " " (window.text().replace(',', ", ")) ". "
                @if let Some(farther) = window.farther() {
                    a href={ (base) "?box=" (farther.text()) } { (text::map::FARTHER) } " "
                    a href=(base) { (text::map::WORLD) }
                }
            }
        }
        (table::legend(states, cells))
        @if let Some(found) = release {
            (table::target(cells.target.as_ref()))
            (table::by_wave(&found.release.id, &found.waves))
        }
        (table::table(states, cells, *window, base))
    }
}

fn search(shown: &Shown) -> Markup {
    let asked = shown.child.as_ref().map_or("", |(asked, _)| asked.as_str());
    html! {
        form.filters role="search" method="get" action=(shown.base) {
            div {
                label for="child" { (text::map::CHILD) }
                input #child type="search" name="child" value=(asked) autocomplete="off" maxlength="200";
            }
            button type="submit" { (text::map::FIND) }
        }
    }
}

/// The child that was asked for.
fn who(asked: &str, child: Option<&MapChild>) -> Markup {
    html! {
        p #found role="status" {
            @if let Some(child) = child {
                a href=(places::child(&child.id)) { bdi { (child.name.as_ref().unwrap_or(&child.id)) } }
                " (" (child.place.as_deref().unwrap_or(text::map::NOWHERE)) "): " (child.says)
                @if let Some(wave) = child.wave { ", " (text::map::WAVE) " " (wave) }
                "; " bdi { (child.doing) }
            } @else {
                (text::map::NO_CHILD) " " bdi { (asked) }
            }
        }
    }
}

/// Where the script makes its map, and all that it needs for that.
fn script(shown: &Shown) -> Markup {
    let number = shown.child.as_ref().and_then(|(_, child)| Some(child.as_ref()?.number));
    // A file of that folder; the script asks for others beside it.
    let land = assets::path("land");
    html! {
        div #map data-map="/ui/api/v1" data-land=(land) data-most=(MOST_POINTS)
            data-release=[shown.release.as_ref().map(|found| &found.release.id)]
            data-child=[number]
            data-box=[(shown.window != WORLD).then(|| shown.window.text())]
            data-states=(symbols::for_script())
            data-texts=(text::map::for_script()) {}
    }
}
