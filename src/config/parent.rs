//! The manager above this one.

use std::{path::PathBuf, time::Duration};

use super::{
    Fault,
    section::{Field, Section},
    value::{Secret, Url},
};

/// How often the parent is polled unless told otherwise, as agents do.
const DEFAULT_POLL: Duration = Duration::from_secs(3);

/// Shortest and longest time between two polls of the parent, in milliseconds.
const POLL_MS: (u64, u64) = (10, 3_600_000);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// `None`: this manager has no parent.
    pub url: Option<Url>,
    /// A file that holds the token it shows there.
    pub token_file: Option<PathBuf>,
    /// Shown at the parent; empty: none.
    pub name: String,
    pub poll: Duration,
}

impl Default for Parent {
    fn default() -> Self {
        Self { url: None, token_file: None, name: String::new(), poll: DEFAULT_POLL }
    }
}

impl Parent {
    /// The token, where one is named.
    pub fn token(&self) -> Result<Option<Secret>, Fault> {
        let Some(file) = &self.token_file else { return Ok(None) };
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(Secret::new(text.trim()))),
            Err(error) => Err(Fault {
                place: "parent.token_file".to_owned(),
                message: format!("{} can't be read: {error}", file.display()),
            }),
        }
    }
}

impl Section for Parent {
    fn name(&self) -> &'static str {
        "parent"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("url", &mut self.url),
            Field::new("token_file", &mut self.token_file),
            Field::new("name", &mut self.name),
            Field::within("poll", &mut self.poll, POLL_MS.0, POLL_MS.1),
        ]
    }
}
