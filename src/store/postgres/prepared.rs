//! All statements together.

use super::{commit, lease, removal, schema, session, statements};
use crate::{dump, history, tables};

/// Every statement of this store, for the test that prepares each.
pub fn all_statements() -> Vec<&'static str> {
    let here = [
        schema::VERSION,
        schema::CLEAR_VERSION,
        schema::SET_VERSION,
        lease::LOOK,
        lease::TAKE,
        lease::RENEW,
        lease::GIVE_BACK,
        session::RELEASES,
    ];
    let counts = tables::COUNTS.map(|(_, sql)| sql);
    let (declared, removal) = (statements::all(), removal::STATEMENTS);
    let shared = [history::STATEMENTS, dump::STATEMENTS, dump::WHOLE, &counts].concat();
    [commit::STATEMENTS, &shared, &here, &declared, removal].concat()
}
