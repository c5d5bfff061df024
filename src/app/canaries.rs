//! A folder of manifests, which is watched: what changes in it is done.
//!
//! ```text
//! inotify ─▶ changes ─▶ pending: was it quiet for a while? ─▶ read ─┐
//! each 30 s ─▶ look: which stamps are others? ─────────▲            ├─▶ folder::differ ─▶ wishes ─▶ Manifests
//!                                                                   │
//!                                  which files aren't there? ───────┘
//! ```
//!
//! Invariants:
//! - a file is read when it has changed, and else never again: a look compares stamps, and asks the engine nothing;
//! - what was done for a file is done again only when it says something else, or when it wasn't possible yet;
//! - a file counts as gone when a look that could read the whole folder hasn't found it, a while after it was missed first;
//! - what has changed is noticed before anything is concluded.
//!
//! What is kept is in the releases themselves: which file each came from. All else is found again at a start.
//!
//! Not here: what follows from a change ([`canary_releases::folder`]), and what manifests ask for ([`Manifests`]).

mod changes;
mod disk;

use std::{collections::BTreeMap, future::pending, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use tokio::{
    select,
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    changes::{Change, Changes},
    disk::{Content, Listed, Place, Stamp},
};
use canary_releases::{
    Document,
    folder::{Listing, Rest, Seen, Subject, Wish, differ},
};
use http_api::v1::canary_folder::{Manifests, Outcome};
use protocol::canary_releases::{CanaryFile, CanaryFileState, CanaryFolder};

/// A file is read, and one that is gone is missed, when nothing has happened to it for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Whoever fills a folder puts the next file there before so long.
const CALM: Duration = Duration::from_secs(2);

/// Between two looks at the whole folder. After so long without a write a file that is still open counts as well.
const LOOK: Duration = Duration::from_secs(30);

/// The same while something is wrong with the folder.
const LOOK_AWAY: Duration = Duration::from_secs(1);

/// The first and the longest pause before something is tried again.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_LAST: Duration = Duration::from_secs(30);

/// Most that is done, and most that is tried again, before changes are looked for.
const MAX_AT_ONCE: usize = 16;

/// Releases that are registered at once. Canaries are submitted one after the other, so that of two of one release the first is created.
const AT_ONCE: usize = 8;

/// Watches a folder until it is told to stop.
pub(super) async fn run(folder: PathBuf, manifests: Manifests, stop: CancellationToken) {
    stop.run_until_cancelled(Folder::new(folder, manifests).watch()).await;
}

/// A file that has changed.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// When it is to be read.
    due: Instant,
    /// What it was when that was decided, where no event will tell of a later change.
    stamp: Option<Stamp>,
}

/// A file as it was read.
#[derive(Debug)]
struct Known {
    /// `None`: it could not be, and is tried again.
    stamp: Option<Stamp>,
    said: Result<Arc<Document>, String>,
}

/// What has become of what was said of a subject.
#[derive(Debug)]
struct Attempt {
    outcome: Outcome,
    is_news: bool,
    /// False: its turn is still to come.
    is_tried: bool,
    /// If it waits, when it is tried again.
    again: Instant,
    pause: Duration,
}

struct Folder {
    path: PathBuf,
    manifests: Manifests,
    /// `None`: the folder can't be read.
    changes: Option<Changes>,
    place: Option<Place>,
    /// Folders that were found under the path so far.
    number: u64,
    files: BTreeMap<String, Known>,
    pending: BTreeMap<String, Pending>,
    /// Files that were not there any more, and when that is to be confirmed.
    missed: BTreeMap<String, Instant>,
    /// When something has happened last.
    changed_at: Instant,
    look_at: Instant,
    seen: Seen,
    tried: BTreeMap<Subject, Attempt>,
    /// When canaries that could not be deprecated are tried again.
    deprecate_at: Option<Instant>,
    fault: Option<String>,
    files_read: u64,
    shown: Arc<CanaryFolder>,
}

