//! Samples from files: CSV, or JSON in one of four shapes.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use indexmap::{IndexMap, IndexSet};
use jiff::Timestamp;
use serde_json::Value;

use crate::cli::{failure::Failure, show};
use analysis::{Counts, Histogram, Sample};

/// Largest file, in bytes: some ten million values.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Most strata in a file.
const MAX_STRATA: usize = 100_000;

/// Where values are, and what they mean.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    pub values: Option<&'a str>,
    pub stratum: Option<&'a str>,
    pub time: Option<&'a str>,
    pub rate: bool,
}

/// What a file holds.
#[derive(Debug)]
pub enum File {
    Rows(Rows),
    /// Measured as a whole: nothing is known of the order.
    Whole(Sample),
}

/// Values in the order of the file.
#[derive(Debug, Default)]
pub struct Rows {
    /// Whether a value other than 0 is an event, and the value nothing more.
    rate: bool,
    /// The names of strata, in the order of the file; without strata the empty name.
    strata: IndexSet<String>,
    /// Each with its stratum.
    values: Vec<(u32, f64)>,
    /// When each was measured, in seconds; empty without such a column.
    times: Vec<f64>,
}

/// Samples by stratum, in the order of the file.
pub type Strata = IndexMap<String, Sample>;

impl File {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Rows(rows) => rows.values.is_empty(),
            Self::Whole(sample) => sample.count() == 0,
        }
    }

    pub fn strata(self) -> Strata {
        match self {
            Self::Rows(rows) => rows.by_interval(1, |_, _| Some(0)).0.pop().unwrap_or_default(),
            Self::Whole(sample) => [(String::new(), sample)].into(),
        }
    }
}

impl Rows {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// When the first and the last were measured, in seconds; `None` without times.
    pub fn span(&self) -> Option<(f64, f64)> {
        let (first, rest) = self.times.split_first()?;
        Some(rest.iter().fold((*first, *first), |(low, high), time| (low.min(*time), high.max(*time))))
    }

    /// The rows by interval: `interval` is told the place of a row and its time, and says to which it belongs.
    pub fn by_interval(
        &self,
        count: usize,
        interval: impl Fn(usize, Option<f64>) -> Option<usize>,
    ) -> (Vec<Strata>, u64) {
        let mut found: Vec<IndexMap<u32, Vec<f64>>> = vec![IndexMap::new(); count];
        let mut beyond = 0;
        for (at, (stratum, value)) in self.values.iter().enumerate() {
            match interval(at, self.times.get(at).copied()).and_then(|interval| found.get_mut(interval)) {
                Some(strata) => strata.entry(*stratum).or_default().push(*value),
                None => beyond += 1,
            }
        }
        (found.into_iter().map(|strata| self.named(strata)).collect(), beyond)
    }

    fn named(&self, strata: IndexMap<u32, Vec<f64>>) -> Strata {
        let name = |stratum: u32| self.strata.get_index(stratum as usize).cloned().unwrap_or_default();
        strata.into_iter().map(|(stratum, values)| (name(stratum), self.sample(values))).collect()
    }

    fn sample(&self, values: Vec<f64>) -> Sample {
        if !self.rate {
            return Sample::Values(values);
        }
        let events = values.iter().filter(|value| **value != 0.0).count() as u64;
        Sample::Counts(Counts { calls: values.len() as u64, events })
    }

    fn add(&mut self, stratum: &str, value: f64, time: Option<f64>) -> Result<(), String> {
        let at = match self.strata.get_index_of(stratum) {
            Some(at) => at,
            None if self.strata.len() >= MAX_STRATA => {
                return Err(format!("more than {MAX_STRATA} strata: is that column the right one?"));
            }
            None => self.strata.insert_full(stratum.to_owned()).0,
        };
        self.values.push((at as u32, value));
        self.times.extend(time);
        Ok(())
    }
}

