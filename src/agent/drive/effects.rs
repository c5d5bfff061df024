//! With what acts are carried out: the manager, whatever splits calls, runtimes, and what is on disk.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::timeout};

use super::{enabled_runtimes::Enabled, failed_logs, persistence};
use crate::{
    content::{Content, ContentError, VersionFolder},
    control::Refused,
    data_plane::{self, DataPlane},
    link::{About, LinkError, Manager},
    runtime::{Order, RuntimeError, VersionId, form, process::form_of},
    settings::Versions,
    state_machine::{
        Act, CountsReading, Errand, Event, FailedVersion, Fetched, PollResponse, Started, StartedVersion,
        Trouble, TroubleKind, VersionNote,
    },
};
use language::{Service, offer::Offer};
use proxy::live::Target;

/// How long a runtime may take to hand out the log of a version that failed, before that is ended without.
const LOG_WITHIN: Duration = Duration::from_secs(5);

/// How long a call that waits may wait.
const WAIT: Duration = Duration::from_secs(30);

/// The name of functions' archives while they are unpacked.
const ARCHIVE: &str = "download.zip";

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const CONFLICT: u16 = 409;

/// Base and new version of each function of an offer.
type Pairs = Vec<[VersionId; 2]>;

type Notes = BTreeMap<VersionId, VersionNote>;

/// See the module.
#[derive(Debug)]
pub struct Tools {
    pub manager: Manager,
    pub about: About,
    pub join_token: Option<PathBuf>,
    pub front: Box<dyn DataPlane>,
    pub runtimes: Enabled,
    pub content: Content,
    pub versions: Versions,
    pub folder: PathBuf,
}

impl Tools {
    /// Carries out an act to its end. `id` is what the manager calls this agent; `now` gives the driver's time in milliseconds.
    pub async fn carry_out(&self, act: Act, errand: Errand, id: &str, now: impl Fn() -> u64) -> Event {
        let began = now();
        let took = || now().saturating_sub(began);
        match act {
            Act::List => Event::Listed(Ok(self.runtimes.list().await)),
            Act::Look(_) => Event::Looked(self.front.look().await),
            Act::Join => Event::Joined(self.join().await),
            Act::Poll => {
                let answer = self.poll(id, wait(&errand)).await;
                Event::Polled { took_ms: took(), answer }
            }
            Act::EndStage { offer, stage, skipped, shares } => {
                let known = (skipped.clone(), shares.clone());
                let answer = self.manager.end_stage(id, &offer, &stage, known, wait(&errand)).await;
                let answer = answer.map_err(|error| of_link(&error));
                Event::EndStage { offer, stage, skipped, shares, took_ms: took(), answer }
            }
            Act::Send(number) => Event::Sent { number, answer: self.tell(id, errand).await },
            Act::Report { run, stage } => {
                Event::Reported { run, stage, sent_ms: began, answer: self.tell(id, errand).await }
            }
            Act::Fetch { offer, run } => {
                let fetched = self.fetch(id, &offer).await;
                Event::Fetched { offer, run, fetched }
            }
            Act::Start(version) => {
                let started = self.start(&version, errand).await;
                Event::Started { version, started }
            }
            Act::Apply(generation) => Event::Applied { generation, applied: self.apply(errand).await },
            Act::Watch(generation) => {
                self.front.outdated().await;
                Event::Outdated { generation, outdated: Ok(()) }
            }
            Act::Empty { service, variation } => {
                let emptied = self.front.empty(&service, &variation).await;
                Event::Emptied { service, variation, emptied }
            }
            Act::Drain(version) => {
                let drained = self.is_drained(&version, errand).await;
                Event::Drained { version, drained }
            }
            Act::Stop(version) => {
                let (at, failed) =
                    if let Errand::At(at, failed) = errand { (at, failed) } else { (None, None) };
                if let Some(failed) = failed {
                    self.keep_log(&version, at.as_deref(), *failed).await;
                }
                let stopped = self.stop(&version, at.as_deref()).await;
                Event::Stopped { version, stopped }
            }
            Act::Ask { service, variation } => {
                let asked =
                    data_plane::answers(&self.front.view(), self.front.mark(), &service, &variation).await;
                Event::Asked { service, variation, asked }
            }
            Act::Count(number) => Event::Counted { number, counted: self.count(errand).await },
        }
    }

