//! All releases, a line each.

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::{progress, standing};
use crate::{
    api::Api,
    context::Page,
    fault::Fault,
    layout::{self, Head, Live, Part, sentence},
    places,
    query::Query,
    text::{self, releases as words},
    time,
    visit::Visit,
};
use protocol::api::{OpenOf, Release, ReleaseLine, ReleasePage};

/// Releases of a page.
const LIMIT: &str = "200";

/// What the list can be narrowed down by: what the API calls it, what people do, and an example.
const FILTERS: [(&str, &str, &str); 4] = [
    ("name", text::FILTER_NAME, "canary"),
    ("function", text::FILTER_FUNCTION, "thumbnail"),
    ("label", text::FILTER_LABEL, "tier:edge"),
    ("area", text::FILTER_AREA, "52.5,13.4"),
];

/// What comes where nothing is asked: the newest first.
const DEFAULT_ORDER: &str = "submitted";

const STATES: [&str; 12] = [
    "Planned",
    "Running",
    "AwaitingApproval",
    "Paused",
    "RollingBack",
    "Done",
    "DoneWithFailures",
    "DoneUntested",
    "RolledBack",
    "RolledBackUnproven",
    "Aborted",
    "NoParticipants",
];

pub async fn handle(State(page): State<Page>, visit: Visit, RawQuery(query): RawQuery) -> Response {
    match show(&page, &visit, &Query::read(query.as_deref())).await {
        Ok(shown) => shown.into_response(),
        Err(fault) => fault.page(&visit),
    }
}

async fn show(page: &Page, visit: &Visit, asked: &Query) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let wanted = asked.or("limit", LIMIT).with("counts", "true");
    let found: ReleasePage = Api::new(page, visit).get(&wanted.at("/api/v1/releases")).await?;
    let asked = asked.without("after");
    // What is not over says how long it still waits.
    let ticks = found.items.iter().any(|line| standing::is_open(&line.release.state));
    let live = Live { after, release: None, ticks };
    let head = Head { title: text::RELEASES, part: Some(Part::Releases), live: Some(live) };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            h1 { (text::RELEASES) }
            (sums(&found))
            (form(&asked))
            @if !found.items.is_empty() {
                (table(&asked, &found.items))
            } @else if asked == Query::default() {
                p { (text::NO_RELEASES) }
                p.hint { (text::NO_RELEASES_HOW) }
            } @else {
                p { (text::NONE_FOUND) }
            }
            @if let Some(next) = &found.next {
                @if order(&asked) != DEFAULT_ORDER { p.hint { (words::SORTED) } }
                p { a rel="next" href=(asked.with("after", next).at(&places::releases())) { (text::OLDER) } }
            }
        },
    ))
}

fn order(asked: &Query) -> &str {
    Some(asked.get("sort")).filter(|order| !order.is_empty()).unwrap_or(DEFAULT_ORDER)
}

/// How many there are in each state in which something may still happen: each number leads to them.
fn sums(found: &ReleasePage) -> Markup {
    let open = found.open.iter().flatten().filter(|(state, number)| **number > 0 && standing::is_open(state));
    html! {
        ul.sums {
            @for (state, number) in open {
                li { a href={ (places::releases()) "?state=" (state) } { (number) " " (standing::badge(state)) } }
            }
        }
    }
}

fn form(asked: &Query) -> Markup {
    html! {
        form.filters role="search" method="get" action=(places::releases()) {
            div {
                label for="state" { (words::STATE) }
                select #state name="state" {
                    option value="" { (text::ANY) }
                    @for state in STATES { option value=(state) selected[asked.get("state") == state] { (standing::of(state).1) } }
                }
            }
            @for (name, label, example) in FILTERS {
                div {
                    label for=(name) { (label) }
                    input type="search" id=(name) name=(name) value=(asked.get(name)) placeholder=(example) autocomplete="off";
                }
            }
            // On a phone there are no heads of columns.
            div {
                label for="sort" { (text::SORT) }
                select #sort name="sort" {
                    @for (name, label) in words::ORDERS { option value=(name) selected[order(asked) == name] { (label) } }
                }
            }
            button type="submit" { (text::FILTER) }
            @if *asked != Query::default() { a href=(places::releases()) { (text::FILTER_CLEAR) } }
        }
    }
}

fn table(asked: &Query, releases: &[ReleaseLine]) -> Markup {
    html! {
        div.wide {
            table.list {
                thead { tr {
                    (head(asked, "state", words::STATE))
                    (head(asked, "name", words::RELEASE))
                    (head(asked, "progress", text::PROGRESS))
                    th scope="col" { (words::CHANGES) }
                    th scope="col" { (words::NOW) }
                    (head(asked, "submitted", words::SUBMITTED))
                } }
                tbody {
                    @for line in releases {
                        tr data-key=(line.release.id) { (cells(line)) }
                    }
                }
            }
        }
    }
}

/// The head of a column by which the list can be sorted: it leads to that order, and from there to the other way round.
fn head(asked: &Query, by: &str, words: &str) -> Markup {
    let now = order(asked);
    let (is_by, is_reversed) = now.strip_prefix('-').map_or((now == by, false), |now| (now == by, true));
    // Those that were submitted last come first.
    let is_ascending = is_reversed == (by == DEFAULT_ORDER);
    let next = if is_by && !is_reversed { format!("-{by}") } else { by.to_owned() };
    let (stands, arrow) = if is_ascending { ("ascending", " ↑") } else { ("descending", " ↓") };
    html! {
        th scope="col" aria-sort=[is_by.then_some(stands)] {
            a href=(asked.with("sort", &next).at(&places::releases())) { (words) @if is_by { span aria-hidden="true" { (arrow) } } }
        }
    }
}

fn cells(line: &ReleaseLine) -> Markup {
    let release: &Release = &line.release;
    html! {
        td {
            (standing::badge(&release.state))
            @if let Some(since) = &line.since { span.small data-field="since" { (words::SINCE) " " (time::at(since)) } }
        }
        th scope="row" {
            a href=(places::release(&release.id)) data-open="" { bdi { (release.id) } }
            @if release.name != release.id { " " span.name data-field="name" { bdi { (release.name) } } }
        }
        td.progress {
            (progress::bar(release))
            span.small data-field="progress" { (progress::words(release)) }
            @if let Some(wave) = line.wave { span.small data-field="wave" { (open_of(words::WAVE, wave)) } }
            @if let Some(level) = line.level { span.small data-field="level" { (open_of(words::STEP, level)) } }
        }
        td data-field="functions" { @for (at, function) in release.functions.iter().enumerate() { @if at > 0 { ", " } bdi { (function) } } }
        td.now data-field="now" { (sentence(release.waits_for.as_deref().or(release.reason.as_deref()).unwrap_or_default())) }
        td data-field="submitted" { (time::at(&release.submitted)) }
    }
}

/// `wave 2 of 5`.
fn open_of(what: &str, open: OpenOf) -> String {
    format!("{what} {} {} {}", open.open, words::OF, open.of)
}
