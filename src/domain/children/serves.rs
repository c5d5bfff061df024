//! What serves the functions of a child.

/// Of each function by name the version, as [`language::Version::content`]. A child has few.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serves(Vec<(Box<str>, u64)>);

impl Serves {
    pub fn get(&self, function: &str) -> Option<u64> {
        self.0.iter().find(|(name, _)| **name == *function).map(|(_, content)| *content)
    }

    /// `None`: it is not known any more.
    pub fn set(&mut self, function: &str, content: Option<u64>) {
        self.0.retain(|(name, _)| **name != *function);
        self.0.extend(content.map(|content| (function.into(), content)));
    }
}