    async fn join(&self) -> Result<String, Trouble> {
        let file = self.join_token.as_deref().ok_or_else(|| Trouble::refused("there is no join token"))?;
        let token = read_secret(file).map_err(Trouble::passing)?;
        let nonce = persistence::nonce(&self.folder).map_err(|error| Trouble::passing(error.to_string()))?;
        let about = About { nonce: Some(nonce), ..self.about.clone() };
        let joined = self.manager.join(&token, &about).await.map_err(|error| {
            // Its token was revoked before it was ever heard of here: as another child, then.
            if matches!(error, LinkError::Refused { status: CONFLICT, .. })
                && let Err(error) = persistence::forget_nonce(&self.folder)
            {
                tracing::warn!("another nonce is needed, and the one before can't be taken away: {error}");
            }
            of_link(&error)
        })?;
        let identity = persistence::Identity { id: joined.id.clone(), token: joined.token.clone() };
        let path = persistence::identity_path(&self.folder);
        persistence::write(&path, &identity).map_err(|error| Trouble::passing(error.to_string()))?;
        // The token follows from it, and it is needed no more; should it stay, it is as well kept as the token.
        let _ = persistence::forget_nonce(&self.folder);
        self.manager.set_token(Some(joined.token));
        Ok(joined.id)
    }

    async fn poll(&self, id: &str, wait: Duration) -> Result<PollResponse, Trouble> {
        let id = (!id.is_empty()).then_some(id);
        let about = About { runtimes: self.runtimes.forms().await, ..self.about.clone() };
        let polled = self.manager.poll(id, &about, wait).await.map_err(|error| of_link(&error))?;
        Ok(PollResponse { id: polled.id, offer: polled.offer, reads: self.manager.reads() })
    }

    async fn tell(&self, id: &str, errand: Errand) -> Result<Option<protocol::ManagerTime>, Trouble> {
        let Errand::Result { offer, summary, next } = errand else {
            return Err(Trouble::refused("there is nothing to be told any more"));
        };
        self.manager.result(id, &offer, &summary, &next).await.map_err(|error| of_link(&error))
    }

