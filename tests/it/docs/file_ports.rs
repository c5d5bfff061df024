//! Ports in what is typed and in files: each is replaced by one that is free, and everywhere by the same.

use std::collections::BTreeMap;

use crate::ports::free_port;

/// Behind such words a number is a port.
const BEFORE: [&str; 3] = ["port", "ports", "listen"];

/// Ports below 1024 that services are given.
const WELL_KNOWN: [u16; 2] = [80, 443];

/// The ports of a section, by those that the page names.
#[derive(Debug, Default)]
pub struct Ports(BTreeMap<u16, u16>);

impl Ports {
    /// In the place of this port.
    pub fn of(&mut self, named: u16) -> u16 {
        *self.0.entry(named).or_insert_with(free_port)
    }

    /// Takes those that a text names.
    pub fn learn(&mut self, text: &str) {
        for (_, port) in places(text) {
            self.of(port);
        }
    }

    /// A file with other ports.
    pub fn in_file(&mut self, text: &str) -> String {
        let found = places(text).into_iter().map(|(at, port)| (at, port, self.of(port)));
        replaced(text, found.collect())
    }

    /// A command with other ports, also where a known one is a word by itself.
    pub fn in_command(&mut self, text: &str) -> String {
        let mut found = places(text);
        found.extend(numbers(text).filter(|&(at, port)| {
            let end = at + port.to_string().len();
            let is_end =
                |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '"' | '\''));
            self.0.contains_key(&port)
                && is_end(text[..at].chars().next_back())
                && is_end(text[end..].chars().next())
        }));
        found.sort_unstable();
        found.dedup();
        let found = found.into_iter().map(|(at, port)| (at, port, self.of(port)));
        replaced(text, found.collect())
    }

    /// Those that a command names, as it is typed.
    pub fn named_in(&self, text: &str) -> Vec<u16> {
        let is_given = |port: &u16| self.0.values().any(|given| given == port);
        numbers(text).map(|(_, port)| port).filter(is_given).collect()
    }
}

fn replaced(text: &str, found: Vec<(usize, u16, u16)>) -> String {
    let (mut new, mut done) = (String::new(), 0);
    for (at, old, port) in found {
        new += &text[done..at];
        new += &port.to_string();
        done = at + old.to_string().len();
    }
    new + &text[done..]
}

/// Where the ports of a text stand.
fn places(text: &str) -> Vec<(usize, u16)> {
    let is_port = |&(at, port): &(usize, u16)| {
        let before = &text[..at];
        let could_be = port >= 1_024 || WELL_KNOWN.contains(&port);
        could_be && (is_behind_host(before) || is_behind_word(before))
    };
    numbers(text).filter(is_port).collect()
}

/// `127.0.0.1:`, `localhost:`, `[::1]:`, or a colon alone.
fn is_behind_host(before: &str) -> bool {
    let Some(before) = before.strip_suffix(':') else { return false };
    let host = before.rsplit([' ', '/', '"', '\'', ',', '=', '@', '\n']).next().unwrap_or_default();
    // Else it is a time of day.
    host.is_empty() || host.contains(|c: char| !c.is_ascii_digit())
}

/// `port: `, `--port=`, `listen `.
fn is_behind_word(before: &str) -> bool {
    let word = before.trim_end_matches([' ', ':', '=', '[', '"', '\'']);
    let word = word.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    word.len() < before.len() && BEFORE.contains(&word)
}

/// Whole numbers that are no part of a longer word or number, and where they stand.
fn numbers(text: &str) -> impl Iterator<Item = (usize, u16)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let starts = text
        .char_indices()
        .filter(move |&(at, c)| c.is_ascii_digit() && !text[..at].chars().next_back().is_some_and(is_part));
    starts.filter_map(move |(at, _)| {
        let digits = text[at..].split(|c: char| !c.is_ascii_digit()).next()?;
        let is_whole = !text[at + digits.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let port: u16 = digits.parse().ok().filter(|_| is_whole && !digits.starts_with('0'))?;
        Some((at, port))
    })
}

#[test]
fn ports_are_replaced_and_other_numbers_are_not() {
    let mut ports = Ports::default();
    let text = "listen: 127.0.0.1:9991, \":8080\"\nports: [{port: 443}]\nminCalls: 9991\nat: 06:30:00Z\nurl: http://[::1]:9991/x\n";
    let new = ports.in_file(text);
    let [first, second, third] = [9_991, 8_080, 443].map(|port| ports.of(port));
    assert_eq!(
        new,
        format!(
            "listen: 127.0.0.1:{first}, \":{second}\"\nports: [{{port: {third}}}]\nminCalls: 9991\nat: 06:30:00Z\n\
             url: http://[::1]:{first}/x\n"
        )
    );
    let typed = ports.in_command("python3 -m http.server 8080 --bind a --n=8080 && curl localhost:9991/8080");
    assert_eq!(
        typed,
        format!("python3 -m http.server {second} --bind a --n=8080 && curl localhost:{first}/8080")
    );
    assert_eq!(ports.named_in(&typed), [second, first]);
}
