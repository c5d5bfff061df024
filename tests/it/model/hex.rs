//! Bytes as hexadecimal digits.

use model::hex::{NotHex, decode, encode, is_encoded};
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_was_written_is_read(bytes in any::<[u8; 5]>()) {
        let digits = encode(&bytes);
        prop_assert_eq!(digits.len(), 10);
        prop_assert!(is_encoded(&digits));
        prop_assert_eq!(decode::<5>(&digits), Ok(bytes));
        prop_assert_eq!(decode::<5>(&digits.to_uppercase()), Ok(bytes));
    }
}

#[test]
fn bytes_are_written_with_small_letters_and_leading_zeros() {
    assert_eq!(encode(&[]), "");
    assert_eq!(encode(&[0, 9, 0x0a, 0xa0, 0xff]), "00090aa0ff");
}

#[test]
fn what_is_not_so_many_digits_is_refused() {
    for text in ["", "0", "000", "0000", "0g", "+f", "-1", " 1", "1 ", "é", "0x"] {
        assert_eq!(decode::<1>(text), Err(NotHex { expected: 2 }), "{text}");
    }
    assert_eq!(decode::<0>(""), Ok([]));
    assert_eq!(NotHex { expected: 64 }.to_string(), "64 hexadecimal digits are expected");
}

#[test]
fn digits_of_other_forms_are_told_from_ours() {
    for (text, is) in [("0123456789abcdef", true), ("", true), ("A0", false), ("0g", false), ("é", false)] {
        assert_eq!(is_encoded(text), is, "{text}");
    }
}
