//! A level of the tree as a list, with the levels within it that are open.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::{
    children::who,
    fault::Fault,
    places,
    query::Query,
    text::{self, tree as words},
};
use protocol::api::{TreeLevel, TreeNode, TreeSum};

/// What is on the page.
#[derive(Debug)]
pub struct PageContents<'a> {
    pub asked: &'a Query,
    /// By the path of the manager.
    pub opened: &'a BTreeMap<String, Result<TreeLevel, Fault>>,
    /// Paths that are to be open as well, and for which there is no room.
    pub left_closed: &'a BTreeSet<String>,
}

impl PageContents<'_> {
    fn is_of_release(&self) -> bool {
        !self.asked.get("release").is_empty()
    }

    /// What leads to the level below a manager without all the others.
    fn alone(&self, path: &str) -> Query {
        Query::default().with("release", self.asked.get("release")).with("below", path)
    }
}

/// The nodes right below the manager at a path.
pub fn list(shown: &PageContents<'_>, below: &str, level: &TreeLevel) -> Markup {
    html! {
        ul.tree { @for node in &level.items { li data-key=(who::joined(below, &node.id)) { (one(shown, below, node)) } } }
    }
}

fn one(shown: &PageContents<'_>, below: &str, node: &TreeNode) -> Markup {
    if node.kind != "rm" {
        return html! { (line(shown, below, node)) };
    }
    let path = who::joined(below, &node.id);
    match shown.opened.get(&path) {
        None if shown.left_closed.contains(&path) => html! {
            (line(shown, below, node)) " "
            span.small { (words::NO_ROOM) } " "
            a href=(shown.alone(&path).at(places::TREE)) { (words::ALONE) span.unseen { " " bdi { (node.id) } } } " "
            a.turn href=(shown.asked.without_pair("open", &path).at(places::TREE)) data-turn=(path) {
                (text::TREE_CLOSE) span.unseen { " " bdi { (node.id) } }
            }
        },
        None => html! {
            (line(shown, below, node)) " "
            a.turn href=(shown.asked.and("open", &path).at(places::TREE)) data-turn=(path) {
                (text::TREE_OPEN) span.unseen { " " bdi { (node.id) } }
            }
        },
        Some(found) => html! {
            (line(shown, below, node)) " "
            a.turn href=(shown.asked.without_pair("open", &path).at(places::TREE)) data-turn=(path) {
                (text::TREE_CLOSE) span.unseen { " " bdi { (node.id) } }
            }
            // What leads elsewhere stands outside of what is clicked to be opened.
            details open {
                summary { (text::BELOW) span.unseen { " " bdi { (node.id) } } }
                (inside(shown, &path, found))
            }
        },
    }
}

fn inside(shown: &PageContents<'_>, path: &str, found: &Result<TreeLevel, Fault>) -> Markup {
    html! {
        @match found {
            Err(fault) => { p.fault role="alert" { (fault.detail) } }
            Ok(level) => {
                p.small { (sum(&level.sum, shown.is_of_release())) }
                @if level.items.is_empty() { p { (text::TREE_EMPTY) } }
                @else { (list(shown, path, level)) }
                @if let Some(next) = &level.next {
                    p { a href=(shown.alone(path).with("after", next).at(places::TREE)) { (text::MORE) } }
                }
            }
        }
    }
}

fn line(shown: &PageContents<'_>, below: &str, node: &TreeNode) -> Markup {
    let is_manager = node.kind == "rm";
    html! {
        (who::link(below, &node.id, is_manager))
        @if let Some(name) = &node.name { " " span.name { bdi { (name) } } }
        " " span class=(look(&node.state)) data-field="state" { (node.state.replace('_', " ")) }
        @if is_manager { " " span.small data-field="sum" { (sum(&node.sum, shown.is_of_release())) } }
        @if let Some(place) = &node.place { " " span.small { (place) } }
        @if let Some(link) = who::own_page(node.public_url.as_deref()) { " " (link) }
    }
}

/// The class of a state's colour.
fn look(state: &str) -> &'static str {
    match state {
        "done" | "heard" => "good",
        "doing" => "going",
        "held" | "cordoned" | "drained" => "asks",
        "failed" | "timed_out" | "unconfirmed" => "bad",
        "unreachable" | "lost" | "silent" => "lost",
        "taking_back" | "taken_back" => "back",
        "untested" => "mixed",
        _ => "waiting",
    }
}

/// `12 agents: 3 done, 1 failed, 8 held, 1 silent`.
pub fn sum(sum: &TreeSum, is_of_release: bool) -> String {
    let TreeSum { agents, done, failed, held, silent } = *sum;
    let counted: &[(u32, &str)] = if is_of_release {
        &[(done, words::DONE), (failed, text::FAILED), (held, words::HELD), (silent, words::SILENT)]
    } else {
        &[(held, words::HELD), (silent, words::SILENT)]
    };
    let parts: Vec<String> = counted
        .iter()
        .map(|(number, words)| format!("{} {words}", text::grouped((*number).into())))
        .collect();
    format!("{}: {}", text::children::agents(agents.into()), parts.join(", "))
}
