//! What an earlier build left behind, against this one: its stores are opened and their releases brought to their end, its
//! managers work above and below this one, its digests stay.
//!
//! `ac1d066/` was written once by that build, with `record.py`, and is never written anew:
//!
//! | files | what they are |
//! |---|---|
//! | `single.*` | one manager with releases that are open at every place: whole strategies and single stages in hand, waves half open, waiting, paused, queued, being taken back |
//! | `root.*`, and one a release | a tree: a root, and below it a manager with two agents for each of its releases |
//! | `*.db`, `*.jsonl`, `*.json` | a store as its file and as its export; what its children hold, and each text that they were given |
//! | `wire.jsonl` | what a manager and its parent of that build said to each other |
//! | `digests.json` | of the strategies and archives in `samples/`, which are the samples of that time |
//! | `keys.json` | the keys of a strategy that it reads; it refuses others |
//!
//! A build of a later time that needs a place of its own here is recorded into a folder beside it.

mod above;
mod actor;
mod below;
mod digests;
mod kept;
mod neighbours;
mod single;
mod tree;
mod wire;

use std::path::PathBuf;

use serde_json::Value;
use store::{options::OpenOptions, transfer, url};

use crate::store::place::{Kind, Place};

/// The folder of the samples of that time, with `fns/` in it.
fn samples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/frozen/samples")
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/frozen/ac1d066").join(file)
}

fn json(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path(file)).unwrap()).unwrap()
}

/// The form in which a store comes here.
#[derive(Debug, Clone, Copy)]
enum Frozen {
    /// The file itself.
    File,
    /// Its export, imported.
    Export,
}

/// Puts the store of that name in its place.
async fn thaw(name: &str, form: Frozen, place: &Place) {
    match form {
        Frozen::File => {
            assert_eq!(place.kind, Kind::Sqlite);
            std::fs::copy(path(&format!("{name}.db")), place.file()).unwrap();
        }
        Frozen::Export => {
            let file = std::fs::read(path(&format!("{name}.jsonl"))).unwrap();
            let mut target = url::open_target(&place.url, &OpenOptions::new()).await.unwrap();
            transfer::import(&mut *target, &mut &file[..], &mut |_| {}).await.unwrap();
            target.finish().await.unwrap();
        }
    }
}
