//! `CHOIRMASTER_*` variables: `limits.max_children` is `CHOIRMASTER_LIMITS_MAX_CHILDREN`.

use super::{Config, Fault, did_you_mean, nearest};

const PREFIX: &str = "CHOIRMASTER_";

/// Variables with a shorter name, and the keys they set.
pub const SHORT_NAMES: [(&str, &str); 4] = [
    ("CHOIRMASTER_LISTEN", "serve.listen"),
    ("CHOIRMASTER_DATA", "serve.data"),
    ("CHOIRMASTER_STORE", "store.url"),
    ("CHOIRMASTER_LOG", "log.level"),
];

/// Variables that are not about the configuration.
pub const OWN_VARIABLES: [&str; 6] = [
    "CHOIRMASTER_CONFIG",
    "CHOIRMASTER_URL",
    "CHOIRMASTER_TOKEN",
    "CHOIRMASTER_TOKEN_FILE",
    "CHOIRMASTER_CA",
    "CHOIRMASTER_CONTEXT",
];

/// Sets what variables say. One that looks like a key and is none is a fault; one that looks like none is somebody
/// else's (orchestrators set such as `CHOIRMASTER_SERVICE_HOST` beside a service of that name).
pub fn read(
    variables: impl IntoIterator<Item = (String, String)>,
    config: &mut Config,
    faults: &mut Vec<Fault>,
) {
    let keys: Vec<String> = config.keys().into_iter().map(|(key, _)| key).collect();
    let names: Vec<String> = keys.iter().map(|key| variable(key)).collect();
    let mut ours: Vec<(String, String)> =
        variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    // The long name of a key wins over its short one.
    ours.sort_by_key(|(name, _)| (!SHORT_NAMES.iter().any(|(short, _)| short == name), name.clone()));
    for (name, value) in ours {
        if OWN_VARIABLES.contains(&name.as_str()) {
            continue;
        }
        let short = SHORT_NAMES.iter().find(|(short, _)| *short == name).map(|(_, key)| *key);
        let long = names.iter().position(|known| *known == name).map(|at| keys[at].as_str());
        if let Some(key) = short.or(long) {
            config.set(key, &value, &name, faults);
        } else if looks_like_a_key(&name, &keys) {
            let near = nearest_variable(&name, &keys, &names);
            faults.push(Fault { place: name, message: format!("no such variable{}", did_you_mean(near)) });
        }
    }
}

/// The variable of a key.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn looks_like_a_key(name: &str, keys: &[String]) -> bool {
    let rest = name[PREFIX.len()..].to_lowercase();
    keys.iter().filter_map(|key| key.split_once('.')).any(|(section, key)| {
        rest == key || rest.strip_prefix(section).is_some_and(|rest| rest.starts_with('_'))
    })
}

fn nearest_variable<'n>(name: &str, keys: &[String], names: &'n [String]) -> Option<&'n str> {
    let rest = name[PREFIX.len()..].to_lowercase();
    let same = keys.iter().position(|key| key.split_once('.').is_some_and(|(_, key)| key == rest));
    same.map_or_else(|| nearest(name, names.iter().map(String::as_str)), |at| Some(names[at].as_str()))
}
