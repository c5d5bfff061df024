use std::{fs::File, future::pending, io, time::Duration};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use tokio::{
    net::{UnixListener, unix::pipe},
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};

use super::{
    super::{
        super::{Exit, Phase},
        cgroup::Groups,
        run::{Run, Spec},
        tree,
    },
    function::{Function, end_what_is_left, reap},
    log::Log,
    protocol::{Ask, ShimResponse, Status},
    serve::{self, PendingResponse},
    usage::{PROCESSES_EVERY, Usage},
};
use crate::process_end::ProcessEnd;

/// The pause before a function that ended is started again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What a function has to live for its next pause to be the first again.
const LONG_LIFE: Duration = Duration::from_mins(1);
/// What a function has to end in where the machine asks for it.
const GRACE: Duration = Duration::from_secs(10);
/// How long answers that are on their way may take.
const FAREWELL: Duration = Duration::from_millis(200);

/// ```text
///            ends by itself                 asked to stop
///   Runs ──────────────────▶ Pauses     Runs ─────────▶ Stops ──▶ over
///     ▲──────────────────────┘ │                          ▲
///         after the pause      └──────────────────────────┘
/// ```
#[derive(Debug)]
enum Now {
    Runs(Function),
    Pauses { until: Instant },
    Stops { function: Option<Function>, kill_at: Instant },
}

/// A function, and who looks after it.
#[derive(Debug)]
pub(super) struct Watch {
    run: Run,
    spec: Spec,
    now: Now,
    /// The end of the function, while that is one that another shim had started.
    adopted: Option<ProcessEnd>,
    restarts: u64,
    last_exit: Option<Exit>,
    /// The limit for which it was killed just now.
    because: Option<String>,
    pause: Duration,
    usage: Usage,
    /// The control groups in which the function is, where there are.
    groups: Option<Groups>,
    /// When it is looked at what the function uses.
    look_at: Instant,
    log: File,
    notes: mpsc::UnboundedSender<String>,
    keeper: JoinHandle<()>,
    /// Who waits for the end.
    told: Vec<oneshot::Sender<PendingResponse>>,
}

impl Watch {
    /// `before`: how the shim stood whose function this one is to go on with.
    pub(super) fn new(run: Run, spec: Spec, before: Option<Status>) -> io::Result<Self> {
        let adopted = before.as_ref().map(Function::adopt).transpose()?;
        let (reader, log) = open_pipe(&run)?;
        let (notes, noted) = mpsc::unbounded_channel();
        let keeper = tokio::spawn(Log::open(run.clone(), spec.limits.log)?.keep(reader, noted));
        let groups = (!spec.groups.is_none()).then(|| spec.groups.clone());
        let groups = match adopted {
            Some(_) => groups.filter(Groups::are_there),
            None => groups.filter(|groups| match groups.make() {
                Ok(()) => true,
                Err(error) => {
                    let _ = notes.send(format!(
                        "its control groups can't be made, and limits of resources hold alone: {error}"
                    ));
                    false
                }
            }),
        };
        let mut usage = Usage::new(spec.limits.clone(), groups.clone());
        let (now, adopted) = match adopted {
            Some((function, end)) => {
                usage.go_on();
                let _ = notes.send(format!("another shim goes on with process {}", function.pid));
                (Now::Runs(function), Some(end))
            }
            None => (Now::Pauses { until: Instant::now() }, None),
        };
        Ok(Self {
            run,
            spec,
            now,
            adopted,
            restarts: before.as_ref().map_or(0, |before| before.restarts),
            last_exit: before.and_then(|before| before.last_exit),
            because: None,
            pause: FIRST_PAUSE,
            usage,
            groups,
            look_at: Instant::now(),
            log,
            notes,
            keeper,
            told: Vec::new(),
        })
    }

    pub(super) async fn until_stopped(mut self, listener: UnixListener) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        let mut machine = signal(SignalKind::terminate())?;
        let (asks, mut asked) = mpsc::channel(1);
        let serving = tokio::spawn(serve::serve(listener, asks));
        if self.adopted.is_none() {
            self.start();
        }
        while !self.is_over() {
            tokio::select! {
                () = ended_elsewhere(self.adopted.as_ref()) => self.note_end(unseen()).await,
                _ = ended.recv() => self.reap().await,
                _ = machine.recv() => self.stop(GRACE),
                Some((ask, to)) = asked.recv() => self.answer(&ask, to),
                () = tokio::time::sleep_until(self.next()) => self.turn().await,
            }
        }
        let left = self.end_what_is_left().await;
        serving.abort();
        let Self { notes, keeper, told, log, .. } = self;
        drop((notes, log));
        let _ = keeper.await;
        for to in told {
            let (receipt, written) = oneshot::channel();
            let said = ShimResponse::Stopped { left: left.clone() };
            let _ = to.send(PendingResponse { said, receipt: Some(receipt) });
            let _ = tokio::time::timeout(FAREWELL, written).await;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        matches!(self.now, Now::Stops { function: None, .. })
    }

    fn next(&self) -> Instant {
        match &self.now {
            Now::Runs(_) => self.look_at,
            Now::Pauses { until } => *until,
            Now::Stops { kill_at, .. } => *kill_at,
        }
    }

