//! The file: sections of keys with plain values.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Location, Spanned};

use super::{Config, Fault};

/// Sections, each with keys, each with a value; `null` stands for "not set here".
type Sections = Option<Entries<Block>>;

/// What stands below the name of a section.
enum Block {
    Nothing,
    Keys(Entries<Option<String>>),
    /// A value where keys belong: other programs have their keys at the top.
    Plain,
}

/// A mapping in the order of the file, with the places of its keys.
struct Entries<V>(Vec<(Spanned<String>, V)>);

/// Sets what the text says.
pub fn read(text: &str, name: &str, config: &mut Config, faults: &mut Vec<Fault>) {
    let place = |at: Location| format!("{name}:{}:{}", at.line(), at.column());
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
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
        if !config.sections().iter().any(|known| known.name() == section.value) {
            unknown_section(&section.value, &place(section.referenced), config, faults);
            continue;
        }
        let keys = match keys {
            Block::Nothing => continue,
            Block::Keys(keys) => keys,
            Block::Plain => {
                let message = format!("{} is a section: write its keys below it, indented", section.value);
                faults.push(Fault { place: place(section.referenced), message });
                continue;
            }
        };
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
    let hint = super::original::ours(name).map(|ours| format!("; {ours}"));
    let other = || {
        near.map_or_else(
            || format!("; there are {}", known.join(", ")),
            |near| format!("; did you mean {near}?"),
        )
    };
    let hint = hint.unwrap_or_else(other);
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

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlockVisitor)
    }
}

struct BlockVisitor;

impl<'de> de::Visitor<'de> for BlockVisitor {
    type Value = Block;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys with values")
    }

    fn visit_unit<E>(self) -> Result<Block, E> {
        Ok(Block::Nothing)
    }

    fn visit_none<E>(self) -> Result<Block, E> {
        Ok(Block::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Block, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Block, E> {
        Ok(Block::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Block, E> {
        Ok(Block::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Block, E> {
        Ok(Block::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Block, E> {
        Ok(Block::Plain)
    }

    fn visit_str<E>(self, _: &str) -> Result<Block, E> {
        Ok(Block::Plain)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, entries: A) -> Result<Block, A::Error> {
        let keys = Entries::deserialize(de::value::MapAccessDeserializer::new(entries))?;
        Ok(Block::Keys(keys))
    }
}
