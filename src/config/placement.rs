//! How functions of workflows are placed.

use std::collections::BTreeMap;

use ::placement::Strategy;

use super::{
    section::{Field, Section},
    value::Setting,
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    pub strategy: Strategy,
    /// Which runtime runs functions of which type.
    pub function_types: BTreeMap<String, String>,
}

impl Section for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("strategy", &mut self.strategy),
            Field::new("function_types", &mut self.function_types),
        ]
    }
}

impl Setting for Strategy {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = Self::named(text).ok_or_else(|| format!("{text:?} is none of {}", Self::NAMES.join(", ")))?;
        Ok(())
    }

    fn show(&self) -> String {
        self.name().to_owned()
    }
}

/// `RUST_WASM=wasm, CONTAINER=oci`.
impl Setting for BTreeMap<String, String> {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let mut all = Self::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or_default();
            let (key, value) = (key.trim(), value.trim());
            let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            if key.is_empty() || value.is_empty() || !is_word(key) || !is_word(value) {
                return Err(format!("{pair:?} is no pair, as in RUST_WASM=wasm"));
            }
            if all.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(format!("{key:?} is there twice"));
            }
        }
        *self = all;
        Ok(())
    }

    fn show(&self) -> String {
        self.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    }
}
