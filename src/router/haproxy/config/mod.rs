//! What `HAProxy` (2.6) is told so that it does what is wanted, and what its answers mean.
//!
//! Ours is a file beside the operator's, given to `HAProxy` as its last `-f` (its defaults would be those of what follows). It
//! names a `frontend` a service and a `backend` a variation; everything in it begins with [`MARK`]. What changes without a reload
//! stands in maps, which `HAProxy` reads from files when it starts and which are changed in its memory over its runtime socket:
//!
//! - `NAME.table`: bucket → variation, for the buckets that aren't the stable one's. Keys of maps of strings lie in a tree, while
//!   maps of integers are looked through from end to end.
//! - `NAME.rule`: value of the header that asks for a variation, in hexadecimal digits → variation.
//! - `state.map`: `number` → the [`Number`](traffic::desired::Number) by which it runs; `service/NAME` → `on`, or `off`: then nobody
//!   gets another variation than the stable one, whatever the table says, unless they ask for it by the header; or `closed`: then nobody
//!   may ask for it either. So a roll-back is one entry, whatever it takes back.
//!   `rule/NAME` → a digest of the rule, by which it is seen whether somebody changed it.
//!
//! The maps of a file stand in a folder named after a digest of that file: its [`Structure`]. A running process says which maps it
//! has, and thereby which file it loaded, whatever is on disk by now; and a file that is only checked shares no map with the one
//! in force. A list of maps leaves out one that more lines name than its buffer of 16 KiB can list, as is `state.map`, which each
//! service names, where there are some hundred: there all others tell the same.
//!
//! Shop has two variations and keeps callers by the cookie `cm`; with the salt `release-7` that is
//!
//! ```text
//! # choirmaster 3.42
//! # Written as a whole by choirmaster: …
//! defaults choirmaster::http
//!     mode http
//!     option idle-close-on-response
//!     …
//! frontend choirmaster:shop from choirmaster::http
//!     bind 0.0.0.0:8080
//!     http-request set-header X-Forwarded-Proto http
//!     http-request set-var(txn.cm_key) req.cook(cm)
//!     http-request set-var(txn.cm_new) uuid,xxh64(0),hex,lower if !{ var(txn.cm_key) -m found }
//!     http-request set-var(txn.cm_key) var(txn.cm_new) if { var(txn.cm_new) -m found }
//!     http-request set-var(txn.cm_to) var(txn.cm_key),xxh32(2767308855),mod(10000),map_str(/…/shop.table) if { str(service/shop),map_str(/…/state.map,off) -m str on }
//!     http-after-response add-header Set-Cookie "cm=%[var(txn.cm_new)]; Path=/; HttpOnly; SameSite=Lax" if { var(txn.cm_new) -m found }
//!     use_backend choirmaster:shop:B if { var(txn.cm_to) -m str -- B } { nbsrv(choirmaster:shop:B) gt 0 }
//!     default_backend choirmaster:shop:A
//! backend choirmaster:shop:A from choirmaster::http
//!     http-response set-header X-Choirmaster-Version A
//!     server 127.0.0.1:9101 127.0.0.1:9101
//! …
//! ```
//!
//! Nobody is sent to a variation without a healthy target: they get the stable one. That one never loses all its targets to
//! checks: when all are taken for dead it serves on all of them, as servers that are only there for that.
//!
//! A check of a path is a GET with `Host: localhost`. Of two cookies of one name in a call the last counts.
//!
//! Words that were checked ([`traffic::desired`]) stand as they are where `HAProxy` takes all of their letters: names, names of
//! headers and cookies, targets, paths. Values of headers may hold anything printable, and are written in hexadecimal digits
//! alone. So nothing here has to be quoted, and nothing that somebody chose ends a word, a line or a command.

mod adopt;
mod command;
mod digest;
mod disk;
mod folder;
mod list;
mod log_line;
mod maps;
mod observed;
mod section;

pub(crate) use self::log_line::read_line;
pub use self::{
    adopt::{adopt, has_socket, listens_of_others},
    command::{
        Fault, Info, SHOW_ENDED, SHOW_INFO, SHOW_LOAD, SHOW_MAPS, SHOW_SERVERS, add, commit, entries_of,
        info_of, maps_of, obeyed, prepare, set, show_load_of, show_map, version_of,
    },
    digest::Structure,
    disk::{listens_of, strange_sections, structure_of},
    folder::{Folder, FolderError},
    maps::{Map, Maps, STATE, Write, file_of, maps, maps_with, state, to_switch_off, writes},
    observed::{ProcessReport, ended, seen, under_way},
    section::{Frame, Section, Unable, section},
};

/// What the names of ours begin with; no service can have such a name.
pub const MARK: &str = "choirmaster:";

/// Behind the name of a server that is there for when all others are taken for dead.
const LAST_RESORT: &str = ":last-resort";

fn frontend(service: &str) -> String {
    format!("{MARK}{service}")
}

/// The backend of a variation.
#[must_use]
pub fn backend(service: &str, variation: &str) -> String {
    format!("{MARK}{service}:{variation}")
}