    async fn turn(&mut self) {
        match &mut self.now {
            Now::Runs(function) => {
                self.look_at = Instant::now() + PROCESSES_EVERY;
                let adopted = self.adopted.as_ref().map(|_| &self.spec);
                if self.because.is_none()
                    && let Some(because) = self.usage.look(&self.run, processes(adopted))
                {
                    let _ = self.notes.send(format!("{because}: it is killed"));
                    self.because = Some(because);
                    function.signal(Signal::KILL);
                }
            }
            Now::Pauses { until } if *until <= Instant::now() => {
                self.restarts += 1;
                self.start();
            }
            Now::Pauses { .. } => {}
            Now::Stops { function, kill_at } => {
                let _ = self.notes.send("its grace is over: it is killed".to_owned());
                if let Some(function) = function {
                    function.signal(Signal::KILL);
                }
                *kill_at = Instant::now() + GRACE;
                self.reap().await;
            }
        }
    }

    fn start(&mut self) {
        self.because = None;
        self.usage.begin();
        match Function::start(&self.run, &self.spec, &self.log, self.groups.is_some()) {
            Ok(function) => {
                let _ = self.notes.send(format!("started as process {}", function.pid));
                self.now = Now::Runs(function);
                if let Err(error) = self.run.note_started(self.status()) {
                    let _ =
                        self.notes.send(format!("it ends with its shim, since it can't be noted: {error}"));
                }
            }
            Err(error) => self.pause(Exit { code: None, signal: None, because: Some(error.to_string()) }),
        }
    }

    fn pause(&mut self, exit: Exit) {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        let _ =
            self.notes.send(format!("it ended ({exit}) and is started again in {} ms", pause.as_millis()));
        self.last_exit = Some(exit);
        self.now = Now::Pauses { until: Instant::now() + pause };
    }

    async fn reap(&mut self) {
        let function = match &self.now {
            Now::Runs(function) => Some(*function),
            Now::Stops { function, .. } => *function,
            Now::Pauses { .. } => None,
        };
        if let Some(exit) = reap(function.map(|function| function.pid)) {
            self.note_end(exit).await;
        }
    }

    async fn note_end(&mut self, mut exit: Exit) {
        let because = self.because.take().or_else(|| self.usage.ended_for_memory(&exit));
        exit.because = because.or(exit.because);
        self.end_what_is_left().await;
        self.adopted = None;
        match &mut self.now {
            Now::Runs(function) => {
                if function.since.elapsed() >= LONG_LIFE {
                    self.pause = FIRST_PAUSE;
                }
                self.pause(exit);
            }
            Now::Stops { function, .. } => {
                let _ = self.notes.send(format!("it was stopped ({exit})"));
                *function = None;
                self.last_exit = Some(exit);
            }
            Now::Pauses { .. } => {}
        }
    }

    async fn end_what_is_left(&self) -> Vec<u32> {
        let adopted = self.adopted.as_ref().map(|_| &self.spec);
        end_what_is_left(self.groups.as_ref(), || processes(adopted)).await
    }

    fn answer(&mut self, ask: &Ask, to: oneshot::Sender<PendingResponse>) {
        match ask {
            Ask::Status => {
                let said = ShimResponse::Status(Box::new(self.status()));
                let _ = to.send(PendingResponse { said, receipt: None });
            }
            Ask::Stop { grace_ms } => {
                self.told.push(to);
                self.stop(Duration::from_millis(*grace_ms));
            }
        }
    }

    /// Who asks twice may shorten the grace, not lengthen it.
    fn stop(&mut self, grace: Duration) {
        let kill_by = Instant::now() + grace;
        // Where it can't be forgotten, another shim would end it once more.
        let _ = self.run.forget_started();
        self.now = match self.now {
            Now::Runs(function) => {
                function.signal(Signal::TERM);
                // One that was stopped by a signal has to go on to end.
                function.signal(Signal::CONT);
                Now::Stops { function: Some(function), kill_at: kill_by }
            }
            Now::Pauses { .. } => Now::Stops { function: None, kill_at: kill_by },
            Now::Stops { function, kill_at } => Now::Stops { function, kill_at: kill_at.min(kill_by) },
        };
    }

    fn status(&self) -> Status {
        let (phase, function) = match &self.now {
            Now::Runs(function) => (Phase::Runs, Some(*function)),
            Now::Pauses { .. } => (Phase::Pauses, None),
            Now::Stops { function, .. } => (Phase::Stops, *function),
        };
        Status {
            version: self.spec.version.clone(),
            phase,
            shim: std::process::id(),
            pid: function.map(|function| function.pid),
            started: function.map(|function| function.started),
            restarts: self.restarts,
            last_exit: self.last_exit.clone(),
        }
    }
}

/// The processes of a version: all that this one started, and where its function is adopted all that hold its mark.
fn processes(adopted: Option<&Spec>) -> Vec<u32> {
    let mut all = adopted.map(|spec| tree::marked_with_descendants(&spec.entry())).unwrap_or_default();
    all.extend(tree::descendants(std::process::id()));
    all.into_iter().collect()
}

/// How a function ended that isn't this process's child.
fn unseen() -> Exit {
    let because = "nobody saw how, since the shim that had started it was gone".to_owned();
    Exit { code: None, signal: None, because: Some(because) }
}

async fn ended_elsewhere(function: Option<&ProcessEnd>) {
    match function {
        Some(function) => function.wait().await,
        None => pending().await,
    }
}

/// The ends of the pipe of a run's log: where it is read, and what its function writes to.
fn open_pipe(run: &Run) -> io::Result<(pipe::Receiver, File)> {
    let path = run.log_pipe();
    match mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let log = File::options().read(true).write(true).open(&path)?;
    Ok((pipe::OpenOptions::new().open_receiver(path)?, log))
}
