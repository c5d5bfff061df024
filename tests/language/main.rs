//! The language: what loads, what is refused and how, what is handed out.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]
#![allow(clippy::format_push_string, reason = "tables of what was answered grow line by line")]

mod agents;
mod analysis;
#[path = "../shared/anchors.rs"]
mod anchors;
mod blocks;
#[path = "../shared/cases.rs"]
mod cases;
mod digests;
mod faults;
mod functions;
mod hybrid;
mod import;
#[path = "../shared/load.rs"]
mod load;
mod offers;
mod pages;
mod properties;
#[path = "../shared/reference.rs"]
mod reference;
mod release_id;
mod render;
mod retry;
mod rollback;
mod runs;
mod samples;
mod schema;
mod services;
mod sticky;
#[path = "../shared/texts.rs"]
mod texts;

use language::check;
use load::load;
use reference::REFERENCE;
use texts::{repository, samples, with};

/// Every diagnostic of a text, as a person sees it.
pub fn rendered(text: &str) -> String {
    let found: Vec<String> = check(text).diagnostics.iter().map(|d| d.render("r.yml")).collect();
    found.join("\n")
}