/// Reads a file; `-` is standard input.
pub fn read(path: &Path, columns: Columns<'_>) -> Result<File, Failure> {
    let name = if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = if path.as_os_str() == "-" {
        limited(io::stdin().lock())
    } else {
        fs::File::open(path).and_then(limited)
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

/// Each line has as many fields as the first one: more of them would be lost, as the decimals of `5,9` are.
fn csv(text: &str, columns: Columns<'_>) -> Result<File, String> {
    let mut rows = Rows { rate: columns.rate, ..Rows::default() };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let separator = [b'\t', b';', b','].into_iter().find(|c| first.as_bytes().contains(c)).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.delimiter(separator).has_headers(false).flexible(true).trim(csv::Trim::All);
    let mut lines = reader
        .from_reader(text.as_bytes())
        .into_records()
        .filter(|line| !line.as_ref().is_ok_and(|fields| fields.iter().eq([""])));
    let Some(head) = lines.next().transpose().map_err(|error| error.to_string())? else {
        return Ok(File::Rows(rows));
    };
    // A first line without any number names the columns.
    let named = head.iter().all(|field| field.parse::<f64>().is_err());
    let place = |column: &str| place(column, named.then_some(&head), head.len());
    let at = match columns.values {
        Some(column) => place(column)?,
        None if head.len() == 1 => 0,
        None => return Err(format!("{} columns: say by --column which holds the values", head.len())),
    };
    let stratum = columns.stratum.map(place).transpose()?;
    let moment = columns.time.map(place).transpose()?;
    let first = (!named).then(|| Ok(head.clone()));
    for fields in first.into_iter().chain(lines) {
        let fields = fields.map_err(|error| error.to_string())?;
        let line = || fields.position().map_or(0, |at| line_of(text, at));
        if fields.len() != head.len() {
            return Err(format!(
                "line {}: {:?} has {}, and the first line has {}; decimals are written with a point",
                line(),
                fields.iter().collect::<Vec<_>>().join(","),
                show::counted(fields.len() as u64, "column", "columns"),
                head.len()
            ));
        }
        let value = &fields[at];
        let number = value.parse().map_err(|_| format!("line {}: {value:?} is no number", line()))?;
        let moment = moment
            .map(|at| &fields[at])
            .map(|text| time(text).ok_or_else(|| format!("line {}: {text:?} is no time", line())));
        rows.add(stratum.map_or("", |at| &fields[at]), number, moment.transpose()?)?;
    }
    Ok(File::Rows(rows))
}

/// The line of a record, whose position is before the empty lines that were skipped.
fn line_of(text: &str, at: &csv::Position) -> u64 {
    let rest = text.get(at.byte() as usize..).unwrap_or_default();
    at.line() + rest.lines().take_while(|line| line.is_empty()).count() as u64
}

/// Seconds, from whenever, or a time as RFC 3339 has it.
fn time(text: &str) -> Option<f64> {
    let stamp = || text.parse::<Timestamp>().ok().map(|stamp| stamp.as_millisecond() as f64 / 1e3);
    text.parse::<f64>().ok().filter(|seconds| seconds.is_finite()).or_else(stamp)
}

fn place(column: &str, names: Option<&csv::StringRecord>, count: usize) -> Result<usize, String> {
    if let Some(at) = names.and_then(|names| names.iter().position(|name| name == column)) {
        return Ok(at);
    }
    match column.parse::<usize>() {
        Ok(number) if (1..=count).contains(&number) => Ok(number - 1),
        _ => match names {
            Some(names) => Err(format!(
                "there is no column {column:?}, only {}",
                names.iter().collect::<Vec<_>>().join(", ")
            )),
            None => {
                Err(format!("there is no column {column:?}; the columns have no names, only 1 to {count}"))
            }
        },
    }
}

fn json(text: &str, columns: Columns<'_>) -> Result<File, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let items = match value {
        Value::Array(items) => items,
        Value::Object(ref map) if map.contains_key("mapping") => {
            let histogram: Histogram = serde_json::from_value(value).map_err(|error| error.to_string())?;
            return Ok(File::Whole(Sample::Histogram(histogram)));
        }
        Value::Object(ref map) if map.contains_key("calls") => {
            let counts: Counts = serde_json::from_value(value).map_err(|error| error.to_string())?;
            return Ok(File::Whole(Sample::Counts(counts)));
        }
        _ => {
            return Err("neither an array, nor a histogram with a mapping, nor counts with calls and events"
                .to_owned());
        }
    };
    let mut rows = Rows { rate: columns.rate, ..Rows::default() };
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
        let moment = columns.time.map(|column| {
            let found = match item.get(column) {
                Some(Value::String(text)) => time(text),
                Some(Value::Number(number)) => number.as_f64(),
                _ => None,
            };
            found.ok_or_else(|| format!("element {at} has no time in its field {column:?}"))
        });
        rows.add(&stratum, number, moment.transpose()?)?;
    }
    Ok(File::Rows(rows))
}
