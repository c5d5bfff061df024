//! What the callers wrote down, compared with what the versions wrote down.

use std::{fmt, fs, path::Path};

use super::callers::{Call, Fate};

/// What the proxy counted of one version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub calls: u64,
    pub errors: u64,
    pub failed: u64,
    pub repeated: u64,
    pub sent_again: u64,
    pub passed_over: u64,
    pub broken_off: u64,
}

/// A load and what became of it.
#[derive(Debug)]
pub struct Ledger {
    pub calls: Vec<Call>,
    /// By number: the versions that carried the call out, by their places in `versions`.
    carried_out: Vec<Vec<u8>>,
    versions: Vec<String>,
}

/// What the callers of a load got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    pub calls: usize,
    pub answered: usize,
    pub function_errors: usize,
    pub proxy_errors: usize,
    pub cut: usize,
    pub nothing: usize,
}

impl Ledger {
    /// Reads what the versions wrote into a folder.
    pub fn new(calls: Vec<Call>, folder: &Path) -> Self {
        let numbers = calls.iter().map(|call| call.number as usize + 1).max().unwrap_or(0);
        let mut ledger = Self { calls, carried_out: vec![Vec::new(); numbers], versions: Vec::new() };
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "log") {
                ledger.read(&path);
            }
        }
        ledger
    }

    fn read(&mut self, log: &Path) {
        let version = self.versions.len() as u8;
        self.versions.push(log.file_stem().unwrap().to_string_lossy().into_owned());
        for number in fs::read(log).unwrap().chunks_exact(4) {
            let number = u32::from_le_bytes(number.try_into().unwrap());
            self.carried_out[number as usize].push(version);
        }
    }

    pub fn sums(&self) -> Sums {
        let count = |fate| self.calls.iter().filter(|call| call.fate == fate).count();
        Sums {
            calls: self.calls.len(),
            answered: count(Fate::Answered),
            function_errors: count(Fate::FunctionError),
            proxy_errors: count(Fate::ProxyError),
            cut: count(Fate::Cut),
            nothing: count(Fate::Nothing),
        }
    }

    /// How often calls were carried out, all together.
    pub fn executions(&self) -> usize {
        self.carried_out.iter().map(Vec::len).sum()
    }

    /// Of those that a version carried out.
    pub fn executions_of(&self, version: &str) -> usize {
        let of_this = self.versions.iter().position(|known| known == version);
        let all = self.carried_out.iter().flatten();
        all.filter(|version| Some(usize::from(**version)) == of_this).count()
    }

    /// Executions beyond the first, of calls that `which` holds of.
    pub fn more_than_once(&self, which: impl Fn(&Call) -> bool) -> usize {
        let calls = self.calls.iter().filter(|call| which(call));
        calls.map(|call| self.carried_out[call.number as usize].len().saturating_sub(1)).sum()
    }

    /// Executions beyond the first by one and the same version.
    pub fn more_than_once_by_one(&self) -> usize {
        let of_one = |versions: &Vec<u8>| {
            let mut different = versions.clone();
            different.sort_unstable();
            different.dedup();
            versions.len() - different.len()
        };
        self.carried_out.iter().map(of_one).sum()
    }

    /// What went wrong where every failed call may be repeated; nothing, if no call is felt to have failed, and each that was
    /// carried out more than once was repeated and counted.
    pub fn faults(&self, counted: &Counted) -> Vec<String> {
        let Sums { calls, answered: _, function_errors, proxy_errors, cut, nothing } = self.sums();
        let more = self.more_than_once(|_| true) as u64;
        let repeats = counted.repeated + counted.sent_again;
        let again = self.more_than_once_by_one() as u64;
        let looked_at = [
            (function_errors > 0, format!("{function_errors} callers felt an error of a canary")),
            (proxy_errors > 0, format!("lost: {proxy_errors} errors that no function gave")),
            (nothing > 0, format!("lost: {nothing} calls without an answer")),
            (cut > 0, format!("cut: {cut}")),
            (self.invented() > 0, format!("{} answers to calls that nobody carried out", self.invented())),
            (more > repeats, format!("doubled: {more} more than once, {repeats} repeats")),
            (again > counted.sent_again, format!("doubled: {again} by one version, {counted:?}")),
            (counted.calls != calls as u64, format!("{calls} calls, and {} counted", counted.calls)),
        ];
        looked_at.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect()
    }

    /// Calls that were answered by a function and that no function carried out.
    pub fn invented(&self) -> usize {
        let answered =
            self.calls.iter().filter(|call| matches!(call.fate, Fate::Answered | Fate::FunctionError));
        answered.filter(|call| self.carried_out[call.number as usize].is_empty()).count()
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, answered, function_errors, proxy_errors, cut, nothing } = self;
        write!(
            f,
            "{calls} calls: {answered} answered, {function_errors} errors of functions, {proxy_errors} errors of the \
             proxy, {cut} cut, {nothing} without an answer"
        )
    }
}
