//! Nothing of a version is left once its release is over, and nothing that stays grows with their number: 1,000 releases of a
//! function of the form `binary` and 50 of one of node, one after the other, of which some are rolled out, some taken back and some
//! aborted. Each run of the tests makes a twentieth of them; `tests/long releases` makes all, and goes on where it was interrupted.
//!
//! After each release it is looked whether processes, sockets, folders, files and control groups are those that there were before the
//! first one, while no call is in flight; at the end, what the processes held of memory and open files early and late.

mod course;
mod grown;
mod place;
mod site;

use std::{env, path::PathBuf};

use self::{course::way, grown::Grown, place::Place, site::Site};
use super::releases::Form;

const BINARY: Form = Form { function: "b", env: "binary" };
const NODE: Form = Form { function: "n", env: "nodejs" };

const RELEASES_OF_BINARY: u32 = 1_000;
const RELEASES_OF_NODE: u32 = 50;
/// One of so many releases is of node.
const TURN: u32 = RELEASES_OF_BINARY / RELEASES_OF_NODE + 1;
/// Each run of the tests makes one of so many.
const PARTS: u32 = 20;

/// Where `tests/long` has all of them made.
const FOLDER: &str = "CHOIRMASTER_TEST_RELEASES_IN";
/// After how many releases it says how far it is.
const SAYS: u32 = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_behind_by_many_releases() {
    let all = RELEASES_OF_BINARY + RELEASES_OF_NODE;
    let (place, all) = match env::var_os(FOLDER) {
        Some(folder) => (Place::kept(PathBuf::from(folder)), all),
        None => (Place::fleeting(), all.div_ceil(PARTS)),
    };
    let begun_at = place.done();
    let mut site = Site::start(place).await;
    let mut grown = Grown::new(&site).await;
    // However late it goes on, there are enough releases to compare what the first and the last of them leave.
    let all = all.max(begun_at + all / 5);
    for number in begun_at..all {
        let form = if number % TURN == TURN - 1 { NODE } else { BINARY };
        site.release(number, form, way(number)).await;
        site.nothing_is_left(number).await;
        grown.note(&site);
        site.place().note_done(number + 1);
        let done = number + 1;
        if done.is_multiple_of(SAYS) || done == all {
            eprintln!("{done} of {all} releases; {}", grown.in_words());
        }
    }
    assert_eq!(site.wrong(), None, "of {} calls", site.calls());
    eprintln!("{} control groups have come and gone, {} calls were answered", site.groups(), site.calls());
    grown.is_bounded();
    site.place().note_finished();
    site.end().await;
}
