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
//! Not here: how a folder is read, when it is, and what becomes of a wish.

use std::{collections::BTreeMap, sync::Arc};

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
    #[must_use]
    pub fn of(document: &Document) -> Self {
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

/// A folder as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// What its manifests say, by their files; `None`: nothing that can be understood.
    pub files: BTreeMap<String, Option<Arc<Document>>>,
    /// Another number: under this path is another folder.
    pub folder: u64,
    pub rest: Rest,
}

impl Listing {
    fn has_manifest(&self) -> bool {
        self.files.values().any(Option::is_some)
    }

    /// What is said of each subject, and by which file: the first of several.
    #[must_use]
    pub fn said(&self) -> BTreeMap<Subject, (&str, &Arc<Document>)> {
        let mut said = BTreeMap::new();
        for (file, document) in &self.files {
            if let Some(document) = document {
                said.entry(Subject::of(document)).or_insert((file.as_str(), document));
            }
        }
        said
    }
}

/// What was said of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    file: String,
    /// `None`: what an earlier process has read.
    document: Option<Arc<Document>>,
    /// Where the file was; `None`: what an earlier process knew.
    folder: Option<u64>,
}

/// What a folder has said so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    said: BTreeMap<Subject, Said>,
    /// The folder that was read as a whole. What is found in it from then on has happened just now.
    read: Option<u64>,
}

impl Seen {
    /// What an earlier process has left: canaries that are under way, and the files from which they came.
    pub fn left(canaries: impl IntoIterator<Item = (String, String)>) -> Self {
        let said = canaries
            .into_iter()
            .map(|(canary, file)| (Subject::Canary(canary), Said { file, document: None, folder: None }));
        Self { said: said.collect(), read: None }
    }

    /// With what is said now, once all that [`differ`] wishes was tried.
    #[must_use]
    pub fn after(&self, now: &Listing) -> Self {
        let said = now.said().into_iter().map(|(subject, (file, document))| {
            let document = Some(Arc::clone(document));
            (subject, Said { file: file.to_owned(), document, folder: Some(now.folder) })
        });
        let mut said: BTreeMap<Subject, Said> = said.collect();
        for (subject, before) in &self.said {
            if !said.contains_key(subject) && !is_gone(before, now) {
                let is_here = now.files.contains_key(&before.file);
                let folder = if is_here { Some(now.folder) } else { before.folder };
                said.insert(subject.clone(), Said { folder, ..before.clone() });
            }
        }
        let read = if now.rest > Rest::None { Some(now.folder) } else { self.read };
        Self { said, read }
    }

    /// Goes on with a canary that could not be deprecated yet, as it was known before.
    pub fn keep(&mut self, canary: &str, before: &Self) {
        let subject = Subject::Canary(canary.to_owned());
        if let Some(said) = before.said.get(&subject) {
            self.said.insert(subject, said.clone());
        }
    }

    #[must_use]
    pub fn has(&self, subject: &Subject) -> bool {
        self.said.contains_key(subject)
    }

    /// Canaries that would be deprecated if the folder had a manifest, and their files.
    #[must_use]
    pub fn in_doubt(&self, now: &Listing) -> Vec<(&str, &str)> {
        if now.has_manifest() || now.rest < Rest::Long {
            return Vec::new();
        }
        let canaries = self.said.iter().filter(|(subject, _)| matches!(subject, Subject::Canary(_)));
        let missing = canaries.filter(|(_, said)| !is_gone(said, now));
        missing.map(|(subject, said)| (subject.name(), said.file.as_str())).collect()
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Submit {
        file: String,
        document: Arc<Document>,
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

/// What a folder asks for by what has changed, in the order in which it is to be done: releases before canaries that name them, and what
/// ends before what begins in its place.
#[must_use]
pub fn differ(before: &Seen, now: &Listing) -> Vec<Wish> {
    let said = now.said();
    let is_new = |subject: &Subject, document: &Arc<Document>| {
        before.said.get(subject).and_then(|known| known.document.as_ref()) != Some(document)
    };
    let submitted = said.iter().filter(|(subject, (_, document))| is_new(subject, document));
    let submit = |(subject, (file, document)): (&Subject, &(&str, &Arc<Document>))| {
        // In a folder that takes the place of another one, what says something else than it did is news, too.
        let is_changed = before.said.get(subject).is_some_and(|known| known.document.is_some());
        Wish::Submit {
            file: (*file).to_owned(),
            document: Arc::clone(document),
            is_news: is_changed || before.read == Some(now.folder),
        }
    };
    let (releases, canaries): (Vec<_>, Vec<_>) =
        submitted.partition(|(subject, _)| matches!(subject, Subject::Release(_)));
    let missing =
        before.said.iter().filter(|(subject, known)| !said.contains_key(*subject) && is_gone(known, now));
    let deprecated = missing.filter_map(|(subject, known)| match subject {
        Subject::Canary(canary) => Some(Wish::Deprecate { canary: canary.clone(), file: known.file.clone() }),
        Subject::Release(_) => None,
    });
    releases.into_iter().map(submit).chain(deprecated).chain(canaries.into_iter().map(submit)).collect()
}

/// Whether what no manifest says any more is no longer said, as far as can be concluded.
fn is_gone(said: &Said, now: &Listing) -> bool {
    let may_stand_there = now.files.get(&said.file).is_some_and(Option::is_none);
    let is_here = said.folder == Some(now.folder) || now.has_manifest();
    now.rest == Rest::Long && is_here && !may_stand_there
}