impl Folder {
    fn new(path: PathBuf, manifests: Manifests) -> Self {
        let now = Instant::now();
        Self {
            path,
            manifests,
            changes: None,
            place: None,
            number: 0,
            files: BTreeMap::new(),
            pending: BTreeMap::new(),
            missed: BTreeMap::new(),
            changed_at: now,
            look_at: now,
            seen: Seen::default(),
            tried: BTreeMap::new(),
            deprecate_at: None,
            fault: None,
            files_read: 0,
            shown: Arc::default(),
        }
    }

    async fn watch(mut self) {
        self.seen = loop {
            match self.manifests.under_way().await {
                Ok(canaries) => break Seen::left(canaries),
                Err(why) => tracing::warn!(why, "the folder of manifests is not read yet"),
            }
            sleep(AGAIN).await;
        };
        loop {
            if let Some(told) = self.changes.as_ref().map(Changes::take) {
                self.notice(told);
            }
            if self.next_look() <= Instant::now() {
                self.look().await;
            }
            self.read().await;
            // What happened while files were looked at comes before what is concluded from them.
            if let Some(told) = self.changes.as_ref().map(Changes::take) {
                self.notice(told);
            }
            self.act().await;
            self.show();
            let due = self.due();
            let told = select! {
                told = happens(self.changes.as_ref()) => told,
                () = sleep_until(due) => Ok(()),
            };
            if told.is_err() {
                self.lose(LOOK_AWAY);
            }
        }
    }

    /// When there is something to do, if nothing happens before.
    fn due(&self) -> Instant {
        let now = Instant::now();
        let rests = [QUIET, CALM].map(|rest| self.changed_at + rest).into_iter().filter(|at| *at > now);
        let pending = self.pending.values().map(|pending| pending.due);
        let tried = self.tried.values().filter(|tried| matches!(tried.outcome, Outcome::Waiting(_)));
        let again = tried.map(|tried| tried.again).chain(self.deprecate_at);
        rests.chain(pending).chain(again).fold(self.next_look(), Instant::min)
    }

    fn next_look(&self) -> Instant {
        self.missed.values().copied().fold(self.look_at, Instant::min)
    }

    fn notice(&mut self, told: io::Result<Vec<Change>>) {
        let now = Instant::now();
        let Ok(told) = told else { return self.lose(LOOK_AWAY) };
        for change in told {
            self.changed_at = now;
            match change {
                Change::Placed(file) => self.expect(file, now),
                Change::Written(file) => self.expect(file, now + QUIET),
                Change::Writing(file) => self.expect(file, now + LOOK),
                Change::Gone(file) => {
                    self.pending.remove(&file);
                    self.miss(file, now + QUIET);
                }
                Change::Anything => self.look_at = now,
                Change::Away => self.lose(Duration::ZERO),
            }
        }
    }

    /// Nothing is told any more of what happens in the folder. It is looked at again after so long.
    fn lose(&mut self, pause: Duration) {
        (self.changes, self.look_at) = (None, Instant::now() + pause);
    }

    /// A file is to be read.
    fn expect(&mut self, file: String, due: Instant) {
        self.missed.remove(&file);
        self.pending.insert(file, Pending { due, stamp: None });
    }

    /// A file isn't there, which is to be confirmed then.
    fn miss(&mut self, file: String, confirmed_at: Instant) {
        if self.files.contains_key(&file) {
            let at = self.missed.entry(file).or_insert(confirmed_at);
            *at = confirmed_at.min(*at);
        }
    }

    /// Looks which files are there, and which have changed.
    async fn look(&mut self) {
        let began = Instant::now();
        match self.list().await {
            Ok(listed) => {
                (self.fault, self.look_at) = (None, began + LOOK);
                self.compare(listed.files, began);
            }
            Err(error) => {
                let path = self.path.display();
                self.fault =
                    Some(format!("{path} can't be watched, and nothing in it is done meanwhile: {error}"));
                self.lose(LOOK_AWAY);
                self.pending.clear();
                self.missed.clear();
            }
        }
    }

