//! All statements together.

use super::{commit, removal, schema, session, statements};
use crate::{dump, history};

/// Every statement of this store, for the test that prepares each.
pub fn all_statements() -> Vec<&'static str> {
    let here = [schema::VERSION, schema::LOOK, session::RELEASES];
    let (declared, removal) = (statements::all(), removal::STATEMENTS);
    [commit::STATEMENTS, history::STATEMENTS, dump::STATEMENTS, dump::WHOLE, &here, &declared, removal]
        .concat()
}
