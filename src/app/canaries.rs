//! A folder of manifests, which is watched: what changes in it is done.
//!
//! ```text
//! inotify ─▶ changes ─▶ pending: was it quiet for a while? ─▶ read ─┐
//! each 30 s ─▶ look: which stamps are others? ─────────▲            ├─▶ folder::Contents ─▶ wishes ─▶ Manifests
//!                                                                   │
//!                                  which files aren't there? ───────┘
//! ```
//!
//! Invariants:
//! - a file is read and understood when it has changed, and else never again: a look compares stamps, and asks the engine nothing;
//! - between two looks, what one file brings about costs what one file does;
//! - what was done for a file is done again only when it says something else, or when it wasn't possible yet;
//! - a file counts as gone when a look that could read the whole folder hasn't found it, a while after it was missed first;
//! - what has changed is noticed before anything is concluded.
//!
//! What is kept is in the releases themselves: which file each came from. All else is found again at a start.
//!
//! Not here: what follows from a change ([`canary_releases::folder`]), and what manifests ask for ([`Manifests`]).

mod changes;
mod disk;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    io, mem,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

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
use canary_releases::folder::{Contents, Look, Meaning, Rest, Subject, Wish};
use http_api::v1::canary_folder::{Manifests, Outcome};
use protocol::canary_releases::{CanaryFile, CanaryFileState};

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
    /// Why it can't be understood.
    fault: Option<String>,
}

