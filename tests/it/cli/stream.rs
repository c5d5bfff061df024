//! Server-sent events, however they are cut into pieces.

use choirmaster::cli::audit::Events;
use proptest::prelude::*;

const STREAM: &str = ": hello\n\nid: 1-0\nevent: audit\ndata: {\"a\":1}\n\ndata: two\r\ndata: lines\r\n\r\n:\n\ndata:x\n\ndata: unfinished\n";

proptest! {
    #[test]
    fn events_are_the_same_however_the_stream_is_cut(cuts in proptest::collection::vec(0..STREAM.len(), 0..8)) {
        let mut cuts = cuts;
        cuts.extend([0, STREAM.len()]);
        cuts.sort_unstable();
        let mut events = Events::default();
        let found: Vec<String> = cuts
            .windows(2)
            .flat_map(|pair| events.push(&STREAM.as_bytes()[pair[0]..pair[1]]))
            .map(|data| String::from_utf8(data).unwrap())
            .collect();
        prop_assert_eq!(found, ["{\"a\":1}", "two\nlines", "x"]);
    }
}
