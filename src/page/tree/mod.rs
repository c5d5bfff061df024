//! The tree of managers and agents. A manager is opened by a link that says so in the address; what is below it is asked then.

mod level;
mod show;

use axum::{Router, routing::get};

use crate::context::Page;

pub fn router() -> Router<Page> {
    Router::new().route("/ui/tree", get(show::handle))
}
