use language::{Severity, check, check_bytes};
use proptest::prelude::*;

use super::samples;

fn sound(bytes: &[u8]) {
    let checked = check_bytes(bytes);
    let errors = checked.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    assert_eq!(checked.strategy.is_some(), errors == 0);
    for diagnostic in &checked.diagnostics {
        assert!(!diagnostic.render("x").is_empty());
        assert!(diagnostic.line >= 1 && diagnostic.column >= 1);
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn arbitrary_bytes_are_accepted_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        sound(&bytes);
    }

    #[test]
    fn arbitrary_text_is_accepted_or_refused(text in "\\PC{0,200}") {
        sound(text.as_bytes());
    }

    #[test]
    fn yaml_like_text_is_accepted_or_refused(
        text in "([a-c]: |- |\\[|\\]|\\{|\\}|&a |\\*a|\n|  |\"|'|\\||>|!!str |<<: |\\? |---\n|#|,|1|\\.inf|~){0,60}"
    ) {
        sound(text.as_bytes());
    }

    #[test]
    fn a_damaged_sample_is_accepted_or_refused(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let samples = samples();
        let mut bytes = which.get(&samples).1.clone().into_bytes();
        for (place, byte, edit) in edits {
            let at = place.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        sound(&bytes);
    }

    #[test]
    fn a_sample_without_some_lines_is_accepted_or_refused(
        which in any::<prop::sample::Index>(),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let samples = samples();
        let mut lines: Vec<&str> = which.get(&samples).1.lines().collect();
        for place in gone {
            lines.remove(place.index(lines.len()));
        }
        sound(lines.join("\n").as_bytes());
    }
}

#[test]
fn a_check_of_the_same_text_says_the_same() {
    for (_, text) in samples() {
        let broken = text.replace("rollout", "rolloot").replace("sieve", "seive");
        assert_eq!(check(&broken).diagnostics, check(&broken).diagnostics);
    }
}
