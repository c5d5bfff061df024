//! Templates: files in the folder of a version whose names end in `.tmpl`, rendered with a configuration.
//!
//! The rule: the configuration is YAML or JSON, and a mapping. In a template `{{ a.b }}` is replaced by the value of `b` in `a` of it, a text,
//! a number or a truth value, as JSON writes these; nothing else is changed. `NAME.tmpl` becomes `NAME`, and files beside it stay as they
//! are.
//!
//! Invariants: what can't be rendered is refused, by file, line and name, and never left out: a value that isn't there, one that is a list or
//! a mapping, braces that aren't closed on their line, a template that is no text, one whose file is there as well. A configuration that no
//! template reads would reach nobody, so that is refused as well. Whatever a configuration repeats, what comes of it is bounded.
//!
//! Deliberately not here: conditions, loops, functions and defaults. What a version computes from its configuration it computes itself.

use language::functions::Unpacked;
use serde_json::{Map, Value};

use super::{
    read,
    words::{one_line, quoted},
};
use ab_releases::Fault;

/// How the names of templates end.
pub const TEMPLATE: &str = ".tmpl";

/// The largest template, in bytes: 64 KiB.
pub const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// The most bytes that all templates of a folder become: 1 MiB.
pub const MAX_RENDERED_BYTES: usize = 1024 * 1024;

/// A folder with its templates rendered. `field`: where the configuration stands, for whoever wrote it. `is_to_be_read`: it is an error where
/// no template reads the configuration.
///
/// # Errors
///
/// The first that can't be rendered.
pub fn render(folder: Unpacked, config: &str, field: &str, is_to_be_read: bool) -> Result<Unpacked, Fault> {
    let fault = |why: String| Fault::new(field, why);
    let has_templates = folder.files.keys().any(|path| is_template(path));
    if !has_templates {
        if is_to_be_read && !config.trim().is_empty() {
            let why = format!(
                "nothing would read it: no file of what is started has a name that ends in {TEMPLATE}; leave it out, or add one"
            );
            return Err(fault(why));
        }
        return Ok(folder);
    }
    let values = values(config).map_err(fault)?;
    let mut rendered = Unpacked::default();
    let mut left = MAX_RENDERED_BYTES;
    for (path, bytes) in &folder.files {
        let Some(name) = name_of(path) else {
            rendered.files.insert(path.clone(), bytes.clone());
            continue;
        };
        if folder.files.contains_key(name) {
            return Err(fault(format!(
                "{} and {} are both there: keep one of the two",
                quoted(name),
                quoted(path)
            )));
        }
        let text = fill(bytes, &values, &mut left).map_err(|(line, why)| match line {
            0 => fault(format!("{}: {why}", quoted(path))),
            line => fault(format!("line {line} of {}: {why}", quoted(path))),
        })?;
        rendered.files.insert(name.to_owned(), text.into_bytes());
    }
    let programs = folder.programs.iter().map(|path| name_of(path).unwrap_or(path).to_owned());
    rendered.programs = programs.collect();
    Ok(rendered)
}

/// Whether a file is a template, by its path.
#[must_use]
pub fn is_template(path: &str) -> bool {
    name_of(path).is_some()
}

/// What a template becomes; `None`: it is none.
fn name_of(path: &str) -> Option<&str> {
    let name = path.strip_suffix(TEMPLATE)?;
    (!name.is_empty() && !name.ends_with('/')).then_some(name)
}

fn values(config: &str) -> Result<Map<String, Value>, String> {
    if config.trim().is_empty() {
        return Ok(Map::new());
    }
    match read::parse::<Value>(config) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("templates name values in it, so it is a mapping, as in colour: blue".to_owned()),
        Err(why) => Err(one_line(&format!("templates need it, and it can't be read: {why}"))),
    }
}

/// A template with its values. Why there is none, and in which line, or 0.
fn fill(bytes: &[u8], values: &Map<String, Value>, left: &mut usize) -> Result<String, (usize, String)> {
    if bytes.len() > MAX_TEMPLATE_BYTES {
        return Err((
            0,
            format!("a template has at most {MAX_TEMPLATE_BYTES} bytes, this one has {}", bytes.len()),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| (0, "a template is a text in UTF-8".to_owned()))?;
    let mut filled = String::new();
    for (line, rest) in (1..).zip(text.split_inclusive('\n')) {
        let mut rest = rest;
        while let Some((before, opened)) = rest.split_once("{{") {
            let closed = opened.split_once("}}");
            let (name, behind) =
                closed.ok_or_else(|| (line, "{{ is not closed by }} on its line".to_owned()))?;
            push(&mut filled, before, left).map_err(|why| (line, why))?;
            let value = value_of(name.trim(), values).map_err(|why| (line, why))?;
            push(&mut filled, &value, left).map_err(|why| (line, why))?;
            rest = behind;
        }
        push(&mut filled, rest, left).map_err(|why| (line, why))?;
    }
    Ok(filled)
}

fn push(filled: &mut String, text: &str, left: &mut usize) -> Result<(), String> {
    let rest = left.checked_sub(text.len());
    *left = rest.ok_or_else(|| format!("all templates become more than {MAX_RENDERED_BYTES} bytes"))?;
    filled.push_str(text);
    Ok(())
}

/// What a name stands for.
fn value_of(name: &str, values: &Map<String, Value>) -> Result<String, String> {
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if !name.split('.').all(is_name) {
        return Err(format!("{} is no name of a value, as in colour or shop.colour", quoted(name)));
    }
    let found = parts.fold(values.get(first), |found, part| found?.as_object()?.get(part));
    match found {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(truth)) => Ok(truth.to_string()),
        Some(Value::Null) => Err(format!("{} has no value: give it one, or \"\"", quoted(name))),
        Some(Value::Array(_) | Value::Object(_)) => {
            Err(format!("{} is not one value, but several: name one of them", quoted(name)))
        }
        None => {
            let all: Vec<&str> = values.keys().map(String::as_str).collect();
            let near = language::nearest(name, all).map(|near| format!("; did you mean {near}?"));
            Err(format!("{} is not in the configuration{}", quoted(name), near.unwrap_or_default()))
        }
    }
}
