//! What people ask of the agent: told to the state machine, and answered once it is so.

use std::{collections::BTreeMap, future::pending, path::Path, sync::Arc, time::Duration};

use tokio::{
    task::{JoinSet, spawn_blocking},
    time::Instant,
};

use super::{effects::Tools, status};
use crate::{
    content::Content,
    control::{
        Answering, Order, Refused,
        form::{Added, NewFunction, Removed, Undone, Which},
    },
    runtime::{Running, VersionId, form, process::form_of},
    settings::Settings,
    state_machine::{Listed, Now, Refusal, Routing, StateMachine, VersionNote},
};

/// How long somebody who orders something is kept waiting for it to be in force.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a proxy may take to end what it has, at the longest.
const DRAIN: Duration = Duration::from_secs(90);

/// What is known beside the state machine, and who waits for an answer.
#[derive(Debug, Default)]
pub struct ControlHandler {
    pub running: BTreeMap<VersionId, Running>,
    /// Why what the agent knows could not be written when that was tried last.
    pub unsaved: Option<String>,
    waiting: Vec<Waiting>,
    /// Versions whose content is being copied.
    copying: JoinSet<Copied>,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    what: What,
}

#[derive(Debug)]
enum What {
    Undo { functions: Vec<String>, answer: Answering<Undone> },
    Add { name: String, version: VersionId, answer: Answering<Added> },
    Remove { name: String, waits: bool, answer: Answering<Removed> },
}

/// Content that was copied to become a version.
#[derive(Debug)]
pub struct Copied {
    name: String,
    function: NewFunction,
    /// The version, and the form that its function has; or why there is none.
    content: Result<(VersionId, String), String>,
    answer: Answering<Added>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown { name, known } => Self::Unknown { name, known },
            Refusal::Conflict(text) => Self::Busy(text),
        }
    }
}

impl ControlHandler {
    pub fn note_running(&mut self, listed: &Listed) {
        let running = listed.found.iter().flat_map(|(_, running)| running);
        self.running = running.map(|one| (one.version.clone(), one.clone())).collect();
    }

    /// Takes an order. What can be answered at once is.
    pub fn take(
        &mut self,
        order: Order,
        core: &mut StateMachine,
        tools: &Arc<Tools>,
        settings: &Settings,
        now: Now,
    ) {
        match order {
            Order::Status(answer) => {
                let _ = answer.send(status::status(core, self, tools, settings, now));
            }
            Order::Undo { undo, answer } => {
                match core.undo(undo.function.as_deref(), undo.why.as_deref(), now) {
                    Ok(undone) => {
                        let functions = undone.into_iter().map(|one| one.name).collect();
                        self.wait(What::Undo { functions, answer });
                    }
                    Err(refusal) => drop(answer.send(Err(refusal.into()))),
                }
            }
            Order::Add { name, function, answer } => self.copy(name, function, answer, tools),
            Order::Remove { name, waits, answer } => match core.remove(&name, now) {
                Ok(()) => self.wait(What::Remove { name, waits, answer }),
                Err(refusal) => drop(answer.send(Err(refusal.into()))),
            },
            Order::Retire { name, answer } => match core.retire(&name, now) {
                Ok(()) => self.wait(What::Remove { name, waits: false, answer }),
                Err(refusal) => drop(answer.send(Err(refusal.into()))),
            },
            Order::Log { name, which, at_most, answer } => log(core, tools, &name, which, at_most, answer),
            Order::FailedLogs { release, answer } => {
                let tools = Arc::clone(tools);
                tokio::spawn(async move {
                    let _ = answer.send(tools.failed_logs(release).await);
                });
            }
        }
    }

    fn wait(&mut self, what: What) {
        self.waiting.push(Waiting { until: Instant::now() + PATIENCE, what });
    }

    fn copy(&mut self, name: String, function: NewFunction, answer: Answering<Added>, tools: &Arc<Tools>) {
        let (content, folder, called) = (tools.content.clone(), function.folder.clone(), name.clone());
        let named = function.runner.clone();
        self.copying.spawn(async move {
            let copying =
                spawn_blocking(move || add_folder(&content, &folder, &called, named.as_deref())).await;
            let content = copying.unwrap_or_else(|_| Err("copying its folder broke off".to_owned()));
            Copied { name, function, content, answer }
        });
    }

    /// Waits until the content of a version is copied; for ever, while none is.
    pub async fn copied(&mut self) -> Copied {
        loop {
            match self.copying.join_next().await {
                Some(Ok(copied)) => return copied,
                // Whoever waited for it hears that it has gone.
                Some(Err(error)) => tracing::error!(%error, "copying a folder broke off"),
                None => pending().await,
            }
        }
    }

    /// Hands what was copied to the state machine.
    pub fn add(&mut self, copied: Copied, core: &mut StateMachine, now: Now) {
        let Copied { name, function, content, answer } = copied;
        let (version, runner) = match content {
            Ok(copied) => copied,
            Err(why) => return drop(answer.send(Err(Refused::Wrong(why)))),
        };
        let note = VersionNote { function: name.clone(), runner, variation: None };
        let routing = Routing { sticky: function.sticky, retry: function.retry };
        match core.add(&name, version.clone(), note, routing, now) {
            Ok(()) => self.wait(What::Add { name, version, answer }),
            Err(refusal) => drop(answer.send(Err(refusal.into()))),
        }
    }

