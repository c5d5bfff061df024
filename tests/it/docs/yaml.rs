//! Blocks of YAML: each is read by what reads such a file. One that is only a part of a file has keys that such files have.

use std::path::Path;

use choirmaster::{
    cli::{
        agent::settings::Settings as AgentSettings, proxy::settings::Settings as ProxySettings,
        settings::Configured,
    },
    config::{Config, Services},
};
use language::{
    Diagnostic, RolloutTemplates, Severity,
    analysis::{Templates, providers::Providers},
    schema::schema,
};
use proxy::form::TableForm;
use serde_json::Value;

use super::{
    commands::{self, Command},
    page::{Block, Page, Section},
};

/// Each block can be read, but for files that a command of the section refuses (`# exit code 1`).
pub fn check(page: &Page) {
    let mut faults = Vec::new();
    for section in &page.sections {
        let typed = commands_of(section);
        for block in section.blocks.iter().filter(|block| block.is_yaml()) {
            let found = match block.file() {
                Some(file) => file_is_read(file, &block.text),
                None => part_is_read(&block.text),
            };
            if let Err(fault) = found
                && !is_refused(block, &typed)
            {
                faults.push(format!("{}: {fault}", block.place));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "this can't be read as it stands there: change the block, name its file in its first line (`# canary.yml`), or call it `text`\n{}",
        faults.join("\n")
    );
}

fn commands_of(section: &Section) -> Vec<Command> {
    section.blocks.iter().filter(|block| block.language == "sh").flat_map(commands::typed).collect()
}

fn is_refused(block: &Block, typed: &[Command]) -> bool {
    let refuses = |file: &str| typed.iter().any(|command| command.code == 1 && command.text.contains(file));
    block.file().is_some_and(refuses)
}

fn parsed(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// A file may hold several documents.
fn file_is_read(file: &str, text: &str) -> Result<(), String> {
    text.split("\n---\n").try_for_each(|document| {
        let root = parsed(document)?;
        known_by_its_keys(&root, document).unwrap_or_else(|| configuration(file, document))
    })
}

/// A strategy, a manifest, or what a manager reads beside its configuration. `None`: it is none of these.
fn known_by_its_keys(root: &Value, text: &str) -> Option<Result<(), String>> {
    let has = |key: &str| root.get(key).is_some();
    if canary_releases::kind_of(text.as_bytes()).is_some() {
        let read = canary_releases::read(text.as_bytes());
        return Some(read.map(drop).map_err(|fault| fault.to_string()));
    }
    // An object of somebody else's.
    if has("apiVersion") {
        return Some(Ok(()));
    }
    if has("id") && (has("functions") || has("services")) {
        return Some(without_errors(&language::check(text).diagnostics));
    }
    if has("strategies") {
        return Some(without_errors(&RolloutTemplates::default().read(text)));
    }
    if has("providers") {
        return Some(without_errors(&Providers::read(text).1));
    }
    if root["metrics"].is_object() {
        return Some(without_errors(&Templates::default().read(text)));
    }
    if ["environments", "target_groups", "versions"].into_iter().any(has) {
        return Some(in_file(text, |file| {
            let services = Services { strategies: None, environments: Some(file.to_owned()) };
            services.registered().map(drop).map_err(|error| error.to_string())
        }));
    }
    has("generation")
        .then(|| serde_saphyr::from_str::<TableForm>(text).map(drop).map_err(|error| error.to_string()))
}

/// What only a manager knows is no error here: which strategies it has by name.
fn without_errors(found: &[Diagnostic]) -> Result<(), String> {
    let is_error = |found: &Diagnostic| found.severity == Severity::Error && found.code != "unknown-strategy";
    let errors: Vec<String> =
        found.iter().filter(|found| is_error(found)).map(|found| found.render("line")).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn in_file<T>(text: &str, read: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.yml");
    std::fs::write(&file, text).unwrap();
    read(&file)
}

type Reader = fn(&str) -> Result<(), String>;

fn of_manager(text: &str) -> Result<(), String> {
    Config::from_text(text, "the manager's").map(drop).map_err(|error| error.to_string())
}

/// Files that it names, and features that this build doesn't have, are another machine's matter.
fn of<S: Configured>(text: &str) -> Result<(), String> {
    let Err(error) = in_file(text, |file| S::load(Some(file), [], &[]).map(drop)) else { return Ok(()) };
    let error = error.to_string();
    let is_elsewhere = |line: &&str| ["can't be read", "cargo build"].iter().any(|word| line.contains(word));
    let faults: Vec<&str> = error.lines().skip(1).filter(|line| !is_elsewhere(line)).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Of a manager, of an agent (routers that a manager leads have such files too), of a proxy.
const READERS: [Reader; 3] = [of_manager, of::<AgentSettings>, of::<ProxySettings>];

/// By the name of its file, or else whichever it is.
fn configuration(file: &str, text: &str) -> Result<(), String> {
    let [manager, agent, proxy] = READERS;
    let name = file.rsplit('/').next().unwrap_or(file);
    if name.contains("proxy") {
        proxy(text)
    } else if name.contains("agent") || file.starts_with("routers/") {
        agent(text)
    } else if name.contains("choirmaster") {
        manager(text)
    } else {
        either_configuration(text)
    }
}

fn either_configuration(text: &str) -> Result<(), String> {
    let tried: Vec<String> = READERS.iter().filter_map(|reader| reader(text).err()).collect();
    if tried.len() < READERS.len() { Ok(()) } else { Err(tried.join("\n")) }
}

/// A part of a strategy, of a manifest or of a configuration.
fn part_is_read(text: &str) -> Result<(), String> {
    let root = parsed(text)?;
    if root.get("id").is_some()
        && let Some(whole) = known_by_its_keys(&root, text)
    {
        return whole;
    }
    if root.is_null() || either_configuration(text).is_ok() {
        return Ok(());
    }
    let schema = serde_json::to_value(schema()).unwrap();
    let manifests = canary_releases::crd::definitions();
    let mut forms = Vec::new();
    for all in manifests.iter().chain([&schema]) {
        blocks_of(all, &mut forms);
    }
    let items = root.as_array().map_or(std::slice::from_ref(&root), Vec::as_slice);
    let known = |form: &Value| {
        let keys = items.iter().filter_map(Value::as_object).flatten();
        keys.filter(|(key, _)| form["properties"].get(key.as_str()).is_some()).count()
    };
    let strange = |form: &Value| items.iter().find_map(|item| strange_key(&schema, form, item, ""));
    if forms.iter().any(|form| known(form) > 0 && strange(form).is_none()) {
        return Ok(());
    }
    if let Some(whole) = known_by_its_keys(&root, text) {
        return whole;
    }
    let nearest = forms.iter().filter_map(|form| Some((known(form), strange(form)?)));
    let (_, key) = nearest.max_by_key(|(known, key)| (*known, key.len())).unwrap_or_default();
    let key = key.trim_start_matches('.');
    Err(format!("neither the language nor a manifest nor a configuration has the key `{key}` there"))
}

/// Every mapping with keys of its own that a schema describes.
fn blocks_of<'v>(schema: &'v Value, found: &mut Vec<&'v Value>) {
    if schema["properties"].is_object() {
        found.push(schema);
    }
    let inner = schema.as_object().into_iter().flatten().map(|(_, inner)| inner);
    for inner in inner.chain(schema.as_array().into_iter().flatten()) {
        blocks_of(inner, found);
    }
}

/// The first key of a value that its form doesn't have.
fn strange_key(schema: &Value, form: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(name) = form["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return strange_key(schema, &schema["$defs"][name], value, at);
    }
    let alternatives = form["anyOf"].as_array().or(form["oneOf"].as_array());
    let has_keys = form["properties"].is_object() || form["additionalProperties"].is_object();
    if let Some(all) = alternatives.filter(|_| !has_keys) {
        let strange: Option<Vec<String>> =
            all.iter().map(|one| strange_key(schema, one, value, at)).collect();
        return strange?.into_iter().max_by_key(String::len);
    }
    if let Some(items) = value.as_array() {
        let item = |(index, item)| strange_key(schema, &form["items"], item, &format!("{at}[{index}]"));
        return items.iter().enumerate().find_map(item);
    }
    let is_free = form["x-kubernetes-preserve-unknown-fields"] == true;
    value.as_object().filter(|_| !is_free)?.iter().find_map(|(key, value)| {
        let at = format!("{at}.{key}");
        let inner = form["properties"].get(key).or(form.get("additionalProperties"));
        match inner.filter(|inner| inner.is_object()) {
            Some(inner) => strange_key(schema, inner, value, &at),
            None => Some(at),
        }
    })
}

#[test]
fn each_kind_of_file_is_read_by_its_own_reader() {
    let strategy = crate::reference::REFERENCE;
    for (file, text, fault) in [
        ("a.yml", strategy, ""),
        ("a.yml", "id: x\nname: x\nfunctions: []\nstages: []\n", "functions is empty"),
        ("config/choirmaster.yml", "serve: {listen: \"127.0.0.1:1\"}\n", ""),
        ("config/choirmaster.yml", "serve: {listne: \"127.0.0.1:1\"}\n", "serve.listne"),
        ("config/agent.yml", "router: {kind: nginx}\n", ""),
        ("routers/shop.yml", "router: {kidn: nginx}\n", "router.kidn"),
        ("proxy.yml", "proxy: {threads: 2}\n", ""),
        ("proxy.yml", "agent: {name: a}\n", "agent.name"),
        ("table.yml", "generation: 1\nservices: []\n", ""),
        ("own.yml", "strategies: {mine: {stages: [{traffic: 100, duration: 0s}]}}\n", ""),
        ("own.yml", "strategies: {mine: {stages: [{trafic: 100, duration: 0s}]}}\n", "trafic"),
        ("x.yml", "apiVersion: v1\nkind: Service\n", ""),
        ("x.yml", "a: [\n", "line"),
    ] {
        let found = file_is_read(file, text);
        let said = found.as_ref().err().map_or("", String::as_str);
        assert!(said.contains(fault) && said.is_empty() == fault.is_empty(), "{file}: {text}\n{found:?}");
    }
}

#[test]
fn a_part_has_keys_of_one_block() {
    for (text, strange) in [
        ("analysis: {duration: 10m, interval: 1m, metrics: [{name: a, template: {name: b}}]}\n", None),
        ("- {name: errorRate, threshold: '<0.02'}\n", None),
        ("rollout: {order: waves, waves: [1, 100%]}\ntarget: {labels: {anything: x}}\n", None),
        ("serve: {listen: '127.0.0.1:1'}\n", None),
        ("agent: {name: a}\n", None),
        ("spec: {release: shop, version: 2, services: []}\n", None),
        ("rollout: {ordre: waves}\n", Some("`rollout.ordre`")),
        ("stages: [{name: a, end_action: {onSucces: b}}]\n", Some("`stages[0].end_action.onSucces`")),
        ("nonsense: 1\n", Some("`nonsense`")),
    ] {
        let found = part_is_read(text);
        match strange {
            None => assert_eq!(found, Ok(()), "{text}"),
            Some(key) => assert!(found.clone().is_err_and(|fault| fault.contains(key)), "{text}: {found:?}"),
        }
    }
}
