//! What may have been meant by a word that is unknown.

/// The known word that is most like `word`, if one is like it at all.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Edits after which a word is another one.
    const MAX_EDITS: usize = 3;
    let tail = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .into_iter()
        .map(|known| {
            let whole = strsim::damerau_levenshtein(word, known);
            // The right key in the wrong section is as good as a small slip.
            let moved = if tail(word) == tail(known) { 1 } else { usize::MAX };
            (whole.min(moved), known)
        })
        .min()
        .filter(|(edits, known)| *edits <= MAX_EDITS && *edits < known.len() / 2 + 1)
        .map(|(_, known)| known)
}

pub(super) fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(
        || "; config/choirmaster.yml lists all of them".to_owned(),
        |near| format!("; did you mean {near}?"),
    )
}
