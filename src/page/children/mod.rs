//! Children: all of them, a line each; one, with what it runs and waits for; those of managers below, as these answer.

mod below;
mod list;
mod of_release;
mod show;
mod steer;
pub mod who;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use crate::{actions, context::Page};

pub fn router() -> Router<Page> {
    let steer = post(steer::handle).layer(DefaultBodyLimit::max(actions::MAX_FORM));
    Router::new()
        .route("/ui/children", get(list::handle))
        .route("/ui/children/{id}", get(show::handle))
        .route("/ui/below/releases", get(below::handle))
        .route("/ui/below/releases/{id}", get(below::handle_one))
        .route("/ui/releases/{id}/children", get(of_release::handle))
        .route("/ui/releases/{id}/children/{child}/{verb}", steer)
}