    async fn list(&mut self) -> io::Result<Listed> {
        if self.changes.is_some() {
            let listed = self.listed().await?;
            if self.place == Some(listed.place) {
                return Ok(listed);
            }
        }
        // Before it is looked at, so that no change falls between the two.
        self.changes = Some(Changes::of(&self.path)?);
        let listed = self.listed().await?;
        self.place = Some(listed.place);
        self.number += 1;
        self.pending.clear();
        self.missed.clear();
        self.files.retain(|file, _| listed.files.contains_key(file));
        self.changed_at = Instant::now();
        Ok(listed)
    }

    async fn listed(&self) -> io::Result<Listed> {
        let path = self.path.clone();
        spawn_blocking(move || disk::list(&path)).await?
    }

    /// `now`: when the look began.
    fn compare(&mut self, listed: BTreeMap<String, Result<Stamp, String>>, now: Instant) {
        let missing: Vec<String> =
            self.files.keys().filter(|file| !listed.contains_key(*file)).cloned().collect();
        for file in missing {
            if self.missed.get(&file).is_some_and(|at| *at <= now) {
                self.files.remove(&file);
            } else {
                // Where nobody tells of changes, a folder may look older than it is for so long.
                self.miss(file, now + LOOK);
            }
        }
        self.missed.retain(|file, _| self.files.contains_key(file) && !listed.contains_key(file));
        for (file, stamp) in listed {
            let known = self.files.get(&file).and_then(|known| known.stamp);
            match stamp {
                Ok(stamp) if known == Some(stamp) || self.pending.contains_key(&file) => {}
                Ok(stamp) => {
                    self.pending.insert(file, Pending { due: now + QUIET, stamp: Some(stamp) });
                    self.changed_at = now;
                }
                Err(why) => drop(self.files.insert(file, Known { stamp: None, said: Err(why) })),
            }
        }
    }

    /// Reads the files whose turn it is.
    async fn read(&mut self) {
        let now = Instant::now();
        let due = self.pending.iter().filter(|(_, pending)| pending.due <= now);
        let due: Vec<(String, Option<Stamp>)> =
            due.map(|(file, pending)| (file.clone(), pending.stamp)).collect();
        if due.is_empty() {
            return;
        }
        for (file, _) in &due {
            self.pending.remove(file);
        }
        let path = self.path.clone();
        let read = spawn_blocking(move || {
            let read = due.into_iter().map(|(file, was)| {
                let content = disk::read(&path, &file, was);
                (file, content)
            });
            read.collect::<Vec<_>>()
        });
        let now = Instant::now();
        // Whatever is not read now has another stamp at the next look.
        for (file, content) in read.await.unwrap_or_default() {
            match content {
                Content::Gone => self.miss(file, now + LOOK),
                Content::Changing(stamp) => {
                    self.pending.insert(file, Pending { due: now + QUIET, stamp: Some(stamp) });
                }
                Content::Read { stamp, said } => {
                    self.files_read += 1;
                    self.files.insert(file, Known { stamp, said });
                }
            }
            self.changed_at = now;
        }
    }

    fn listing(&self) -> Listing {
        let files = self.files.iter().map(|(file, known)| (file.clone(), known.said.as_ref().ok().cloned()));
        let quiet = Instant::now().saturating_duration_since(self.changed_at);
        let is_read = self.files.values().all(|known| known.stamp.is_some());
        let is_known = self.changes.is_some() && self.pending.is_empty() && self.missed.is_empty() && is_read;
        let rest = if !is_known || quiet < QUIET {
            Rest::None
        } else if quiet < CALM {
            Rest::Short
        } else {
            Rest::Long
        };
        Listing { files: files.collect(), folder: self.number, rest }
    }

