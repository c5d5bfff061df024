//! Where nodes and workflows are mirrored.

use std::path::PathBuf;

use super::{
    Fault,
    section::{Field, Section},
};
use model::Secret;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirror {
    /// A database of Redis or Valkey; empty: they are mirrored nowhere.
    pub url: String,
    /// A file that holds its password.
    pub password_file: Option<PathBuf>,
    /// What each key begins with.
    pub prefix: String,
    /// The database is taken although it has keys of others, or is another manager's.
    pub take_over: bool,
}

impl Mirror {
    /// What the mirror is started with; none: there is none.
    pub fn settings(&self) -> Result<Option<::mirror::Settings>, Fault> {
        if self.url.is_empty() {
            return Ok(None);
        }
        let key = "mirror.password_file";
        let fault = |message: String| Fault { place: key.to_owned(), message };
        let password = match &self.password_file {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(file);
                Some(text.map_err(|error| fault(format!("{} can't be read: {error}", file.display())))?)
            }
        };
        let password = password.map(|text| Secret::new(text.trim()));
        let Self { prefix, take_over, .. } = self.clone();
        Ok(Some(::mirror::Settings { url: self.url.clone(), password, prefix, take_over }))
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
        if self.prefix.chars().any(|c| !(c.is_ascii_alphanumeric() || ":_.-".contains(c))) {
            faults.push(("prefix", "has letters, digits and : _ . -".to_owned()));
        }
        faults
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("url", &mut self.url),
            Field::new("password_file", &mut self.password_file),
            Field::new("prefix", &mut self.prefix),
            Field::new("take_over", &mut self.take_over),
        ]
    }
}
