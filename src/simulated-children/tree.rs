//! Which managers a tree has, and where each of them lies: `3x10x100` and a box become places.
//!
//! Each manager's box is cut into one tile for each manager below it, so boxes nest, the tiles of one box cover it and
//! no two overlap. The agents of a lowest manager lie within its box ([`super::area_of`]), so what a manager reports of
//! its children's areas nests too. Everything follows from the numbers alone.

use std::str::FromStr;

use serde::Serialize;

use super::{area::BoundingBox, limits::MAX_AGENTS};

/// Most managers of one tree, its root included.
pub const MAX_MANAGERS: usize = 200;

/// Most levels of managers below the root.
pub const MAX_LEVELS: usize = 16;

/// What a tree looks like as a text.
const FORM: &str = "a tree looks like 3x10x100: 3 managers below the root, 10 below each of those, 100 agents below \
                    each of the lowest";

/// Why there can be no such tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("{0:?} is no number from 1 up; {FORM}")]
    Number(String),
    #[error("{0:?} has no level of managers below the root; {FORM}")]
    TooFlat(String),
    #[error("a tree has at most {MAX_LEVELS} levels of managers below its root, not {0}")]
    TooDeep(usize),
    #[error("a tree has at most {MAX_MANAGERS} managers, its root included; this one has more")]
    Managers,
    #[error("a tree has at most {MAX_AGENTS} agents; this one has more")]
    Agents,
}

/// How many are below each: `3x10x100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSpec {
    /// Managers below each manager of the level above, the root's first.
    levels: Vec<usize>,
    /// Agents below each of the lowest managers.
    agents: usize,
}

impl FromStr for TreeSpec {
    type Err = TreeError;

    fn from_str(text: &str) -> Result<Self, TreeError> {
        let number = |part: &str| match part.parse::<usize>() {
            Ok(number) if number > 0 && part.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
            _ => Err(TreeError::Number(part.to_owned())),
        };
        let mut levels = text.split('x').map(number).collect::<Result<Vec<_>, _>>()?;
        let agents = levels.pop().filter(|_| !levels.is_empty());
        let agents = agents.ok_or_else(|| TreeError::TooFlat(text.to_owned()))?;
        Self::new(levels, agents)
    }
}

impl TreeSpec {
    fn new(levels: Vec<usize>, agents: usize) -> Result<Self, TreeError> {
        if levels.len() > MAX_LEVELS {
            return Err(TreeError::TooDeep(levels.len()));
        }
        let (mut managers, mut lowest) = (1_usize, 1_usize);
        for below in &levels {
            lowest = lowest.checked_mul(*below).filter(|n| *n <= MAX_MANAGERS).ok_or(TreeError::Managers)?;
            managers += lowest;
        }
        if managers > MAX_MANAGERS {
            return Err(TreeError::Managers);
        }
        lowest.checked_mul(agents).filter(|n| *n <= MAX_AGENTS).ok_or(TreeError::Agents)?;
        Ok(Self { levels, agents })
    }

    /// Every manager of the tree within a box; each after the one above it, the root first.
    pub fn places(&self, bounds: BoundingBox) -> Vec<ManagerPlace> {
        let agents_at = |level: usize| if level == self.levels.len() { self.agents } else { 0 };
        let root =
            ManagerPlace { name: "root".to_owned(), level: 0, parent: None, bounds, agents: agents_at(0) };
        let mut places = vec![root];
        let mut above = 0..1;
        for (level, below) in (1..).zip(&self.levels) {
            let first = places.len();
            for parent in above {
                for (number, bounds) in (1..).zip(tiles(places[parent].bounds, *below)) {
                    let name = match level {
                        1 => number.to_string(),
                        _ => format!("{}.{number}", places[parent].name),
                    };
                    let agents = agents_at(level);
                    places.push(ManagerPlace { name, level, parent: Some(parent), bounds, agents });
                }
            }
            above = first..places.len();
        }
        places
    }
}

/// A manager of a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ManagerPlace {
    /// `root`, `2` for the second one below the root, `2.1` for the first one below that.
    pub name: String,
    /// 0 for the root.
    pub level: usize,
    /// Index of the parent.
    #[serde(skip)]
    pub parent: Option<usize>,
    /// Everything below it lies in here.
    pub bounds: BoundingBox,
    /// Agents that call it; none at a manager with managers below.
    pub agents: usize,
}

/// Cuts a box into rows of equal height, and each row into tiles of equal width. Neighbours share the very numbers of
/// their edge, and the outer edges are those of the box.
fn tiles(bounds: BoundingBox, count: usize) -> Vec<BoundingBox> {
    let columns = (count as f64).sqrt().ceil().max(1.0) as usize;
    let rows = count.div_ceil(columns);
    (0..count)
        .map(|tile| {
            let (row, column) = (tile / columns, tile % columns);
            let in_row = columns.min(count - row * columns);
            BoundingBox {
                west: edge(bounds.west, bounds.east, column, in_row),
                east: edge(bounds.west, bounds.east, column + 1, in_row),
                south: edge(bounds.south, bounds.north, row, rows),
                north: edge(bounds.south, bounds.north, row + 1, rows),
            }
        })
        .collect()
}

fn edge(from: f64, to: f64, at: usize, of: usize) -> f64 {
    if at == of { to } else { from + (to - from) * (at as f64 / of as f64) }
}
