//! How things look: tables, times, counts, JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Serialize;

use model::text;

/// One JSON document.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(value)?)
}

/// What [`super::client::Client::list`] found, as JSON or as a table, which says so if there is more.
pub fn list<T: Serialize>(
    out: &mut impl Write,
    (items, more): &(Vec<T>, bool),
    as_json: bool,
    nothing: &str,
    table: impl FnOnce(&[T]) -> String,
) -> io::Result<()> {
    if as_json {
        return json(out, items);
    }
    if items.is_empty() {
        return writeln!(out, "{nothing}");
    }
    write!(out, "{}{}", table(items), rest(*more))
}

/// A last line for a list that was cut.
pub fn rest(more: bool) -> &'static str {
    if more { "… and more: raise --limit\n" } else { "" }
}

/// Spaces between columns.
const GAP: usize = 2;

/// A table without lines, fit for `grep` and `awk`, as wide as its content.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().copied());
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| one_line(&cell))));
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// The same within so many columns: first the last column is cut, then the first one, then whole lines. `None`: nothing is.
pub fn table_within(width: Option<usize>, head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let Some(width) = width else { return table(head, rows) };
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(at, title)| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(title.len())
        })
        .collect();
    let gaps = GAP * head.len().saturating_sub(1);
    let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    for at in [head.len().saturating_sub(1), 0] {
        let (Some(wide), Some(title)) = (widths.get(at), head.get(at)) else { continue };
        let narrow = wide.saturating_sub(over).max(title.len());
        over = over.saturating_sub(wide - narrow);
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            *cell = cut(cell, narrow);
        }
    }
    let text = table(head, rows);
    text.lines().map(|line| cut(line, width) + "\n").collect()
}

/// A text in lines of so many columns, broken between words; the last of `most` lines is cut.
pub fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| line.chars().count() + 1 + word.chars().count());
        if longer.is_some_and(|longer| longer <= width)
            && let Some(line) = lines.last_mut()
        {
            line.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

/// Bytes in the largest unit of which there is one: `80.1 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Texts of others, without what would move a terminal's cursor.
pub fn one_line(text: &str) -> String {
    text::one_line(text).into_owned()
}

/// At most `width` characters.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Characters of a UUID that are shown: enough to tell a few million apart, and commands ask where they aren't.
const SHORT_ID: usize = 8;

/// The beginning of an id that the manager made; one that somebody chose is left as it is.
pub fn short_id(id: &str) -> &str {
    if is_uuid(id) { &id[..SHORT_ID] } else { id }
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// A text with the ids in it shortened.
pub fn short_ids(text: &str) -> String {
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_id) {
        let end = rest[start..].find(|c| !is_of_id(c)).map_or(rest.len(), |length| start + length);
        short.push_str(&rest[..start]);
        short.push_str(short_id(&rest[start..end]));
        rest = &rest[end..];
    }
    short + rest
}

/// `1 child`, `20 children`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Two units at most: `3d 4h`, `1m 12s`, `8s`.
pub fn lasted(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest}s"),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// From one time to another, or to `now`. Empty if the first is none.
pub fn between(from: Option<&str>, to: Option<&str>, now: Timestamp) -> String {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    let Some(from) = from.and_then(parse) else { return String::new() };
    let to = to.and_then(parse).unwrap_or(now);
    lasted(to.as_second() - from.as_second())
}

/// How long ago that was; `-` for never.
pub fn ago(time: Option<&str>, now: Timestamp) -> String {
    let text = between(time, None, now);
    if text.is_empty() { "-".to_owned() } else { format!("{text} ago") }
}

/// What a release changes, as people call it: a function by its name, a service as `service NAME`.
pub fn subject(key: &str) -> String {
    key.strip_prefix("service/").map_or_else(|| key.to_owned(), |name| format!("service {name}"))
}

/// The same of several, in one line.
pub fn subjects(keys: &[String], between: &str) -> String {
    keys.iter().map(|key| subject(key)).collect::<Vec<_>>().join(between)
}

/// `tier=edge, zone=a`, as labels are written on the command line.
pub fn labels(all: &BTreeMap<String, String>, between: &str) -> String {
    all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(between)
}

/// `A 90 %, B 10 %`.
pub fn percents(shares: &BTreeMap<String, f64>) -> String {
    shares.iter().map(|(name, share)| format!("{name} {share} %")).collect::<Vec<_>>().join(", ")
}

/// `12:03:04`, of a time in UTC.
pub fn clock(time: Timestamp) -> String {
    let text = time.to_string();
    text.split('T').nth(1).map(|clock| clock.chars().take(8).collect()).unwrap_or_default()
}

/// A text or, where there is none, a dash.
pub fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// Says on standard error which managers below were not heard, so that a list is not taken for all there is.
pub fn unheard(managers: &[(String, String)]) -> io::Result<()> {
    for (manager, why) in managers {
        writeln!(io::stderr(), "{} is not in the list: {}", one_line(manager), one_line(why))?;
    }
    Ok(())
}

/// A share of whole units of 0.01 %: `12.5 %` would be `12.50 %`.
pub fn hundredths(hundredths: u32) -> String {
    let (whole, part) = (hundredths / 100, hundredths % 100);
    if part == 0 { format!("{whole} %") } else { format!("{whole}.{part:02} %") }
}
