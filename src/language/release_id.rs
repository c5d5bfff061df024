//! The id in the text of a strategy, and the same text with another one: all else stays as it was written, comments among it.
//!
//! Whatever else is wrong with a text plays no part, nor what its names mean where it is submitted.

use super::{findings::Findings, raw};

/// The id that a text gives its release. `None`: none that can be read.
#[must_use]
pub fn id_of(text: &str) -> Option<String> {
    place_of(text).map(|(_, id)| id)
}

/// The same text with another id. `None`: it has none, or none that stands there letter by letter.
#[must_use]
pub fn with_id(text: &str, id: &str) -> Option<String> {
    let (at, written) = place_of(text)?;
    let (before, rest) = text.split_at_checked(at)?;
    // A quote stays where it stands.
    let quote = rest.len() - rest.trim_start_matches(['"', '\'']).len();
    let (opening, rest) = rest.split_at_checked(quote)?;
    let after = rest.strip_prefix(&*written)?;
    let changed = format!("{before}{opening}{id}{after}");
    (id_of(&changed).as_deref() == Some(id)).then_some(changed)
}

/// Where the id begins, in bytes, and what it is.
fn place_of(text: &str) -> Option<(usize, String)> {
    // A mark that some editors put in front says nothing, and has no place.
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = raw::read(bare, &mut Findings::new(bare))?;
    let id = root.child("id")?;
    let (line, column) = (id.at.line.checked_sub(1)? as usize, id.at.column.checked_sub(1)? as usize);
    let above: usize = bare.split_inclusive('\n').take(line).map(str::len).sum();
    let (within, _) = bare.get(above..)?.char_indices().nth(column)?;
    Some((text.len() - bare.len() + above + within, id.text()?.to_owned()))
}
