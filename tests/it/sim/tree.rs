//! The shape of a world: which manager is below which, and which agent at which.

use super::dice::Dice;

/// Managers above each other, the root included.
const MAX_DEPTH: usize = 3;
const MAX_MANAGERS: usize = 6;

#[derive(Debug, Default)]
pub struct Tree {
    /// Of each manager; the root is the first.
    pub parents: Vec<Option<usize>>,
    /// For each place in the row of areas, the manager of the agent there. What is below a manager lies in a row.
    pub homes: Vec<usize>,
}

impl Tree {
    pub fn draw(dice: &mut Dice) -> Self {
        let mut tree = Self { parents: vec![None], homes: Vec::new() };
        if dice.chance(0.65) {
            tree.homes = vec![0; 2 + dice.below(5)];
            return tree;
        }
        let places = 2 + dice.below(6);
        tree.grow(dice, 0, places, 1);
        tree
    }

    /// One manager, and at least two agents.
    pub fn row(dice: &mut Dice) -> Self {
        Self { parents: vec![None], homes: vec![0; 2 + dice.below(4)] }
    }

    /// Some agents, and a manager below which are others.
    pub fn fleet() -> Self {
        Self { parents: vec![None, Some(0)], homes: vec![0, 0, 0, 0, 1, 1, 1] }
    }

    /// Puts so many agents below a manager, some of them below managers of their own.
    fn grow(&mut self, dice: &mut Dice, manager: usize, places: usize, depth: usize) {
        let mut left = places;
        while left > 0 {
            let is_first = manager == 0 && self.parents.len() == 1;
            let may_grow = depth < MAX_DEPTH && self.parents.len() < MAX_MANAGERS;
            if may_grow && (is_first || dice.chance(0.4)) {
                let below = 1 + dice.below(left.min(4));
                self.parents.push(Some(manager));
                self.grow(dice, self.parents.len() - 1, below, depth + 1);
                left -= below;
            } else {
                self.homes.push(manager);
                left -= 1;
            }
        }
    }
}
