//! A child in words: what stands beside its id, and the managers that lead to one below.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::{places, text, time};
use model::public_url;

/// What a child is, in a word.
pub fn kind(kind: &str) -> &str {
    match kind {
        "agent" => text::AGENT,
        "rm" => text::MANAGER,
        other => other,
    }
}

/// Whether work is kept from it, in words.
pub fn cordon(cordon: &str) -> &str {
    match cordon {
        "open" => text::OPEN,
        "cordoned" => text::CORDONED,
        "drained" => text::DRAINED,
        other => other,
    }
}

pub fn labels(labels: &BTreeMap<String, String>) -> Markup {
    html! {
        @if labels.is_empty() { "–" }
        @else { ul.labels { @for (key, value) in labels { li { bdi { (key) } ":" bdi { (value) } } } } }
    }
}

/// When it called last.
pub fn last_call(at: Option<&str>) -> Markup {
    at.map_or_else(|| html! { (text::NEVER_CALLED) }, time::at)
}

/// The managers that lead to one below, each a link to what is below it.
pub fn trail_of(below: &str, at: impl Fn(&str) -> String) -> Markup {
    let ids: Vec<&str> = below.split('/').filter(|id| !id.is_empty()).collect();
    html! {
        nav.path aria-label=(text::PATH_BELOW) {
            ol {
                li { a href=(at("")) { (text::THIS_MANAGER) } }
                @for (place, id) in ids.iter().enumerate() {
                    @let so_far = ids.get(..=place).unwrap_or_default().join("/");
                    li { a href=(at(&so_far)) aria-current=[(place + 1 == ids.len()).then_some("page")] { bdi { (id) } } }
                }
            }
        }
    }
}

/// The path of a child of whoever this path leads to.
pub fn joined(below: &str, id: &str) -> String {
    if below.is_empty() { id.to_owned() } else { format!("{below}/{id}") }
}

/// The page of a child, where there is one: of those below a manager there is none here, and of a manager there its children.
pub fn link(below: &str, id: &str, is_manager: bool) -> Markup {
    let href = if below.is_empty() {
        Some(places::child(id))
    } else {
        is_manager.then(|| places::children_below(&joined(below, id)))
    };
    html! {
        @match href {
            Some(href) => { a href=(href) data-open="" { bdi { (id) } } }
            None => { bdi { (id) } }
        }
    }
}

/// The page that a manager says is its own; what is no address of one isn't made a link.
pub fn own_page(url: Option<&str>) -> Option<Markup> {
    let url = url.filter(|url| public_url::check(url).is_ok())?;
    Some(
        html! { a href=(url) rel="noreferrer noopener external" { (text::ITS_OWN_PAGE) } " " bdi.small { (url) } },
    )
}
