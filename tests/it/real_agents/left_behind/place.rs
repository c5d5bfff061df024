//! Where all of it lies: a folder of the test's own, or one that is kept, so that an interrupted run goes on.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::super::processes;

pub struct Place {
    folder: PathBuf,
    /// Gone with the test.
    fleeting: Option<TempDir>,
    /// How often it was begun.
    life: u32,
}

impl Place {
    pub fn fleeting() -> Self {
        let fleeting = tempfile::Builder::new().prefix("many").tempdir().unwrap();
        Self { folder: fleeting.path().to_owned(), fleeting: Some(fleeting), life: 1 }
    }

    /// Whatever still runs there was left by whoever was interrupted.
    pub fn kept(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        processes::end_all(&folder);
        let mut place = Self { folder, fleeting: None, life: 0 };
        place.life = place.number("lives") + 1;
        place.write("lives", place.life);
        place
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.join(below)
    }

    /// Nobody used this name in an earlier life.
    pub fn name(&self, number: u32) -> String {
        format!("r{}x{number}", self.life)
    }

    /// How many releases have ended.
    pub fn done(&self) -> u32 {
        self.number("done")
    }

    pub fn note_done(&self, releases: u32) {
        self.write("done", releases);
    }

    /// All of them have, and what they left was as it is to be.
    pub fn note_finished(&self) {
        self.write("finished", self.done());
    }

    fn number(&self, file: &str) -> u32 {
        fs::read_to_string(self.path(file)).map_or(0, |text| text.parse().unwrap())
    }

    fn write(&self, file: &str, number: u32) {
        // Whole, whenever the test ends.
        let new = self.path("number.new");
        fs::write(&new, number.to_string()).unwrap();
        fs::rename(new, self.path(file)).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Before the folder goes.
        processes::end_all(&self.folder);
        drop(self.fleeting.take());
    }
}
