//! Configuration: the documented file, what wins over what, and how faults read.

mod analysis;
mod documented;
mod faults;
mod precedence;
mod public_url;
mod secrets;

use choirmaster::config::{Config, ConfigError, Flag};

/// Loads from a text in place of the file, variables and flags.
fn load(text: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yml");
    std::fs::write(&file, text).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags: Vec<Flag> = flags
        .iter()
        .map(|(key, value)| Flag {
            name: "--set".to_owned(),
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        })
        .collect();
    Config::load(Some(&file), variables, &flags)
}

/// What is said of a configuration that can't be used, without the folder of the test.
fn complaint(text: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let error = load(text, variables, flags).unwrap_err();
    let place = |place: &str| place.rsplit_once('/').map_or(place.to_owned(), |(_, file)| file.to_owned());
    let lines: Vec<String> =
        error.faults.iter().map(|fault| format!("{}: {}", place(&fault.place), fault.message)).collect();
    lines.join("\n")
}

fn value(config: &Config, key: &str) -> String {
    config.keys().into_iter().find(|(name, _)| name == key).unwrap().1
}
