//! What an operator sets of a program that runs beside a node: defaults, under a file, under variables, under flags.
//!
//! A value goes in as `section.key` and a text whatever its source, and all faults are reported at once. An unknown key is never
//! ignored. The file that comes with the program lists every key with its default, which a test compares.

pub mod value;

use std::path::Path;

use indexmap::IndexMap;

use self::value::SettingTarget;

/// The sections of the file, and their keys with plain values.
type Sections = Option<IndexMap<String, Option<IndexMap<String, Option<String>>>>>;

/// Every fault of the settings: where it stands, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration of the {of} can't be used\n  {}", .faults.join("\n  "))]
pub struct SettingsError {
    of: &'static str,
    faults: Vec<String>,
}

/// A flag of the command line: its name as written, the key it sets, and the value.
#[derive(Debug, Clone)]
pub struct Flag {
    pub name: &'static str,
    pub key: String,
    pub value: String,
}

impl Flag {
    /// Those of `--set`, and then those of their own, which win. One that was not given has no value.
    pub fn all(
        set: &[(String, String)],
        named: impl IntoIterator<Item = (&'static str, &'static str, Option<String>)>,
    ) -> Vec<Self> {
        let set =
            set.iter().map(|(key, value)| Self { name: "--set", key: key.clone(), value: value.clone() });
        let named = named
            .into_iter()
            .filter_map(|(name, key, value)| Some(Self { name, key: key.to_owned(), value: value? }));
        set.chain(named).collect()
    }
}

/// What follows `--set`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it looks like SECTION.KEY=VALUE")?;
    Ok((key.into(), value.into()))
}

/// Settings that are read so.
pub trait Configured: Clone + Default {
    /// What they are of. The section of this name holds the keys whose variables go without it.
    const OF: &'static str;

    /// Where the file is looked for, below the working directory, when none is named.
    const FILE: &'static str;

    /// Before the name of a variable: `CHOIRMASTER_PROXY_`. With `CONFIG` behind it, it is the variable of the file's name.
    const PREFIX: &'static str;

    /// Every key and its place, in the order of the documentation.
    fn keys(&mut self) -> Vec<(&'static str, SettingTarget<'_>)>;

    /// The rules between keys, and what has to be read to be known.
    fn check(&mut self, faults: &mut Vec<String>);

    /// Reads everything. A file that was named must be there.
    fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self, SettingsError> {
        Self::default().load_over(file, variables, flags)
    }

    /// The same with other defaults.
    fn load_over(
        self,
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Result<Self, SettingsError> {
        let (mut settings, mut faults) = (self, Vec::new());
        let path = file.unwrap_or(Path::new(Self::FILE));
        let place = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => take_text(&mut settings, &text, &place, &mut faults),
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => faults.push(format!("{place}: can't be read: {error}")),
        }
        take_variables(&mut settings, variables, &mut faults);
        for Flag { name, key, value } in flags {
            set(&mut settings, key, value, name, &mut faults);
        }
        settings.check(&mut faults);
        if faults.is_empty() { Ok(settings) } else { Err(SettingsError { of: Self::OF, faults }) }
    }

    /// Every key with its value.
    fn shown(&self) -> Vec<(&'static str, String)> {
        self.clone().keys().into_iter().map(|(key, slot)| (key, slot.to_string())).collect()
    }
}

/// Whether a level of logs can be read, as a fault.
pub fn check_level(level: &str, faults: &mut Vec<String>) {
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(level) {
        faults.push(format!("log.level: {level:?} can't be read: {error}"));
    }
}

fn take_text<S: Configured>(settings: &mut S, text: &str, place: &str, faults: &mut Vec<String>) {
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    let sections = match serde_saphyr::from_str_with_options::<Sections>(text, options) {
        Ok(sections) => sections.unwrap_or_default(),
        Err(error) => {
            return faults
                .push(format!("{place}: not readable as sections of keys with plain values: {error}"));
        }
    };
    for (section, keys) in sections {
        for (key, value) in keys.unwrap_or_default() {
            let key = format!("{section}.{key}");
            match value {
                Some(value) => set(settings, &key, &value, place, faults),
                None if settings.keys().iter().any(|(known, _)| *known == key) => {}
                None => set(settings, &key, "", place, faults),
            }
        }
    }
}

fn take_variables<S: Configured>(
    settings: &mut S,
    variables: impl IntoIterator<Item = (String, String)>,
    faults: &mut Vec<String>,
) {
    let is_of_file = |name: &str| name.strip_prefix(S::PREFIX) == Some("CONFIG");
    let mut ours: Vec<(String, String)> =
        variables.into_iter().filter(|(name, _)| name.starts_with(S::PREFIX) && !is_of_file(name)).collect();
    ours.sort();
    for (name, value) in ours {
        let known = settings.keys().iter().map(|&(key, _)| key).find(|key| variable::<S>(key) == name);
        match known {
            Some(key) => set(settings, key, &value, &name, faults),
            None => faults.push(format!("{name}: no such variable; {} lists all keys", S::FILE)),
        }
    }
}

fn set<S: Configured>(settings: &mut S, key: &str, text: &str, place: &str, faults: &mut Vec<String>) {
    match settings.keys().into_iter().find(|(known, _)| *known == key) {
        Some((_, slot)) => {
            if let Err(why) = slot.read(text) {
                faults.push(format!("{place}: {key}: {why}"));
            }
        }
        None => faults.push(format!("{place}: there is no key {key:?}; {} lists all of them", S::FILE)),
    }
}

/// The variable of a key.
fn variable<S: Configured>(key: &str) -> String {
    let own = key.strip_prefix(S::OF).and_then(|rest| rest.strip_prefix('.'));
    format!("{}{}", S::PREFIX, own.unwrap_or(key).replace('.', "_").to_uppercase())
}
