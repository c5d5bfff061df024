//! Cells that are finished, kept in a file: a simulation that was stopped goes on behind them.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions, read_to_string},
    io::Write as _,
};

use serde::{Deserialize, Serialize};

use super::Tally;

/// Nothing is kept without a file. One belongs to one state of the judge: it doesn't notice changes.
#[derive(Default)]
pub struct Kept {
    file: Option<File>,
    known: HashMap<String, Tally>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    cell: String,
    tally: Tally,
}

impl Kept {
    pub fn in_file(path: &str) -> Self {
        let known = read_to_string(path).unwrap_or_default();
        // The last line may be half a line.
        let lines = known.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let known = lines.map(|line| (line.cell, line.tally)).collect();
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { file: Some(file), known }
    }

    pub fn get(&self, cell: &str, runs: u64) -> Option<Tally> {
        self.known.get(cell).copied().filter(|tally| tally.runs == runs)
    }

    pub fn add(&mut self, cell: &str, tally: Tally) {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&Line { cell: cell.to_owned(), tally }).unwrap();
            writeln!(file, "\n{line}").unwrap();
        }
    }
}
