//! Maps of the fleet and of a release: counts by cell as a drawing and as a table, which a script makes a map of children from.

mod drawing;
pub mod planned;
mod show;
mod symbols;
mod table;
mod window;

use axum::{Router, routing::get};

use crate::context::Page;

pub fn router() -> Router<Page> {
    Router::new().route("/ui/map", get(show::fleet)).route("/ui/releases/{id}/map", get(show::release))
}