    /// Answers whoever waits for what is so now.
    pub fn answer(&mut self, core: &mut StateMachine, tools: &Tools) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.look_at(waiting, core, tools);
        }
    }

    fn look_at(&mut self, waiting: Waiting, core: &mut StateMachine, tools: &Tools) {
        let is_late = Instant::now() >= waiting.until;
        let late = || Refused::Failed("it is decided, but not in force yet".to_owned());
        match waiting.what {
            What::Undo { functions, answer } => {
                if core.is_in_force() {
                    let _ = answer.send(Ok(Undone { functions, text: what_becomes(core) }));
                } else if is_late {
                    let _ = answer.send(Err(late()));
                } else {
                    let what = What::Undo { functions, answer };
                    self.waiting.push(Waiting { until: waiting.until, what });
                }
            }
            What::Remove { name, waits, answer } => {
                let runs = waits && core.state().versions.values().any(|note| note.function == name);
                if core.is_in_force() && !runs {
                    let _ = answer.send(Ok(Removed { name }));
                } else if is_late {
                    let _ = answer.send(Err(late()));
                } else {
                    let what = What::Remove { name, waits, answer };
                    self.waiting.push(Waiting { until: waiting.until, what });
                }
            }
            What::Add { name, version, answer } => {
                if let Some(why) = core.why_not_added(&version) {
                    let _ = answer.send(Err(Refused::Wrong(why)));
                } else if core.is_serving(&name, &version) {
                    let listens_on = tools.listens_on();
                    let at = listens_on.iter().map(|address| format!("http://{address}/{name}")).collect();
                    let _ = answer.send(Ok(Added { name, version: version.to_string(), at }));
                } else if is_late {
                    let _ = answer.send(Err(late()));
                } else {
                    let what = What::Add { name, version, answer };
                    self.waiting.push(Waiting { until: waiting.until, what });
                }
            }
        }
    }
}

/// Copies a folder of this machine; the version that it became, and its form. The same content is the same version, whether it comes
/// from here or with a release.
fn add_folder(
    content: &Content,
    folder: &Path,
    function: &str,
    named: Option<&str>,
) -> Result<(VersionId, String), String> {
    let runner = match named {
        Some(name) => form(name),
        None => form_of(folder).map_err(|fault| fault.to_string())?,
    };
    let limits = language::functions::Limits::default();
    let version = content.add_folder(folder, function, runner, &limits).map_err(|error| error.to_string())?;
    Ok((version, runner.to_owned()))
}

/// What becomes of a release that was taken back here, in a sentence.
fn what_becomes(core: &StateMachine) -> String {
    let is_owed = core.state().work.is_some() || !core.state().owed.is_empty();
    let text = match (is_owed, core.link().reached) {
        (false, _) => "The version before serves again.",
        (true, true) => "The version before serves again, and the manager is told.",
        (true, false) => "The version before serves again; the manager is told as soon as it is reached.",
    };
    text.to_owned()
}

/// Answers with the log of a version, beside everything else.
fn log(
    core: &StateMachine,
    tools: &Arc<Tools>,
    name: &str,
    which: Option<Which>,
    at_most: usize,
    answer: Answering<Vec<u8>>,
) {
    let Some(function) = core.state().functions.get(name) else {
        let known = core.state().functions.keys().cloned().collect();
        return drop(answer.send(Err(Refused::Unknown { name: name.to_owned(), known })));
    };
    let candidate = function.candidate.as_ref().map(|candidate| &candidate.version);
    let version = match which {
        Some(Which::Base) => Some(&function.stable),
        Some(Which::New) => candidate,
        None => candidate.or(Some(&function.stable)),
    };
    let Some(version) = version.cloned() else {
        return drop(answer.send(Err(Refused::Wrong(format!("no new version of {name} is tried")))));
    };
    let (tools, at) = (Arc::clone(tools), core.runtime_of(&version).map(str::to_owned));
    tokio::spawn(async move {
        let _ = answer.send(tools.log(&version, at.as_deref(), at_most).await);
    });
}

/// Has the proxy end what it has, and then stops all versions.
pub async fn drain(tools: &Tools, core: &StateMachine) {
    match tools.front.end(DRAIN).await {
        Ok(true) => tracing::info!("the proxy took nothing more and ended what it had"),
        Ok(false) => {
            tracing::info!("ends; the router goes on");
            return;
        }
        Err(trouble) => {
            tracing::warn!("the proxy can't be drained, so versions are left running: {}", trouble.text);
            return;
        }
    }
    for version in core.state().versions.keys() {
        if let Err(trouble) = tools.stop(version, core.runtime_of(version)).await {
            tracing::warn!("a version could not be stopped: {}", trouble.text);
        }
    }
}
