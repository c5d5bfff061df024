//! The parent.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Fault,
    section::{Field, Section},
    value::Url,
};
use model::{Secret, area};

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
    /// GeoJSON of what this manager is there for, also if it has no parent: children elsewhere are warned of, and while
    /// there are none it is what the parent hears. Strategies with `forward_up` that reach beyond go to the parent.
    pub area_file: Option<PathBuf>,
    /// Where operators call the parent, if not at `url`.
    pub operator_url: Option<Url>,
    /// A file with an operator's token for the parent.
    pub operator_token_file: Option<PathBuf>,
}

impl Default for Parent {
    fn default() -> Self {
        Self {
            url: None,
            token_file: None,
            name: String::new(),
            poll: DEFAULT_POLL,
            area_file: None,
            operator_url: None,
            operator_token_file: None,
        }
    }
}

impl Parent {
    /// The token, where one is named.
    pub fn token(&self) -> Result<Option<Secret>, Fault> {
        let text = read(self.token_file.as_deref(), "parent.token_file")?;
        Ok(text.map(|text| Secret::new(text.trim())))
    }

    /// The token of an operator, where one is named.
    pub fn operator_token(&self) -> Result<Option<Secret>, Fault> {
        let text = read(self.operator_token_file.as_deref(), "parent.operator_token_file")?;
        Ok(text.map(|text| Secret::new(text.trim())))
    }

    /// This manager's own area as a Polygon or a `MultiPolygon`, where one is named.
    pub fn area(&self) -> Result<Option<String>, Fault> {
        let key = "parent.area_file";
        let Some(text) = read(self.area_file.as_deref(), key)? else { return Ok(None) };
        match area::read_file(&text) {
            Ok(area) => Ok(Some(area)),
            Err(error) => Err(Fault { place: key.to_owned(), message: error.to_string() }),
        }
    }
}

/// The text of a file, where one is named. `key`: of the setting that names it.
pub(super) fn read(file: Option<&Path>, key: &str) -> Result<Option<String>, Fault> {
    let Some(file) = file else { return Ok(None) };
    std::fs::read_to_string(file).map(Some).map_err(|error| Fault {
        place: key.to_owned(),
        message: format!("{} can't be read: {error}", file.display()),
    })
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
            Field::new("area_file", &mut self.area_file),
            Field::new("operator_url", &mut self.operator_url),
            Field::new("operator_token_file", &mut self.operator_token_file),
        ]
    }
}
