use language::functions::{Limits, from_upload};
use proptest::prelude::*;
use zip::CompressionMethod;

use super::{sound, strategy, zip_of};

/// Small, so that a bomb found by chance is cheap.
fn limits() -> Limits {
    Limits { unpacked_bytes: 1024 * 1024, ..Limits::default() }
}

proptest! {
    #![proptest_config(crate::cases::cases(400))]

    #[test]
    fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(from_upload(&bytes, &strategy(), &limits()).is_err());
    }

    #[test]
    fn a_damaged_zip_is_accepted_or_refused(
        deflate in any::<bool>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let method = if deflate { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let mut bytes = zip_of(&sound(), method);
        for (place, byte) in edits {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(archive) = from_upload(&bytes, &strategy(), &limits()) {
            // What was accepted is canonical: packing it again changes nothing.
            prop_assert_eq!(from_upload(&archive.bytes, &strategy(), &limits()).unwrap(), archive);
        }
    }
}
