//! Samples from files: CSV, or JSON in one of four shapes.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    analysis::{Counts, Histogram, Sample},
    cli::failure::Failure,
};

/// Largest file, in bytes: some ten million values.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Most strata in a file.
const MAX_STRATA: usize = 100_000;

/// Where values are, and what they mean.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    pub values: Option<&'a str>,
    pub stratum: Option<&'a str>,
    pub rate: bool,
}

/// Samples by stratum, in the order of the file; without strata under the empty name.
pub type Strata = IndexMap<String, Sample>;

/// Reads a file; `-` is standard input.
pub fn read(path: &Path, columns: Columns<'_>) -> Result<Strata, Failure> {
    let name = if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = if path.as_os_str() == "-" {
        limited(io::stdin().lock())
    } else {
        File::open(path).and_then(limited)
    };
    let bytes = bytes.map_err(|error| Failure::user(format!("{name} can't be read: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::user(format!("{name} has more than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::user(format!("{name} is no UTF-8 text")))?;
    let text = text.trim_start_matches('\u{feff}');
    let read =
        if text.trim_start().starts_with(['[', '{']) { json(text, columns) } else { csv(text, columns) };
    read.map_err(|wrong| Failure::user(format!("{name}: {wrong}")))
}

fn limited(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Values as they come, by stratum.
#[derive(Default)]
struct Collected {
    strata: IndexMap<String, Vec<f64>>,
}

impl Collected {
    fn add(&mut self, stratum: &str, value: f64) -> Result<(), String> {
        if let Some(values) = self.strata.get_mut(stratum) {
            values.push(value);
            return Ok(());
        }
        if self.strata.len() >= MAX_STRATA {
            return Err(format!("more than {MAX_STRATA} strata: is that column the right one?"));
        }
        self.strata.insert(stratum.to_owned(), vec![value]);
        Ok(())
    }

    fn samples(self, rate: bool) -> Strata {
        let sample = |values: Vec<f64>| {
            if !rate {
                return Sample::Values(values);
            }
            let events = values.iter().filter(|value| **value != 0.0).count() as u64;
            Sample::Counts(Counts { calls: values.len() as u64, events })
        };
        self.strata.into_iter().map(|(name, values)| (name, sample(values))).collect()
    }
}

fn csv(text: &str, columns: Columns<'_>) -> Result<Strata, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    let Some((_, first)) = lines.peek() else { return Ok(Collected::default().samples(columns.rate)) };
    let separator = [',', ';', '\t'].into_iter().find(|c| first.contains(*c)).unwrap_or(',');
    let head = fields(first, separator);
    // A first line without any number names the columns.
    let named = head.iter().all(|field| field.parse::<f64>().is_err());
    let place = |column: &str| place(column, named.then_some(head.as_slice()), head.len());
    let at = match columns.values {
        Some(column) => place(column)?,
        None if head.len() == 1 => 0,
        None => return Err(format!("{} columns: say by --column which holds the values", head.len())),
    };
    let stratum = columns.stratum.map(place).transpose()?;
    if named {
        lines.next();
    }
    let mut collected = Collected::default();
    for (line, text) in lines {
        let fields = fields(text, separator);
        let field =
            |at: usize| fields.get(at).ok_or_else(|| format!("line {} has no column {}", line + 1, at + 1));
        let value = field(at)?;
        let number = value.parse().map_err(|_| format!("line {}: {value:?} is no number", line + 1))?;
        let stratum = stratum.map(field).transpose()?;
        collected.add(stratum.map_or("", String::as_str), number)?;
    }
    Ok(collected.samples(columns.rate))
}

fn place(column: &str, names: Option<&[String]>, count: usize) -> Result<usize, String> {
    if let Some(at) = names.and_then(|names| names.iter().position(|name| name == column)) {
        return Ok(at);
    }
    match column.parse::<usize>() {
        Ok(number) if (1..=count).contains(&number) => Ok(number - 1),
        _ => match names {
            Some(names) => Err(format!("there is no column {column:?}, only {}", names.join(", "))),
            None => {
                Err(format!("there is no column {column:?}; the columns have no names, only 1 to {count}"))
            }
        },
    }
}

/// Fields of a line; quotes around them are taken off, doubled ones within are one (RFC 4180).
fn fields(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields.last_mut().into_iter().for_each(|field| field.push('"'));
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(String::new()),
            c => fields.last_mut().into_iter().for_each(|field| field.push(c)),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

fn json(text: &str, columns: Columns<'_>) -> Result<Strata, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let items = match value {
        Value::Array(items) => items,
        Value::Object(ref map) if map.contains_key("mapping") => {
            let histogram: Histogram = serde_json::from_value(value).map_err(|error| error.to_string())?;
            return Ok([(String::new(), Sample::Histogram(histogram))].into());
        }
        Value::Object(ref map) if map.contains_key("calls") => {
            let counts: Counts = serde_json::from_value(value).map_err(|error| error.to_string())?;
            return Ok([(String::new(), Sample::Counts(counts))].into());
        }
        _ => {
            return Err("neither an array, nor a histogram with a mapping, nor counts with calls and events"
                .to_owned());
        }
    };
    let mut collected = Collected::default();
    for (at, item) in items.iter().enumerate() {
        let value = match (item, columns.values) {
            (Value::Object(map), Some(column)) => map.get(column).unwrap_or(&Value::Null),
            (Value::Object(_), None) => {
                return Err("objects: say by --column which field holds the values".into());
            }
            (item, _) => item,
        };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::Bool(event) => Some(f64::from(u8::from(*event))),
            _ => None,
        };
        let number = number.ok_or_else(|| format!("element {at}: {value} is no number"))?;
        let stratum = match columns.stratum {
            None => String::new(),
            Some(column) => match item.get(column) {
                Some(Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
                None => return Err(format!("element {at} has no field {column:?}")),
            },
        };
        collected.add(&stratum, number)?;
    }
    Ok(collected.samples(columns.rate))
}
