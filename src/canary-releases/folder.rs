//! What a folder of manifests asks for, from what it has said so far to what it says now.
//!
//! | in the folder | what is wished |
//! |---|---|
//! | a manifest that is new, or says something else | it is submitted |
//! | a canary of which no file says anything any more | it is deprecated |
//! | a registered release of which no file says anything any more | nothing: others may name it |
//! | a file that can't be understood | nothing: what it said before holds |
//! | two files about the same | the first by name counts |
//! | the same in another file | nothing |
//!
//! To deprecate can't be reversed, so nothing is concluded from less than it takes. While files are still to be read, the canary may stand
//! in one of them; and whoever replaces a file by another may take a while between the two, so the folder has to be at rest. What was seen in
//! another folder under this path, or by an earlier process, is only missed where the folder has a manifest: one that isn't mounted, or is
//! another one than was meant, has none.
//!
//! What a folder says is kept by file and by subject, and each text is understood once, when it is read. So what follows from a change costs
//! what has changed, and what is missed, however many files there are.
//!
//! Not here: how a folder is read, when it is, and what becomes of a wish.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use model::steps;

use super::read::{CANARY_RELEASE, Document, RELEASE};

/// Whether a file of this name is a manifest. What is hidden, and what editors leave beside a file, is none.
#[must_use]
pub fn is_manifest(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    !name.starts_with('.') && matches!(extension, Some("yml" | "yaml" | "json"))
}

/// What a manifest is about. A release and a canary may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    // First: canaries name releases.
    Release(String),
    Canary(String),
}

impl Subject {
    fn of(document: &Document) -> Self {
        match document {
            Document::Release(spec) => Self::Release(spec.name.clone()),
            Document::Canary(canary) => Self::Canary(canary.name.clone()),
        }
    }

    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Release(_) => RELEASE,
            Self::Canary(_) => CANARY_RELEASE,
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Release(name) | Self::Canary(name) => name,
        }
    }
}

/// How long nothing has happened in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    /// It can't be read, or there is something in it that nobody has read yet.
    None,
    /// All of it was read.
    Short,
    /// Whoever fills a folder, or replaces one file by another, has done so.
    Long,
}

/// What a manifest says, and what that is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    pub subject: Subject,
    pub document: Arc<Document>,
}

impl From<Document> for Meaning {
    fn from(document: Document) -> Self {
        Self { subject: Subject::of(&document), document: Arc::new(document) }
    }
}

/// How a folder is when somebody asks what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Another number: under this path is another folder.
    pub folder: u64,
    pub rest: Rest,
}

/// What was said of a subject when somebody asked last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    file: String,
    /// `None`: what an earlier process has read.
    document: Option<Arc<Document>>,
    /// Of one that is missing, where the file was; `None`: what an earlier process knew.
    folder: Option<u64>,
}

/// What a folder says, and what it has said so far.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// What its manifests say, by their files; `None`: nothing that can be understood.
    files: BTreeMap<String, Option<Meaning>>,
    /// The files that say something of a subject. The first by its name counts.
    saying: BTreeMap<Subject, BTreeSet<String>>,
    /// Of these something else may be said than when somebody asked last.
    touched: BTreeSet<Subject>,
    seen: BTreeMap<Subject, Seen>,
    /// Those that were seen, and of which nothing is said any more.
    missing: BTreeSet<Subject>,
    forgotten: Vec<Subject>,
    /// The folder when somebody asked last.
    folder: Option<u64>,
    /// The folder that was read as a whole. What is found in it from then on has happened just now.
    read: Option<u64>,
}

impl Contents {
    /// With what an earlier process has left: canaries that are under way, and the files from which they came.
    pub fn left_with(canaries: impl IntoIterator<Item = (String, String)>) -> Self {
        let seen = canaries
            .into_iter()
            .map(|(canary, file)| (Subject::Canary(canary), Seen { file, document: None, folder: None }));
        let seen: BTreeMap<Subject, Seen> = seen.collect();
        Self { missing: seen.keys().cloned().collect(), seen, ..Self::default() }
    }

    /// A file is there, and says this; `None`: nothing that can be understood.
    pub fn put(&mut self, file: &str, meaning: Option<Meaning>) {
        self.remove(file);
        if let Some(Meaning { subject, .. }) = &meaning {
            self.saying.entry(subject.clone()).or_default().insert(file.to_owned());
            self.touched.insert(subject.clone());
        }
        self.files.insert(file.to_owned(), meaning);
    }

    /// A file isn't there any more.
    pub fn remove(&mut self, file: &str) {
        let Some(Some(Meaning { subject, .. })) = self.files.remove(file) else { return };
        if let Some(files) = self.saying.get_mut(&subject) {
            files.remove(file);
            if files.is_empty() {
                self.saying.remove(&subject);
            }
        }
        self.touched.insert(subject);
    }

    /// What a file says; `None`: nothing that can be understood.
    #[must_use]
    pub fn meaning(&self, file: &str) -> Option<&Meaning> {
        self.files.get(file)?.as_ref()
    }

