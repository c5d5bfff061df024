//! The managers that lead to one below.

use crate::Engine;
use model::ChildKey;

/// Managers in a path at most: the depth of a tree.
pub const MAX_PATH: usize = 64;

/// The manager that a path begins with, and the rest of the path.
pub(super) fn next_hop(engine: &Engine, path: &[String]) -> Result<(ChildKey, Vec<String>), String> {
    if path.len() > MAX_PATH {
        return Err(format!("a path has at most {MAX_PATH} managers"));
    }
    let (first, rest) = path.split_first().ok_or("no manager is named")?;
    let entry = engine.view().children.get(first).ok_or_else(|| format!("child {first} is not known"))?;
    Ok((entry.key, rest.to_vec()))
}
