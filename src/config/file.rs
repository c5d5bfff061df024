//! The file: sections of keys with plain values.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Location, Spanned};

use super::{Config, Fault};

/// Sections, each with keys, each with a value; `null` stands for "not set here".
type Sections = Option<Entries<Option<Entries<Option<String>>>>>;

/// A mapping in the order of the file, with the places of its keys.
struct Entries<V>(Vec<(Spanned<String>, V)>);

/// Sets what the text says.
pub fn read(text: &str, name: &str, config: &mut Config, faults: &mut Vec<Fault>) {
    let place = |at: Location| format!("{name}:{}:{}", at.line(), at.column());
    let options = serde_saphyr::options! { with_snippet: false };
    let sections = match serde_saphyr::from_str_with_options::<Sections>(text, options) {
        Ok(sections) => sections,
        Err(error) => {
            let message = error.to_string();
            // The place stands in front already.
            let message = message.split(" at line ").next().unwrap_or(&message).trim().to_owned();
            let message = format!("not readable as sections of keys with plain values: {message}");
            faults.push(Fault { place: error.location().map_or(name.to_owned(), place), message });
            return;
        }
    };
    for (section, keys) in sections.map(|sections| sections.0).unwrap_or_default() {
        let Some(keys) = keys else {
            // Nothing set: only the name of the section is looked at.
            if !config.sections().iter().any(|known| known.name() == section.value) {
                unknown_section(&section.value, &place(section.referenced), config, faults);
            }
            continue;
        };
        if !config.sections().iter().any(|known| known.name() == section.value) {
            unknown_section(&section.value, &place(section.referenced), config, faults);
            continue;
        }
        for (key, value) in keys.0 {
            let path = format!("{}.{}", section.value, key.value);
            if let Some(value) = value {
                config.set(&path, &value, &place(key.referenced), faults);
            } else if !config.keys().iter().any(|(known, _)| *known == path) {
                config.set(&path, "", &place(key.referenced), faults);
            }
        }
    }
}

fn unknown_section(name: &str, place: &str, config: &mut Config, faults: &mut Vec<Fault>) {
    let known: Vec<&str> = config.sections().iter().map(|section| section.name()).collect();
    let near = super::nearest(name, known.iter().copied());
    let hint = near.map_or_else(
        || format!("; there are {}", known.join(", ")),
        |near| format!("; did you mean {near}?"),
    );
    faults.push(Fault { place: place.to_owned(), message: format!("there is no section {name:?}{hint}") });
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> de::Visitor<'de> for EntriesVisitor<V> {
    type Value = Entries<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys with values")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Entries<V>, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            list.push(entry);
        }
        Ok(Entries(list))
    }
}
