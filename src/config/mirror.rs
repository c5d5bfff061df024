//! Where nodes and workflows are mirrored.

use std::{path::PathBuf, time::Duration};

use super::{
    Fault,
    parent::read,
    section::{Field, Section},
    value::Setting,
};
use ::mirror::Schema;
use model::Secret;

/// How long what was measured stands there unless told otherwise.
const DEFAULT_HISTORY: Duration = Duration::from_hours(24);

/// Shortest and longest of these, in milliseconds.
const HISTORY_MS: (u64, u64) = (1_000, 30 * 24 * 3_600 * 1_000);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// A database of Redis or Valkey; empty: they are mirrored nowhere.
    pub url: String,
    /// A file that holds its password.
    pub password_file: Option<PathBuf>,
    /// A file in PEM with the authorities that are trusted with its certificate.
    pub ca_file: Option<PathBuf>,
    /// What each key begins with.
    pub prefix: String,
    /// The database is taken although it has keys of others, or is another manager's.
    pub take_over: bool,
    /// The form of what EDGELESS has changed.
    pub schema: Schema,
    /// How long what was measured stands there.
    pub history: Duration,
    /// It is measured how long functions take with events.
    pub performance_samples: bool,
}

impl Default for Mirror {
    fn default() -> Self {
        Self {
            url: String::new(),
            password_file: None,
            ca_file: None,
            prefix: String::new(),
            take_over: false,
            schema: Schema::default(),
            history: DEFAULT_HISTORY,
            performance_samples: false,
        }
    }
}

impl Mirror {
    /// What the mirror is started with; none: there is none.
    pub fn settings(&self) -> Result<Option<::mirror::Settings>, Fault> {
        if self.url.is_empty() {
            return Ok(None);
        }
        let password = read(self.password_file.as_deref(), "mirror.password_file")?;
        let authorities = read(self.ca_file.as_deref(), "mirror.ca_file")?;
        let settings = ::mirror::Settings {
            url: self.url.clone(),
            password: password.map(|text| Secret::new(text.trim())),
            authorities: authorities.map(String::into_bytes),
            prefix: self.prefix.clone(),
            take_over: self.take_over,
            schema: self.schema,
            history: self.history,
            performance: self.performance_samples,
        };
        let unusable = |message| Fault { place: "mirror.ca_file".to_owned(), message };
        settings.check_authorities().map_err(unusable)?;
        Ok(Some(settings))
    }
}

impl Section for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let Some(Err(why)) = (!self.url.is_empty()).then(|| ::mirror::check_url(&self.url)) {
            faults.push(("url", why));
        }
        if self.ca_file.is_some() && !self.url.starts_with("rediss://") {
            faults.push(("ca_file", "is for an address that begins with rediss://".to_owned()));
        }
        if self.prefix.chars().any(|c| !(c.is_ascii_alphanumeric() || ":_.-".contains(c))) {
            faults.push(("prefix", "has letters, digits and : _ . -".to_owned()));
        }
        faults
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("url", &mut self.url),
            Field::new("password_file", &mut self.password_file),
            Field::new("ca_file", &mut self.ca_file),
            Field::new("prefix", &mut self.prefix),
            Field::new("take_over", &mut self.take_over),
            Field::new("schema", &mut self.schema),
            Field::within("history", &mut self.history, HISTORY_MS.0, HISTORY_MS.1),
            Field::new("performance_samples", &mut self.performance_samples),
        ]
    }
}

impl Setting for Schema {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "2024" => Self::Of2024,
            "current" => Self::Current,
            _ => return Err(format!("{text:?} is neither 2024 nor current")),
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::Of2024 => "2024".to_owned(),
            Self::Current => "current".to_owned(),
        }
    }
}