    /// The text of an offer, and its functions on disk.
    async fn fetch(&self, id: &str, offer: &str) -> Result<Fetched, Trouble> {
        let text = self.manager.release(id, offer).await.map_err(|error| of_link(&error))?;
        let read = language::offer::read(&text).map_err(|faults| {
            let first = faults.first().map_or_else(String::new, |fault| fault.message.clone());
            Trouble::refused(format!("its text can't be read: {first}"))
        })?;
        match self.versions_of(id, &read).await {
            Ok((versions, started, notes)) => Ok(Fetched { text, versions: Ok(versions), started, notes }),
            Err(Trouble { kind: TroubleKind::Refused, text: why }) => {
                Ok(Fetched { text, versions: Err(why), started: Started::new(), notes: BTreeMap::new() })
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Has the functions of an offer on disk, and the variations of services that are to be started.
    async fn versions_of(&self, id: &str, read: &Offer) -> Result<(Pairs, Started, Notes), Trouble> {
        let runs = runs(&read.services);
        if read.functions.is_empty() && runs.is_empty() {
            return Ok((Vec::new(), Started::new(), BTreeMap::new()));
        }
        let archive = self.folder.join(ARCHIVE);
        self.manager.functions(id, &read.id, &archive).await.map_err(|error| of_link(&error))?;
        let wanted = read.functions.iter().flat_map(|function| {
            [&function.base, &function.new].map(|version| VersionFolder {
                function: function.name.clone(),
                path: version.path.clone(),
                runner: form(&version.env).to_owned(),
            })
        });
        let of_variations = runs.iter().map(|(service, variation, note)| VersionFolder {
            // No function is called so: what runs for one and for a service is never the same version.
            function: service.key().to_owned(),
            path: service.runs.get(*variation).map(|run| run.path.clone()).unwrap_or_default(),
            runner: note.runner.clone(),
        });
        let wanted: Vec<VersionFolder> = wanted.chain(of_variations).collect();
        let (content, all) = (self.content.clone(), wanted.clone());
        let added = spawn_blocking(move || {
            let added = content.add_archive(&archive, &all, &language::functions::Limits::default());
            // What could be unpacked is not needed again, and what couldn't must not be resumed.
            let _ = std::fs::remove_file(&archive);
            added
        });
        let added = added
            .await
            .map_err(|_| Trouble::passing("unpacking broke off"))?
            .map_err(|error| of_content(&error))?;
        // One folder of each that is wanted.
        let (of_functions, of_variations) = added.split_at(2 * read.functions.len());
        let notes = of_functions.iter().zip(&wanted).map(|(version, wanted)| {
            let (function, runner) = (wanted.function.clone(), wanted.runner.clone());
            (version.clone(), VersionNote { function, runner, variation: None })
        });
        let mut notes: Notes = notes.collect();
        let versions = of_functions.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
        let mut started = Started::new();
        for ((service, variation, note), version) in runs.into_iter().zip(of_variations) {
            let all = started.entry(service.name().to_owned()).or_default();
            if let Some((other, _)) = all.iter().find(|(_, other)| *other == version) {
                let name = service.name();
                let text = format!("the variations {other} and {variation} of {name} have the same content");
                return Err(Trouble::refused(text));
            }
            all.insert(variation.to_owned(), version.clone());
            notes.insert(version.clone(), note);
        }
        Ok((versions, started, notes))
    }

    async fn start(&self, version: &VersionId, errand: Errand) -> Result<StartedVersion, Trouble> {
        let Errand::Version(note) = errand else {
            return Err(Trouble::refused("it isn't wanted any more"));
        };
        let folder = self.content.folder(version);
        let by_files = || form_of(&folder).unwrap_or_default();
        let runtime =
            self.runtimes.for_form(if note.runner.is_empty() { by_files() } else { &note.runner })?;
        let Versions { limits, health, warm_up, drain: _, grace: _ } = self.versions.clone();
        let runner = (!note.runner.is_empty()).then(|| note.runner.clone());
        let mut order = Order { runner, limits, health, warm_up, ..Order::new(version.clone(), folder) };
        if let Some(variation) = &note.variation {
            if variation.limits.cpu.is_some() && !runtime.holds_cpu() {
                return Err(Trouble::refused(format!(
                    "the runtime {} can't hold {} to its limit of processors, since this agent has no control groups: see \
                     runtimes.cgroups, or leave the limit out",
                    runtime.name(),
                    note.function
                )));
            }
            order.limits.cpu = variation.limits.cpu.or(order.limits.cpu);
            order.limits.memory = variation.limits.memory.unwrap_or(order.limits.memory);
            // What is set of functions is about their calls.
            order.health.path.clone_from(&variation.check);
            order.warm_up = order.warm_up.filter(|_| variation.is_http);
        }
        let target = runtime.start(&order).await.map_err(|error| of_runtime(&error))?.target;
        if note.variation.is_some() && !matches!(target, Target::Tcp(_)) {
            return Err(Trouble::refused(format!(
                "the runtime {} has {} listen at {target}, which is no target of a service: enable a runtime of this machine before it",
                runtime.name(),
                note.function
            )));
        }
        Ok(StartedVersion { target, runtime: runtime.name().to_owned() })
    }

    async fn apply(&self, errand: Errand) -> Result<(), Trouble> {
        let Errand::Table(table) = errand else {
            return Err(Trouble::passing("there is no table"));
        };
        self.front.apply(&table).await
    }

    /// Whether nobody holds a version any more, whichever part it had.
    async fn is_drained(&self, version: &VersionId, errand: Errand) -> Result<bool, Trouble> {
        match errand {
            Errand::Version(note) => self.front.is_drained(&note.function, version).await,
            Errand::Left { service, names, target: Some(target) } => {
                for variation in &names {
                    if !self.front.is_left(&service, variation, &target).await? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    /// Ends a version wherever it runs, which is known to be `at` a runtime or is not. One that is not reached keeps no other one from that.
    pub async fn stop(&self, version: &VersionId, at: Option<&str>) -> Result<(), Trouble> {
        let mut stopped = Ok(());
        for runtime in self.runtimes.with(at) {
            let here = runtime.stop(version, self.versions.grace).await;
            stopped = stopped.and(here.map_err(|error| of_runtime(&error)));
        }
        stopped
    }

    async fn count(&self, errand: Errand) -> Result<CountsReading, Trouble> {
        let Errand::Cursor { cursor, needs_all } = errand else {
            return Err(Trouble::passing("there is no cursor"));
        };
        self.front.count(cursor, needs_all).await
    }
}

impl Tools {
    /// Waits until it is to be looked at at once what runs.
    pub async fn versions_changed(&self) {
        tokio::select! {
            () = self.runtimes.changed() => {}
            () = self.front.unreachable() => {}
        }
    }

    /// Where the proxy takes calls.
    pub fn listens_on(&self) -> Vec<String> {
        self.front.proxy().map(|proxy| proxy.listen).unwrap_or_default()
    }

    /// Keeps what a version wrote that failed and is ended now. That it can't be kept keeps nothing from its end.
    async fn keep_log(&self, version: &VersionId, at: Option<&str>, failed: FailedVersion) {
        let log = timeout(LOG_WITHIN, self.log(version, at, failed_logs::MAX_BYTES)).await;
        let (folder, version) = (self.folder.clone(), version.clone());
        let keeping = spawn_blocking(move || {
            let log = log.ok().and_then(Result::ok).filter(|log| !log.is_empty());
            failed_logs::keep(&folder, &version, failed, log.as_deref())
        });
        match keeping.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the log of a version that failed can't be kept"),
            Err(error) => tracing::warn!(%error, "keeping the log of a version that failed broke off"),
        }
    }

    /// What versions wrote that failed in a release, as far as it is kept.
    pub async fn failed_logs(&self, release: String) -> Result<Vec<u8>, Refused> {
        let folder = self.folder.clone();
        let reading = spawn_blocking(move || failed_logs::of_release(&folder, &release));
        reading.await.unwrap_or_else(|error| Err(Refused::Failed(error.to_string())))
    }

    /// The newest of what a version wrote.
    pub async fn log(
        &self,
        version: &VersionId,
        at: Option<&str>,
        at_most: usize,
    ) -> Result<Vec<u8>, Refused> {
        let mut why = Refused::Wrong("no runtime has a log of this version".to_owned());
        for runtime in self.runtimes.with(at) {
            match runtime.log(version, at_most).await {
                Ok(Some(log)) => return Ok(log),
                Ok(None) => {}
                Err(error) => why = Refused::Failed(error.to_string()),
            }
        }
        Err(why)
    }
}

/// The variations of services that are to be started, with what is to be known of each.
fn runs(services: &[Service]) -> Vec<(&Service, &str, VersionNote)> {
    let each = services.iter().flat_map(|service| service.variations.iter().map(move |one| (service, one)));
    let noted = each.filter_map(|(service, one)| {
        Some((service, one.name.as_str(), VersionNote::of_variation(service, one)?))
    });
    noted.collect()
}

/// How long a call that may wait may do so.
fn wait(errand: &Errand) -> Duration {
    if matches!(errand, Errand::AtOnce) { Duration::ZERO } else { WAIT }
}

/// The first line of a file.
pub fn read_secret(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() { Err(format!("{} is empty", path.display())) } else { Ok(line.to_owned()) }
}

fn of_link(error: &LinkError) -> Trouble {
    let kind = match error {
        LinkError::Refused { status: UNAUTHORIZED | FORBIDDEN, .. } => TroubleKind::Unauthorized,
        _ if error.passes() => TroubleKind::Passes,
        _ => TroubleKind::Refused,
    };
    Trouble { kind, text: error.to_string() }
}

fn of_runtime(error: &RuntimeError) -> Trouble {
    Trouble::passing(error.to_string())
}

fn of_content(error: &ContentError) -> Trouble {
    match error {
        ContentError::Io { .. } => Trouble::passing(error.to_string()),
        _ => Trouble::refused(error.to_string()),
    }
}
