//! The table that comes out.

use crate::shared::lines::Lines;

/// Whether a row reached what it is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    Yes,
    No,
    /// Too few rounds were quiet enough to tell.
    TooBusy,
    /// It is there for comparison.
    Nothing,
}

impl Met {
    pub fn of(is_met: bool) -> Self {
        if is_met { Self::Yes } else { Self::No }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "**no**",
            Self::TooBusy => "machine too busy",
            Self::Nothing => "",
        }
    }
}

#[derive(Debug, Default)]
pub struct Report(Lines);

impl Report {
    pub fn line(&mut self, what: &str, ours: &str, theirs: &str, ratio: &str, target: &str, met: Met) {
        self.0.push([what, ours, theirs, ratio, target, met.text()]);
    }

    pub fn missing(&mut self, what: &str) {
        self.0.missing(what, "it is not installed, so nothing is compared with it");
    }

    pub fn print(&self, about: &str) {
        println!("{}", self.0.render("proxy", about));
    }
}
