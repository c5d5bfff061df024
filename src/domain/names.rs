//! Small numbers for names, so that what is kept by name, and for each child, is a few bytes.

use std::{collections::HashMap, sync::Arc};

/// Names never lose their numbers.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Arc<str>, u32>,
}

impl Names {
    /// The number of a name, if it has one.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The number of a name, given now if it had none.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.get(name) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(name.into(), number);
        number
    }
}
