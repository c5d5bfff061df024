//! What a process of `HAProxy` would answer that loaded a section, and what it would do at a command.

use std::fmt::Write as _;

use router::haproxy::config::{
    Map, Maps, STATE, Section, Write, add, commit, entries_of, maps, prepare, section, set, show_map,
    version_of,
};

use traffic::desired::DesiredConfig;

use super::frame;

#[derive(Debug, Clone)]
pub struct Model {
    section: Section,
    pub maps: Maps,
}

impl Model {
    pub fn of(wanted: &DesiredConfig) -> Self {
        Self { section: section(wanted, &frame()).unwrap(), maps: maps(wanted) }
    }

    fn path(&self, map: &str) -> String {
        format!("{}/{map}", frame().folder.maps(&self.section.structure))
    }

    pub fn servers(&self) -> String {
        let mut answer =
            "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_check_result \
                          srv_check_state srv_fqdn srv_port\n"
                .to_owned();
        let (mut backend, mut id) = ("", 0);
        for line in self.section.text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["backend", name, ..] => (backend, id) = (name, id + 1),
                ["server", name, at, ..] => {
                    let (host, port) = at.rsplit_once(':').unwrap();
                    let host = host.trim_matches(['[', ']']);
                    let is_named = host.parse::<std::net::IpAddr>().is_err();
                    let address = if is_named { "192.0.2.99" } else { host };
                    writeln!(answer, "{id} {backend} 1 {name} {address} 2 0 3 6 - {port}").unwrap();
                }
                _ => {}
            }
        }
        answer
    }

    pub fn load(&self) -> String {
        let mut answer = "# pxname,svname,qcur,qmax,scur,stot\n".to_owned();
        let mut backend = "";
        for line in self.section.text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["frontend", name, ..] => writeln!(answer, "{name},FRONTEND,,,0,7").unwrap(),
                ["backend", name, ..] => {
                    backend = name;
                    writeln!(answer, "{name},BACKEND,0,0,3,7").unwrap();
                }
                ["server", name, ..] => writeln!(answer, "{backend},{name},1,0,2,7").unwrap(),
                _ => {}
            }
        }
        answer
    }

    pub fn obey_all(&mut self, writes: &[Write<'_>]) {
        for write in writes {
            self.obey(write);
        }
    }

    /// Does one thing by the commands that are said for it, each of which is looked at as the socket would take it apart.
    pub fn obey(&mut self, write: &Write<'_>) {
        match write {
            Write::Set { map, key, value } => {
                let command = set(&self.path(map), key, value);
                let words = Self::words(&command);
                assert_eq!(words[..2], ["set", "map"]);
                let there = self.maps.get_mut(*map).unwrap().iter_mut().find(|(there, _)| there == key);
                there.expect("the key is there").1.clone_from(&words[4]);
            }
            Write::Replace { map, by } => {
                let path = self.path(map);
                assert_eq!(Self::words(&prepare(&path)), ["prepare", "map", path.as_str()]);
                let version = version_of("New version created: 7\n").unwrap();
                let mut entries = String::new();
                for command in add(&path, version, by) {
                    assert!(command.len() < 16_000 && command.ends_with("\n\n"));
                    let (first, payload) = command.split_once('\n').unwrap();
                    assert_eq!(first, format!("add map @7 {path} <<"));
                    for line in payload.lines().filter(|line| !line.is_empty()) {
                        entries.extend(["0x1 ", line, "\n"]);
                    }
                }
                assert_eq!(Self::words(&commit(&path, version)), ["commit", "map", "@7", path.as_str()]);
                self.maps.insert((*map).to_owned(), entries_of(&entries).unwrap());
            }
        }
    }

    /// One command in one line, without anything that the socket takes for more than a letter.
    fn words(command: &str) -> Vec<String> {
        let line = command.strip_suffix('\n').unwrap();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " @._/-".contains(letter);
        assert!(line.chars().all(is_plain), "{line:?}");
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert!(words.iter().all(|word| !word.is_empty()), "{line:?}");
        words
    }

    pub fn state(&self) -> &Map {
        &self.maps[STATE]
    }

    pub fn asks_for(&self, map: &str) -> Vec<String> {
        Self::words(&show_map(&self.path(map)))
    }
}
