//! One release, with everything that its fate depends on.

use axum::{
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use super::{judged, progress, stages, standing, traffic, trail, waves};
use crate::{
    actions::{self, Again, Section},
    api::Api,
    context::Page,
    fault::Fault,
    flash::About,
    layout::{self, Head, Live, Part, sentence},
    places,
    text::{self, release as words},
    time,
    visit::Visit,
};
use protocol::api::{Ending, Release, ReleaseDetail, ReleaseTraffic};

pub async fn handle(
    State(page): State<Page>,
    visit: Visit,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let heard = About::Release.heard(&page, &visit, &headers, &places::release(&id));
    match show(&page, &visit, &id, None, actions::done(heard.done)).await {
        Ok(shown) => heard.with(shown.into_response()),
        Err(fault) => fault.page(&visit),
    }
}

/// `again`: what was tried and not done. `done`: what was.
pub async fn show(
    page: &Page,
    visit: &Visit,
    id: &str,
    again: Option<&Again>,
    done: Option<&'static str>,
) -> Result<Markup, Fault> {
    // Before anything is read, so that what happens meanwhile is heard of.
    let after = page.operators.place().await.map_err(|_| Fault::internal())?;
    let api = Api::new(page, visit);
    let path = format!("/api/v1/releases/{}", places::escaped(id));
    let found: ReleaseDetail = api.get(&path).await?;
    let can = actions::read(&api, id).await?;
    let happened = trail::read(&api, id).await?;
    let shares: Option<ReleaseTraffic> = api.find(&format!("{path}/traffic")).await?;
    let shares = shares.filter(|shares| !shares.history.is_empty() || !shares.services.is_empty());
    let release = &found.release;
    let ticks = standing::is_open(&release.state);
    let head = Head {
        title: &release.id,
        part: Some(Part::Releases),
        live: Some(Live { after, release: Some(&release.id), ticks }),
    };
    let confirm_abort_above = page.settings.confirm_abort_above;
    let acts = Section { visit, found: &can, confirm_abort_above, again, done };
    Ok(layout::page(
        visit,
        &head,
        &html! {
            (heading(release, |child| Some(page_of(child))))
            (acts.markup())
            (progress_of(release))
            (elsewhere(&release.id))
            (waves::list(Some(&release.id), &found.waves))
            (waves::limits(Some(&release.id), &found.limits))
            (stages::table(Some(&release.id), &found.stages))
            (judged::blocks(&found.analyses))
            @if let Some(shares) = &shares { (traffic::shares(shares)) }
            (excluded(&found))
            (trail::list(&release.id, &happened))
            (strategy(&found))
        },
    ))
}

/// `child`: the page of the child that tipped the scales, where there is one.
fn heading(release: &Release, of_child: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        header.release {
            h1 { bdi { (release.id) } " " (standing::badge(&release.state)) }
            @if release.name != release.id { p.name data-field="name" { bdi { (release.name) } } }
            @if let Some(waits) = &release.waits_for { p.now data-field="now" { (sentence(waits)) } }
            @else if let Some(reason) = &release.reason { p.now data-field="now" { (sentence(reason)) } }
            dl.facts {
                div { dt { (words::CHANGES) } dd data-field="functions" { @for (at, function) in release.functions.iter().enumerate() { @if at > 0 { ", " } bdi { (function) } } } }
                div { dt { (words::SUBMITTED) } dd data-field="submitted" { (time::at(&release.submitted)) } }
                div { dt { (words::STARTED) } dd data-field="started" { (time::maybe(release.started.as_deref())) } }
                @if let Some(ended) = &release.ended { div { dt { (words::ENDED) } dd data-field="ended" { (time::at(ended)) } } }
                @if release.attempt > 1 { div { dt { (words::ATTEMPT) } dd data-field="attempt" { (release.attempt) } } }
            }
            @if let Some(why) = &release.why { (ending(why, of_child)) }
        }
    }
}

fn ending(why: &Ending, of_child: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        div.why {
            p data-field="why.text" { (sentence(&why.text)) }
            @if let Some(child) = &why.child {
                p data-field="why.child" {
                    @match of_child(child) {
                        Some(place) => { a href=(place) { bdi { (child) } } }
                        None => { bdi { (child) } }
                    }
                }
            }
            @if let Some(version) = &why.version { p data-field="why.version" { bdi { (version) } } }
            @if let Some(numbers) = &why.numbers { p data-field="why.numbers" { bdi { (numbers) } } }
            @if let Some(by) = &why.by { p data-field="why.by" { (words::BY) " " bdi { (by) } @if let Some(note) = &why.note { ": " bdi { (note) } } } }
        }
    }
}

/// The page of a child that an ending names; of one below a manager, `middle: agent-3`, that manager's.
fn page_of(child: &str) -> String {
    places::child(child.split_once(": ").map_or(child, |(manager, _)| manager))
}

fn progress_of(release: &Release) -> Markup {
    html! {
        section #progress aria-labelledby="progress-title" {
            h2 #progress-title { (text::PROGRESS) }
            (progress::bar(release))
            ul.legend {
                @for piece in progress::pieces(release) {
                    li class=(piece.class) data-field={ "piece." (piece.words) } { span.number { (text::grouped(piece.number.into())) } " " (piece.words) }
                }
            }
            p.hint { (words::take_part(progress::participants(release), release.unconfirmed, release.left_out)) }
        }
    }
}

/// What else there is to see of a release.
fn elsewhere(id: &str) -> Markup {
    html! {
        p {
            a href=(places::release_map(id)) { (text::map::ON_A_MAP) } " · "
            a href=(places::children_of(id)) { (text::TAKES_PART) } " · " a href=(places::tree_of(id)) { (text::TREE) }
        }
    }
}

/// What a manager below says of a release of its own: it is only shown, and who takes part there has no page here.
pub fn of_below(found: &ReleaseDetail) -> Markup {
    html! {
        (heading(&found.release, |_| None))
        (progress_of(&found.release))
        (waves::list(None, &found.waves))
        (waves::limits(None, &found.limits))
        (stages::table(None, &found.stages))
        (judged::blocks(&found.analyses))
        (excluded(found))
        (strategy(found))
    }
}

fn strategy(found: &ReleaseDetail) -> Markup {
    html! {
        section #strategy aria-labelledby="strategy-title" {
            details {
                summary { h2 #strategy-title { (text::STRATEGY) } }
                pre tabindex="0" { code { (found.strategy) } }
            }
        }
    }
}

fn excluded(found: &ReleaseDetail) -> Markup {
    let all: Vec<_> = found.excluded.iter().filter(|(_, number)| **number > 0).collect();
    html! {
        @if !all.is_empty() {
            section #excluded aria-labelledby="excluded-title" {
                h2 #excluded-title { (text::EXCLUDED) }
                dl.facts { @for (why, number) in all { div { dt { (why) } dd data-field={ "excluded." (why) } { (text::grouped((*number).into())) } } } }
            }
        }
    }
}