    /// Does what has changed asks for, and what was not possible before.
    async fn act(&mut self) {
        let listing = self.listing();
        let mut wishes = differ(&self.seen, &listing);
        let mut after = self.seen.after(&listing);
        self.deprecate_at = None;
        if !wishes.is_empty() {
            self.hurry(&wishes);
        }
        let later = wishes.split_off(wishes.len().min(MAX_AT_ONCE));
        self.put_off(later, &mut after);
        wishes.extend(self.again(&listing));
        let (releases, others): (Vec<Wish>, Vec<Wish>) = wishes.into_iter().partition(registers);
        for (wishes, at_once) in [(releases, AT_ONCE), (others, 1)] {
            let doing: Vec<_> = wishes.into_iter().map(|wish| carry_out(&self.manifests, wish)).collect();
            let done: Vec<(Wish, Outcome)> = stream::iter(doing).buffer_unordered(at_once).collect().await;
            for (wish, outcome) in done {
                match wish {
                    Wish::Submit { document, is_news, .. } => {
                        self.note(Subject::of(&document), outcome, is_news);
                    }
                    Wish::Deprecate { canary, file } => {
                        if let Outcome::Waiting(why) | Outcome::Refused(why) = outcome {
                            tracing::warn!(
                                release = canary,
                                file,
                                why,
                                "its file is gone, and it is not deprecated yet"
                            );
                            after.keep(&canary, &self.seen);
                            self.deprecate_at = Some(Instant::now() + AGAIN);
                        }
                    }
                }
            }
        }
        self.seen = after;
        self.tried.retain(|subject, _| self.seen.has(subject));
    }

    /// What is submitted now isn't what was tried before; and others may have waited for it.
    fn hurry(&mut self, wishes: &[Wish]) {
        for wish in wishes {
            if let Wish::Submit { document, .. } = wish {
                self.tried.remove(&Subject::of(document));
            }
        }
        let soon = Instant::now() + AGAIN;
        for tried in self.tried.values_mut() {
            (tried.again, tried.pause) = (tried.again.min(soon), AGAIN);
        }
    }

    /// Some of what waits, and is to be tried again.
    fn again(&mut self, listing: &Listing) -> Vec<Wish> {
        let now = Instant::now();
        let said = listing.said();
        let waiting = self.tried.iter_mut().filter(|(_, tried)| matches!(tried.outcome, Outcome::Waiting(_)));
        let due = waiting.filter(|(_, tried)| tried.again <= now).take(MAX_AT_ONCE);
        let wishes = due.filter_map(|(subject, tried)| {
            tried.pause = (tried.pause * 2).min(AGAIN_AT_LAST);
            tried.again = now + tried.pause;
            let (file, document) = said.get(subject)?;
            let (file, document) = ((*file).to_owned(), Arc::clone(document));
            // Somebody may have registered a release otherwise while this waited.
            let may_be_old = tried.is_tried && matches!(subject, Subject::Release(_));
            Some(Wish::Submit { file, document, is_news: tried.is_news && !may_be_old })
        });
        wishes.collect()
    }

    fn note(&mut self, subject: Subject, outcome: Outcome, is_news: bool) {
        let again = Instant::now() + AGAIN;
        let first = || Attempt { outcome: Outcome::Applied, is_news, is_tried: true, again, pause: AGAIN };
        let tried = self.tried.entry(subject).or_insert_with(first);
        (tried.outcome, tried.is_tried) = (outcome, true);
    }

    /// Puts off what is more than is done at once.
    fn put_off(&mut self, wishes: Vec<Wish>, after: &mut Seen) {
        let now = Instant::now();
        for wish in wishes {
            match wish {
                Wish::Submit { document, is_news, .. } => {
                    let outcome = Outcome::Waiting("its turn comes soon".to_owned());
                    let tried = Attempt { outcome, is_news, is_tried: false, again: now, pause: AGAIN };
                    self.tried.insert(Subject::of(&document), tried);
                }
                Wish::Deprecate { canary, .. } => {
                    after.keep(&canary, &self.seen);
                    self.deprecate_at = Some(now);
                }
            }
        }
    }

