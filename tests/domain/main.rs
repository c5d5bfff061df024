//! The domain, driven without any shell: the planner, releases and the link to the parent.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]
#![allow(clippy::format_push_string, reason = "tables of what was answered grow line by line")]

#[path = "../shared/areas.rs"]
mod areas;
#[path = "../shared/cases.rs"]
mod cases;
mod children;
#[path = "../shared/counts.rs"]
mod counts;
#[path = "../shared/load.rs"]
mod load;
mod parent;
mod plan;
#[path = "../shared/random.rs"]
mod random;
#[path = "../shared/reference.rs"]
mod reference;
mod release;
#[path = "../shared/releases.rs"]
mod releases;
#[path = "../shared/texts.rs"]
mod texts;
mod traffic;
mod workflows;
