//! A queue whose entries have numbers, each one more than the one before: what was handed over twice is known by its number.

use std::collections::VecDeque;

/// At most so many entries; the oldest make room.
#[derive(Debug)]
pub struct NumberedQueue<T> {
    entries: VecDeque<T>,
    /// The number of the first.
    first: u64,
    most: usize,
}

impl<T: Clone> NumberedQueue<T> {
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), first: 0, most }
    }

    /// True: an entry has made room.
    pub fn push(&mut self, entry: T) -> bool {
        let is_full = self.entries.len() >= self.most;
        if is_full && self.entries.pop_front().is_some() {
            self.first += 1;
        }
        self.entries.push_back(entry);
        is_full
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of the first entry, and so many from there.
    #[must_use]
    pub fn first(&self, count: usize) -> (u64, Vec<T>) {
        (self.first, self.entries.iter().take(count).cloned().collect())
    }

    /// Entries below this number are handed over.
    pub fn taken(&mut self, before: u64) {
        while self.first < before && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }
}
