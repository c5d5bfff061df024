//! The web page: releases, where they run, what was measured, who decided what, and the actions of people.
//!
//! It is a client of the API that happens to run in the same process: whatever it shows or does goes through [`http_api::Operators`], with the
//! rights of whoever looks. So it says what the API says, and may do no more. Each page is rendered here, and works without scripts;
//! scripts (`assets/`) fetch the same page again when something happens, and put what is new in the place of what was there.

mod actions;
mod api;
mod api_reads;
mod assets;
mod base_map;
mod children;
mod context;
mod fault;
mod flash;
mod headers;
mod layout;
mod map;
mod places;
mod query;
mod releases;
mod routing;
mod session;
mod shared;
mod sign_in;
mod strategies;
mod text;
mod time;
mod tree;
mod visit;

use std::time::Duration;

use axum::{
    Router,
    http::StatusCode,
    middleware::{from_fn, from_fn_with_state},
    routing::{any, get},
};

pub use context::Page;
use http_api::Operators;

/// Where all of it lies.
pub(crate) const ROOT: &str = "/ui";

/// What is set of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long nobody needs to sign in again.
    pub session: Duration,
    /// Whether browsers reach it over TLS alone.
    pub secure: bool,
    /// Above so many agents an abort asks for the release's id.
    pub confirm_abort_above: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { session: DEFAULT_SESSION, secure: false, confirm_abort_above: DEFAULT_CONFIRM_ABORT_ABOVE }
    }
}

/// A working day, with what comes before and after it.
pub const DEFAULT_SESSION: Duration = Duration::from_hours(12);

/// What one person may take back without a second thought.
pub const DEFAULT_CONFIRM_ABORT_ABOVE: u32 = 100;

/// The routes of the page. They are to be laid beside those of the API.
pub fn router(operators: Operators, settings: Settings) -> Router {
    let page = Page::new(operators, settings);
    let routes = Router::new()
        .route("/", get(places::root))
        .route("/ui", get(places::root))
        .merge(sign_in::router())
        .merge(releases::router())
        .merge(strategies::router())
        .merge(children::router())
        .merge(tree::router())
        .merge(routing::router())
        .merge(map::router())
        .merge(api_reads::router())
        .route("/ui/{*rest}", any(|| async { StatusCode::NOT_FOUND }));
    // Files are the same for everybody, and have headers of their own.
    let routes = routes.layer(from_fn_with_state(page.clone(), session::find)).layer(from_fn(headers::add));
    routes.merge(assets::router()).with_state(page)
}
