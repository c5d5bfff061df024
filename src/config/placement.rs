//! How functions of workflows are placed.

use std::{collections::BTreeMap, time::Duration};

use ::placement::Strategy;
use domain::workflows::Settings;

use super::{
    section::{Field, Section},
    value::Setting,
};

const SHORTEST_KEEP_ALIVE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub strategy: Strategy,
    /// A node that says nothing for so long is lost, and what runs there is placed elsewhere.
    pub keep_alive: Duration,
    /// Where more nodes than these, in percent, fall silent at once, nothing is moved for [`Self::hold`].
    pub max_vanished: u64,
    pub hold: Duration,
    /// Which runtime runs functions of which type.
    pub function_types: BTreeMap<String, String>,
}

impl Default for Placement {
    fn default() -> Self {
        let Settings { strategy, keep_alive, max_vanished, hold } = Settings::default();
        Self { strategy, keep_alive, max_vanished, hold, function_types: BTreeMap::new() }
    }
}

impl Placement {
    /// What the rules have of it.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        let Self { strategy, keep_alive, max_vanished, hold, function_types: _ } = self;
        Settings { strategy: *strategy, keep_alive: *keep_alive, max_vanished: *max_vanished, hold: *hold }
    }
}

impl Section for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.keep_alive < SHORTEST_KEEP_ALIVE {
            faults.push(("keep_alive", "is at least 200ms: nodes call twice as often".to_owned()));
        }
        if self.max_vanished > 100 {
            faults.push(("max_vanished", "is 0 to 100 percent".to_owned()));
        }
        faults
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("strategy", &mut self.strategy),
            Field::new("keep_alive", &mut self.keep_alive),
            Field::new("max_vanished", &mut self.max_vanished),
            Field::new("hold", &mut self.hold),
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
