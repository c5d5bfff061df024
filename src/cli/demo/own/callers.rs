//! Those who call the functions for as long as the releases last, and know what became of each call.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode};
use tokio::{task::JoinSet, time::sleep};

use super::functions::Function;
use crate::cli::failure::Failure;

/// Callers of each function at each agent. Each has one connection.
const CALLERS: usize = 2;

/// Between an answer and the next call.
const THINKS: Duration = Duration::from_millis(20);

/// A call without an answer after this long is lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says of an answer which version gave it.
const VERSION: &str = "x-choirmaster-version";

/// What became of the calls of all callers.
#[derive(Debug, Default)]
pub struct Tally {
    made: AtomicU64,
    /// Without a whole answer of one of the function's versions.
    lost: AtomicU64,
    /// Answered by a version while it was being tried.
    by_new: AtomicU64,
    /// What went wrong with the first call that was lost.
    first_loss: OnceLock<String>,
}

impl Tally {
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn by_new(&self) -> u64 {
        self.by_new.load(Ordering::Relaxed)
    }

    pub fn first_loss(&self) -> Option<&str> {
        self.first_loss.get().map(String::as_str)
    }
}

/// Callers at work. They end, within a call, when this is dropped.
#[derive(Debug)]
pub struct Callers {
    tally: Arc<Tally>,
    is_over: Arc<AtomicBool>,
    called: Vec<&'static str>,
    tasks: JoinSet<()>,
}

impl Callers {
    /// Begins to call functions, each at its addresses.
    pub fn start(called: &[(Function, Vec<String>)]) -> Result<Self, Failure> {
        let (tally, is_over) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let mut callers = Self { tally, is_over, called: Vec::new(), tasks: JoinSet::new() };
        callers.call_also(called)?;
        Ok(callers)
    }

    /// Others begin to call these, too.
    pub fn call_also(&mut self, called: &[(Function, Vec<String>)]) -> Result<(), Failure> {
        for (function, addresses) in called {
            self.called.push(function.name);
            for address in addresses {
                for _ in 0..CALLERS {
                    // None repeats a call by itself: what the proxy loses is to be seen.
                    let http = Client::builder()
                        .no_proxy()
                        .retry(reqwest::retry::never())
                        .timeout(PATIENCE)
                        .build()
                        .map_err(|error| Failure::ours(format!("no HTTP client: {error}")))?;
                    let caller = Caller { http, address: address.clone(), function: *function };
                    self.tasks.spawn(caller.call_on(Arc::clone(&self.tally), Arc::clone(&self.is_over)));
                }
            }
        }
        Ok(())
    }

    /// Whether anybody calls a function.
    pub fn is_calling(&self, function: &str) -> bool {
        self.called.contains(&function)
    }

    /// Lets each call that is under way come to its end, and says what became of all.
    pub async fn finish(mut self) -> Result<Arc<Tally>, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|error| Failure::ours(format!("a caller died: {error}")))?;
        }
        Ok(self.tally)
    }
}

#[derive(Debug)]
struct Caller {
    http: Client,
    address: String,
    function: Function,
}

impl Caller {
    async fn call_on(self, tally: Arc<Tally>, is_over: Arc<AtomicBool>) {
        while !is_over.load(Ordering::Relaxed) {
            tally.made.fetch_add(1, Ordering::Relaxed);
            match self.call().await {
                Ok(is_new) => {
                    tally.by_new.fetch_add(is_new.into(), Ordering::Relaxed);
                }
                Err(why) => {
                    tally.lost.fetch_add(1, Ordering::Relaxed);
                    tally.first_loss.get_or_init(|| format!("{}: {why}", self.function.name));
                }
            }
            sleep(THINKS).await;
        }
    }

    /// Whether a version answered that is being tried; or why the call is lost.
    async fn call(&self) -> Result<bool, String> {
        let call = self.http.request(self.function.method(), &self.address).body(self.function.body);
        let answer = call.send().await.map_err(|error| error.to_string())?;
        let (status, version) = (answer.status(), answer.headers().get(VERSION).cloned());
        let text = answer.text().await.map_err(|error| error.to_string())?;
        if status != StatusCode::OK {
            return Err(format!("answered {status}: {text}"));
        }
        if !self.function.answers.contains(&text.as_str()) {
            return Err(format!("the answer is not whole: {text:?}"));
        }
        Ok(version.is_some_and(|version| version == "new"))
    }
}
