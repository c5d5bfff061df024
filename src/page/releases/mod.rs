//! Releases: all of them, a line each; and one, with everything that its fate depends on.

mod compared;
mod judged;
mod list;
mod progress;
mod sent;
mod show;
mod stages;
mod standing;
mod traffic;
mod trail;
mod waves;

pub use progress::words;
pub use show::of_below;
pub use standing::badge;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use crate::{actions, context::Page};

pub fn router() -> Router<Page> {
    let act = post(sent::handle).layer(DefaultBodyLimit::max(actions::MAX_FORM));
    Router::new()
        .route("/ui/releases", get(list::handle))
        .route("/ui/releases/{id}", get(show::handle))
        .route("/ui/releases/{id}/trail", get(trail::handle))
        .route("/ui/releases/{id}/{action}", act)
}