/// Something that is tried again.
#[derive(Debug)]
struct Retry {
    is_news: bool,
    /// False: its turn is still to come.
    is_tried: bool,
    at: Instant,
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
    /// Those that could not be read.
    unread: BTreeSet<String>,
    contents: Contents,
    pending: BTreeMap<String, Pending>,
    /// Files that were not there any more, and when that is to be confirmed.
    missed: BTreeMap<String, Instant>,
    /// When something has happened last.
    changed_at: Instant,
    look_at: Instant,
    /// What has become of what is said of a subject.
    tried: BTreeMap<Subject, Outcome>,
    /// Of those that wait, when they are tried again.
    retries: BTreeMap<Subject, Retry>,
    /// When canaries that could not be deprecated are tried again.
    deprecate_at: Option<Instant>,
    fault: Option<String>,
    files_read: u64,
    /// Files that may have to be shown otherwise than they are.
    touched: BTreeSet<String>,
    shown: BTreeMap<String, CanaryFile>,
    /// What is shown of the folder itself: its fault, and the files that were read; `None`: nothing yet.
    head: Option<(Option<String>, u64)>,
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
            unread: BTreeSet::new(),
            contents: Contents::default(),
            pending: BTreeMap::new(),
            missed: BTreeMap::new(),
            changed_at: now,
            look_at: now,
            tried: BTreeMap::new(),
            retries: BTreeMap::new(),
            deprecate_at: None,
            fault: None,
            files_read: 0,
            touched: BTreeSet::new(),
            shown: BTreeMap::new(),
            head: None,
        }
    }

    async fn watch(mut self) {
        self.contents = loop {
            match self.manifests.under_way().await {
                Ok(canaries) => break Contents::left_with(canaries),
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
        let again = self.retries.values().map(|retry| retry.at).chain(self.deprecate_at);
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
                    self.touch(&file);
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

    /// A file may have to be shown otherwise, and so may all that say something of the same.
    fn touch(&mut self, file: &str) {
        if let Some(Meaning { subject, .. }) = self.contents.meaning(file) {
            self.touched.extend(self.contents.files_of(subject).map(str::to_owned));
        }
        self.touched.insert(file.to_owned());
    }

    /// A file is to be read.
    fn expect(&mut self, file: String, due: Instant) {
        self.missed.remove(&file);
        self.expect_as(file, Pending { due, stamp: None });
    }

    fn expect_as(&mut self, file: String, pending: Pending) {
        self.touch(&file);
        self.pending.insert(file, pending);
    }

    /// Nothing is expected or missed any more.
    fn expect_nothing(&mut self) {
        let (pending, missed) = (mem::take(&mut self.pending), mem::take(&mut self.missed));
        for file in pending.into_keys().chain(missed.into_keys()) {
            self.touch(&file);
        }
    }

    /// A file says this. Without a stamp it could not be read.
    fn keep(&mut self, file: String, stamp: Option<Stamp>, said: Result<Meaning, String>) {
        let (meaning, fault) = match said {
            Ok(meaning) => (Some(meaning), None),
            Err(why) => (None, Some(why)),
        };
        // Others may have said the same as it did, or say the same as it does.
        self.touch(&file);
        self.contents.put(&file, meaning);
        self.touch(&file);
        if stamp.is_some() {
            self.unread.remove(&file);
        } else {
            self.unread.insert(file.clone());
        }
        self.files.insert(file, Known { stamp, fault });
    }

    /// A file isn't there any more.
    fn let_go(&mut self, file: &str) {
        self.touch(file);
        self.contents.remove(file);
        self.unread.remove(file);
        self.files.remove(file);
    }

    /// A file isn't there, which is to be confirmed then.
    fn miss(&mut self, file: String, confirmed_at: Instant) {
        if self.files.contains_key(&file) {
            self.touch(&file);
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
                self.expect_nothing();
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
        self.expect_nothing();
        for file in self.unlisted(&listed.files) {
            self.let_go(&file);
        }
        self.changed_at = Instant::now();
        Ok(listed)
    }

    async fn listed(&self) -> io::Result<Listed> {
        let path = self.path.clone();
        spawn_blocking(move || disk::list(&path)).await?
    }

    /// Files that were there.
    fn unlisted(&self, listed: &BTreeMap<String, Result<Stamp, String>>) -> Vec<String> {
        self.files.keys().filter(|file| !listed.contains_key(*file)).cloned().collect()
    }

    /// `now`: when the look began.
    fn compare(&mut self, listed: BTreeMap<String, Result<Stamp, String>>, now: Instant) {
        for file in self.unlisted(&listed) {
            if self.missed.get(&file).is_some_and(|at| *at <= now) {
                self.let_go(&file);
            } else {
                // Where nobody tells of changes, a folder may look older than it is for so long.
                self.miss(file, now + LOOK);
            }
        }
        let is_missed = |file: &String| self.files.contains_key(file) && !listed.contains_key(file);
        let found: Vec<String> = self.missed.keys().filter(|file| !is_missed(file)).cloned().collect();
        for file in found {
            self.missed.remove(&file);
            self.touch(&file);
        }
        for (file, stamp) in listed {
            let known = self.files.get(&file).and_then(|known| known.stamp);
            match stamp {
                Ok(stamp) if known == Some(stamp) || self.pending.contains_key(&file) => {}
                Ok(stamp) => {
                    self.expect_as(file, Pending { due: now + QUIET, stamp: Some(stamp) });
                    self.changed_at = now;
                }
                Err(why) => self.keep(file, None, Err(why)),
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
            self.touch(file);
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
                    self.expect_as(file, Pending { due: now + QUIET, stamp: Some(stamp) });
                }
                Content::Read { stamp, said } => {
                    self.files_read += 1;
                    self.keep(file, stamp, said);
                }
            }
            self.changed_at = now;
        }
    }

    /// How the folder is, as far as what can be concluded depends on that.
    fn rests(&self) -> Look {
        let quiet = Instant::now().saturating_duration_since(self.changed_at);
        let is_known = self.pending.is_empty() && self.missed.is_empty() && self.unread.is_empty();
        let rest = if self.changes.is_none() || !is_known || quiet < QUIET {
            Rest::None
        } else if quiet < CALM {
            Rest::Short
        } else {
            Rest::Long
        };
        Look { folder: self.number, rest }
    }

    /// Does what has changed asks for, and what was not possible before.
    async fn act(&mut self) {
        let look = self.rests();
        let mut wishes = self.contents.ask(look);
        self.deprecate_at = None;
        if !wishes.is_empty() {
            self.hurry(&wishes);
        }
        let later = wishes.split_off(wishes.len().min(MAX_AT_ONCE));
        self.put_off(later);
        wishes.extend(self.again());
        let (releases, others): (Vec<Wish>, Vec<Wish>) = wishes.into_iter().partition(registers);
        for (wishes, at_once) in [(releases, AT_ONCE), (others, 1)] {
            let doing: Vec<_> = wishes.into_iter().map(|wish| carry_out(&self.manifests, wish)).collect();
            let done: Vec<(Wish, Outcome)> = stream::iter(doing).buffer_unordered(at_once).collect().await;
            for (wish, outcome) in done {
                match wish {
                    Wish::Submit { meaning, is_news, .. } => self.note(meaning.subject, outcome, is_news),
                    Wish::Deprecate { canary, file } => match outcome {
                        Outcome::Applied => self.contents.forget(&Subject::Canary(canary)),
                        Outcome::Waiting(why) | Outcome::Refused(why) => {
                            tracing::warn!(
                                release = canary,
                                file,
                                why,
                                "its file is gone, and it is not deprecated yet"
                            );
                            self.deprecate_at = Some(Instant::now() + AGAIN);
                        }
                    },
                }
            }
        }
        for subject in self.contents.take_forgotten() {
            self.tried.remove(&subject);
            self.retries.remove(&subject);
        }
    }

    /// What is submitted now isn't what was tried before; and others may have waited for it.
    fn hurry(&mut self, wishes: &[Wish]) {
        for wish in wishes {
            if let Wish::Submit { meaning: Meaning { subject, .. }, .. } = wish {
                self.tried.remove(subject);
                self.retries.remove(subject);
                self.touched.extend(self.contents.files_of(subject).map(str::to_owned));
            }
        }
        let soon = Instant::now() + AGAIN;
        for retry in self.retries.values_mut() {
            (retry.at, retry.pause) = (retry.at.min(soon), AGAIN);
        }
    }

    /// Some of what waits, and is to be tried again.
    fn again(&mut self) -> Vec<Wish> {
        let (now, contents) = (Instant::now(), &self.contents);
        let due = self.retries.iter_mut().filter(|(_, retry)| retry.at <= now).take(MAX_AT_ONCE);
        let wishes = due.filter_map(|(subject, retry)| {
            retry.pause = (retry.pause * 2).min(AGAIN_AT_LAST);
            retry.at = now + retry.pause;
            let (file, meaning) = contents.said(subject)?;
            // Somebody may have registered a release otherwise while this waited.
            let may_be_old = retry.is_tried && matches!(subject, Subject::Release(_));
            let is_news = retry.is_news && !may_be_old;
            Some(Wish::Submit { file: file.to_owned(), meaning: meaning.clone(), is_news })
        });
        wishes.collect()
    }

    /// Notes what has become of what is said of a subject.
    fn note(&mut self, subject: Subject, outcome: Outcome, is_news: bool) {
        if let Outcome::Waiting(_) = outcome {
            let at = Instant::now() + AGAIN;
            let first = || Retry { is_news, is_tried: true, at, pause: AGAIN };
            self.retries.entry(subject.clone()).or_insert_with(first).is_tried = true;
        } else {
            self.retries.remove(&subject);
        }
        self.touched.extend(self.contents.files_of(&subject).map(str::to_owned));
        self.tried.insert(subject, outcome);
    }

    /// Puts off what is more than is done at once.
    fn put_off(&mut self, wishes: Vec<Wish>) {
        let now = Instant::now();
        for wish in wishes {
            match wish {
                Wish::Submit { meaning: Meaning { subject, .. }, is_news, .. } => {
                    let outcome = Outcome::Waiting("its turn comes soon".to_owned());
                    self.note(subject.clone(), outcome, is_news);
                    let retry = Retry { is_news, is_tried: false, at: now, pause: AGAIN };
                    self.retries.insert(subject, retry);
                }
                // It is wished again.
                Wish::Deprecate { .. } => self.deprecate_at = Some(now),
            }
        }
    }

    /// Shows the folder as it is now, and logs what has gone wrong or right since.
    fn show(&mut self) {
        let doubted = self.contents.in_doubt(self.rests());
        if let Some((canary, file)) = doubted.first() {
            let (path, more) = (self.path.display(), doubted.len() - 1);
            let others = if more == 0 { String::new() } else { format!(", and {more} more from others") };
            self.fault = Some(format!(
                "{path} has no manifest, though {canary} came from {file} in it{others}: so looks a folder that isn't mounted, and nothing \
                 is deprecated. Deprecate by hand what is to be, or put any manifest there"
            ));
            self.look_at = self.look_at.min(Instant::now() + LOOK_AWAY);
        }
        let mut changed = Vec::new();
        for file in mem::take(&mut self.touched) {
            let now = self.file(&file);
            let was = match &now {
                Some(now) => self.shown.insert(file.clone(), now.clone()),
                None => self.shown.remove(&file),
            };
            if was != now {
                tell(was.as_ref(), now.as_ref());
                changed.push((file, now));
            }
        }
        let head = Some((self.fault.clone(), self.files_read));
        if changed.is_empty() && head == self.head {
            return;
        }
        tell_fault(self.head.as_ref().and_then(|(was, _)| was.as_ref()), self.fault.as_ref());
        self.head = head;
        self.manifests.show(|folder| {
            folder.folder = Some(self.path.display().to_string());
            folder.fault.clone_from(&self.fault);
            folder.files_read = self.files_read;
            for (file, now) in changed {
                place(&mut folder.files, &file, now);
            }
        });
    }

    /// How a file is shown; `None`: it isn't there.
    fn file(&self, file: &str) -> Option<CanaryFile> {
        let Some(known) = self.files.get(file) else {
            return self.pending.get(file).map(|_| shown(file, None, CanaryFileState::Waiting, None));
        };
        let Some(Meaning { subject, .. }) = self.contents.meaning(file) else {
            return Some(shown(file, None, CanaryFileState::Faulty, known.fault.clone()));
        };
        let first = self.contents.said(subject).map_or(file, |(first, _)| first);
        let (state, why) = match self.tried.get(subject) {
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
        Some(shown(file, Some(subject), state, why))
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

/// Puts a file among those that are shown, by their names; `None`: it isn't there any more.
fn place(files: &mut Vec<CanaryFile>, file: &str, now: Option<CanaryFile>) {
    match (files.binary_search_by(|one| one.file.as_str().cmp(file)), now) {
        (Ok(at), Some(now)) => files[at] = now,
        (Ok(at), None) => drop(files.remove(at)),
        (Err(at), Some(now)) => files.insert(at, now),
        (Err(_), None) => {}
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
        Wish::Submit { file, meaning, is_news } => {
            manifests.submit(file.clone(), Arc::clone(&meaning.document), *is_news)
        }
        Wish::Deprecate { canary, file } => manifests.deprecate(canary.clone(), file.clone()),
    };
    Box::pin(async move { (wish, doing.await) })
}

fn registers(wish: &Wish) -> bool {
    matches!(wish, Wish::Submit { meaning: Meaning { subject: Subject::Release(_), .. }, .. })
}

/// Logs what is wrong with the folder and wasn't, or was something else.
fn tell_fault(was: Option<&String>, now: Option<&String>) {
    match (was, now) {
        (was, Some(why)) if was != Some(why) => tracing::warn!(why, "the folder of manifests"),
        (Some(_), None) => tracing::info!("the folder of manifests is read again"),
        _ => {}
    }
}

/// Logs the same of a file.
fn tell(was: Option<&CanaryFile>, now: Option<&CanaryFile>) {
    let Some(CanaryFile { file, state, fault, .. }) = now else { return };
    let was = was.and_then(|before| before.fault.as_ref());
    match fault {
        Some(why) if was != Some(why) => tracing::warn!(file, why, "a manifest is not applied"),
        None if was.is_some() && *state == CanaryFileState::Applied => {
            tracing::info!(file, "a manifest is applied");
        }
        _ => {}
    }
}
