//! Maps: where children are, and what they are shown as, of the fleet or of one release.
//!
//! What all viewers of one map see is looked at once for all of them ([`watch`]), apart from the engine's task and only while
//! somebody looks. A tenant's map has its own children alone, and is looked at by itself.

mod areas;
mod around;
mod binary;
mod cells;
mod changes;
mod child;
mod history;
mod parts;
mod planned;
mod rows;
mod show;
mod watch;
mod window;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Context;
pub use around::Around;
pub use planned::planned;
pub use watch::Maps;

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(show::fleet))
        .routes(routes!(show::release))
        .routes(routes!(cells::fleet))
        .routes(routes!(cells::release))
        .routes(routes!(areas::fleet))
        .routes(routes!(areas::release))
        .routes(routes!(child::handle))
        .routes(routes!(changes::fleet))
        .routes(routes!(changes::release))
        .routes(routes!(history::handle))
}
