//! Every name that leaves the program: what it writes, answers, reads and is called with stays as it is, whatever the code
//! behind it is called. Nothing here depends on the names of crates, folders, modules and types.
//!
//! | what | test |
//! |---|---|
//! | keys and variants of all that is serialized | [`forms`] |
//! | headers, cookies, variables, files, metrics, events, kinds of problems, ids: every word that stands in the code as text | [`words`] |
//! | fields of the log | [`log`] |
//! | commands, options, their values and variables | [`command_line`] |
//! | routes, parameters, answers, and the schemas of the API | [`api`] |
//! | tables, columns, indices and views; rows of an export | [`tables`] |
//! | families of metrics | [`metrics`], and those of agents and proxies beside their tests |
//! | features and programs that Cargo builds | [`built`] |
//! | the language | `language schema`: the file with its JSON Schema |
//! | configuration | `config::documented`, `cli::documented`: the files with every key |
//!
//! And words that texts for users no longer have: [`words`], by the list in `replaced_words`.
//!
//! After a change that is meant: `INSTA_UPDATE=always cargo test --test it names::`, and read the difference.

mod api;
mod built;
mod command_line;
mod forms;
mod log;
mod metrics;
mod tables;
mod words;

use std::collections::BTreeSet;

/// Each line once, in order.
fn sorted(lines: impl IntoIterator<Item = String>) -> String {
    let lines: BTreeSet<String> = lines.into_iter().collect();
    lines.into_iter().map(|line| line + "\n").collect()
}