    /// Shows the folder as it is now, and logs what has gone wrong or right since.
    fn show(&mut self) {
        let listing = self.listing();
        let doubted = self.seen.in_doubt(&listing);
        if let Some((canary, file)) = doubted.first() {
            let (path, more) = (self.path.display(), doubted.len() - 1);
            let others = if more == 0 { String::new() } else { format!(", and {more} more from others") };
            self.fault = Some(format!(
                "{path} has no manifest, though {canary} came from {file} in it{others}: so looks a folder that isn't mounted, and nothing \
                 is deprecated. Deprecate by hand what is to be, or put any manifest there"
            ));
            self.look_at = self.look_at.min(Instant::now() + LOOK_AWAY);
        }
        let said = listing.said();
        let mut files: BTreeMap<&str, CanaryFile> = BTreeMap::new();
        let unread = self.pending.keys().filter(|file| !self.files.contains_key(*file));
        files.extend(unread.map(|file| (file.as_str(), shown(file, None, CanaryFileState::Waiting, None))));
        files.extend(self.files.iter().map(|(file, known)| (file.as_str(), self.file(file, known, &said))));
        let now = Arc::new(CanaryFolder {
            folder: Some(self.path.display().to_string()),
            fault: self.fault.clone(),
            files_read: self.files_read,
            files: files.into_values().collect(),
            next: None,
        });
        if now != self.shown {
            tell(&self.shown, &now);
            self.manifests.show(Arc::clone(&now));
            self.shown = now;
        }
    }

    fn file(
        &self,
        file: &str,
        known: &Known,
        said: &BTreeMap<Subject, (&str, &Arc<Document>)>,
    ) -> CanaryFile {
        let document = match &known.said {
            Ok(document) => document,
            Err(why) => return shown(file, None, CanaryFileState::Faulty, Some(why.clone())),
        };
        let subject = Subject::of(document);
        let first = said.get(&subject).map_or(file, |(first, _)| *first);
        let (state, why) = match self.tried.get(&subject).map(|tried| &tried.outcome) {
            // One that was missed may have this name from now on.
            _ if first != file && !self.missed.contains_key(first) => {
                let (kind, name) = (subject.kind(), subject.name());
                let why =
                    format!("{kind} {name} stands in {first}, too, and that counts: remove one of the two");
                (CanaryFileState::Faulty, Some(why))
            }
            Some(Outcome::Applied) => (CanaryFileState::Applied, None),
            Some(Outcome::Waiting(why)) => (CanaryFileState::Waiting, Some(why.clone())),
            Some(Outcome::Refused(why)) => (CanaryFileState::Faulty, Some(why.clone())),
            None => (CanaryFileState::Waiting, None),
        };
        shown(file, Some(&subject), state, why)
    }
}

fn shown(file: &str, subject: Option<&Subject>, state: CanaryFileState, fault: Option<String>) -> CanaryFile {
    CanaryFile {
        file: file.to_owned(),
        kind: subject.map(|subject| subject.kind().to_owned()),
        id: subject.map(|subject| subject.name().to_owned()),
        state,
        fault,
    }
}

/// Waits until something may have happened.
async fn happens(changes: Option<&Changes>) -> io::Result<()> {
    match changes {
        Some(changes) => changes.wait().await,
        None => pending().await,
    }
}

fn carry_out(manifests: &Manifests, wish: Wish) -> BoxFuture<'static, (Wish, Outcome)> {
    let doing = match &wish {
        Wish::Submit { file, document, is_news } => {
            manifests.submit(file.clone(), Arc::clone(document), *is_news)
        }
        Wish::Deprecate { canary, file } => manifests.deprecate(canary.clone(), file.clone()),
    };
    Box::pin(async move { (wish, doing.await) })
}

fn registers(wish: &Wish) -> bool {
    matches!(wish, Wish::Submit { document, .. } if matches!(**document, Document::Release(_)))
}

/// Logs what is wrong and wasn't, or was something else, and what isn't any more.
fn tell(before: &CanaryFolder, now: &CanaryFolder) {
    match (&before.fault, &now.fault) {
        (was, Some(why)) if was.as_ref() != Some(why) => tracing::warn!(why, "the folder of manifests"),
        (Some(_), None) => tracing::info!("the folder of manifests is read again"),
        _ => {}
    }
    let known: BTreeMap<&str, &CanaryFile> =
        before.files.iter().map(|file| (file.file.as_str(), file)).collect();
    for CanaryFile { file, state, fault, .. } in &now.files {
        let was = known.get(file.as_str()).and_then(|before| before.fault.as_ref());
        match fault {
            Some(why) if was != Some(why) => tracing::warn!(file, why, "a manifest is not applied"),
            None if was.is_some() && *state == CanaryFileState::Applied => {
                tracing::info!(file, "a manifest is applied");
            }
            _ => {}
        }
    }
}