    /// What is said of a subject, and by which file: the first of several.
    #[must_use]
    pub fn said(&self, subject: &Subject) -> Option<(&str, &Meaning)> {
        let file = self.files_of(subject).next()?;
        Some((file, self.meaning(file)?))
    }

    /// The files that say something of a subject, by their names.
    pub fn files_of(&self, subject: &Subject) -> impl Iterator<Item = &str> {
        self.saying.get(subject).into_iter().flatten().map(String::as_str)
    }

    /// What the folder asks for by what has changed since somebody asked last, in the order in which it is to be done: releases before canaries
    /// that name them, and what ends before what begins in its place. A canary that is to be deprecated is wished again until it is
    /// [forgotten](Self::forget).
    pub fn ask(&mut self, look: Look) -> Vec<Wish> {
        let (mut releases, mut canaries) = (Vec::new(), Vec::new());
        for subject in mem::take(&mut self.touched) {
            steps::take(1);
            let Some(wish) = self.follow(&subject, look) else { continue };
            match subject {
                Subject::Release(_) => releases.push(wish),
                Subject::Canary(_) => canaries.push(wish),
            }
        }
        let gone = self.conclude(look);
        self.folder = Some(look.folder);
        if look.rest > Rest::None {
            self.read = self.folder;
        }
        releases.into_iter().chain(gone).chain(canaries).collect()
    }

    /// Takes note of what is said of a subject now. `None`: it is what was said before, or nothing is.
    fn follow(&mut self, subject: &Subject, look: Look) -> Option<Wish> {
        let Some((file, meaning)) = self.said(subject) else {
            if let Some(seen) = self.seen.get_mut(subject)
                && self.missing.insert(subject.clone())
            {
                seen.folder = self.folder;
            }
            return None;
        };
        let (file, meaning) = (file.to_owned(), meaning.clone());
        self.missing.remove(subject);
        let document = Some(Arc::clone(&meaning.document));
        let seen = Seen { file: file.clone(), document, folder: None };
        let before = self.seen.insert(subject.clone(), seen).and_then(|before| before.document);
        // In a folder that takes the place of another one, what says something else than it did is news, too.
        let is_news = before.is_some() || self.read == Some(look.folder);
        (before.as_ref() != Some(&meaning.document)).then_some(Wish::Submit { file, meaning, is_news })
    }

    /// Concludes which of the canaries that are missing are to be deprecated. Releases that are gone are forgotten.
    fn conclude(&mut self, look: Look) -> Vec<Wish> {
        let mut gone = Vec::new();
        for subject in self.missing.clone() {
            steps::take(1);
            let Some(seen) = self.seen.get(&subject) else { continue };
            let (file, is_gone) = (seen.file.clone(), self.is_gone(seen, look));
            if !is_gone {
                // A file that is there can't be understood, and may still be about it.
                if self.files.contains_key(&file)
                    && let Some(seen) = self.seen.get_mut(&subject)
                {
                    seen.folder = Some(look.folder);
                }
                continue;
            }
            match subject {
                Subject::Canary(canary) => gone.push(Wish::Deprecate { canary, file }),
                Subject::Release(_) => self.forget(&subject),
            }
        }
        gone
    }

    /// Whether what no manifest says any more is no longer said, as far as can be concluded.
    fn is_gone(&self, seen: &Seen, look: Look) -> bool {
        let may_stand_there = self.files.get(&seen.file).is_some_and(Option::is_none);
        let is_here = seen.folder == Some(look.folder) || self.has_manifest();
        look.rest == Rest::Long && is_here && !may_stand_there
    }

    fn has_manifest(&self) -> bool {
        !self.saying.is_empty()
    }

    /// Forgets what is missing, once all is done that follows from that.
    pub fn forget(&mut self, subject: &Subject) {
        if self.missing.remove(subject) {
            self.seen.remove(subject);
            self.forgotten.push(subject.clone());
        }
    }

    /// What was forgotten since this was called last.
    pub fn take_forgotten(&mut self) -> Vec<Subject> {
        mem::take(&mut self.forgotten)
    }

    /// Canaries that would be deprecated if the folder had a manifest, and their files.
    #[must_use]
    pub fn in_doubt(&self, look: Look) -> Vec<(&str, &str)> {
        if self.has_manifest() || look.rest < Rest::Long {
            return Vec::new();
        }
        let canaries = self.missing.iter().filter(|subject| matches!(subject, Subject::Canary(_)));
        let missing = canaries.filter_map(|subject| Some((subject, self.seen.get(subject)?)));
        let in_doubt = missing.filter(|(_, seen)| !self.is_gone(seen, look));
        in_doubt.map(|(subject, seen)| (subject.name(), seen.file.as_str())).collect()
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Submit {
        file: String,
        meaning: Meaning,
        /// Whether it was written just now. Else it was there when the folder was first read, and may be older than what others have
        /// done since.
        is_news: bool,
    },
    Deprecate {
        canary: String,
        /// From which it came.
        file: String,
    },
}
