//! What runs where: of each child and function the version, and the release that left it there.
//!
//! Invariant: how many deployments are of a release is known at any time, so that nobody walks over all of them to find
//! out whether a release may leave the history.

use std::collections::{BTreeMap, HashMap};

use crate::names::Names;
use model::{ChildKey, ReleaseKey, name_variants};

/// What runs of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Base,
    New,
    /// The child vanished in the middle of a test.
    Unknown,
}

name_variants!(Variant {
    Base => "base",
    New => "new",
    Unknown => "unknown",
});

/// What a child runs of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployment {
    pub release: ReleaseKey,
    pub variant: Variant,
}

/// What each child runs of each function, and how many deployments are of each release.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    of: BTreeMap<(ChildKey, u32), Deployment>,
    /// How many of these are of a release; never 0.
    by_release: HashMap<ReleaseKey, u32>,
    functions: Names,
}

impl Deployments {
    /// What `child` runs of `function`, as far as is known.
    pub fn get(&self, child: ChildKey, function: &str) -> Option<Deployment> {
        self.of.get(&(child, self.functions.get(function)?)).copied()
    }

    /// Whether any child runs what this release left it with.
    pub fn are_of(&self, release: ReleaseKey) -> bool {
        self.by_release.contains_key(&release)
    }

    pub fn put(&mut self, child: ChildKey, function: &str, deployment: Deployment) {
        let number = self.functions.intern(function);
        *self.by_release.entry(deployment.release).or_default() += 1;
        let before = self.of.insert((child, number), deployment);
        self.count_out(before);
    }

    /// Forgets all that a child runs.
    pub fn forget(&mut self, child: ChildKey) {
        let of_child = (child, 0)..=(child, u32::MAX);
        let all: Vec<(ChildKey, u32)> = self.of.range(of_child).map(|(of, _)| *of).collect();
        for of in all {
            let before = self.of.remove(&of);
            self.count_out(before);
        }
    }

    fn count_out(&mut self, before: Option<Deployment>) {
        let Some(before) = before else { return };
        if let Some(count) = self.by_release.get_mut(&before.release) {
            *count -= 1;
            if *count == 0 {
                self.by_release.remove(&before.release);
            }
        }
    }
}
