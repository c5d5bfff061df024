//! Tells the manager what the router does, over `POST /traffic`, beside the other long call; and does what operators ask of it there.
//!
//! Each call says all that is so now, and waits at the manager. Whatever changes meanwhile gives it up, and it is made anew. Answers to
//! orders and drifts are told until a call that held them was answered.

use std::{path::Path, sync::Arc, time::Duration};

use protocol::traffic::{
    MAX_ANSWER_TEXT_BYTES, MAX_TOLD_ANSWERS, MAX_TOLD_DRIFTS, OrderAnswer, OrderForm, OrderWhat,
    TrafficRequest,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use traffic::RouterKind;

use super::{
    effects::Tools,
    report::{Report, drift},
};
use crate::{control::Order, link::LinkError};

/// How long a call may wait: while calls are counted, so that these are seen soon, and else.
const WAIT_COUNTING: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(30);

/// From one call to the next, at least.
const BETWEEN: Duration = Duration::from_millis(250);

/// Pauses after a call that failed: the first, and the longest.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_LAST: Duration = Duration::from_mins(1);

/// How long it is waited for calls to end that go on when a service is led no more: meanwhile nothing else is told.
const EMPTIED_WITHIN: Duration = Duration::from_secs(20);

/// Tells until it is dropped.
#[derive(Debug)]
pub struct Reporter {
    tools: Arc<Tools>,
    shown: watch::Sender<Option<Arc<Report>>>,
    shown_at: Option<Instant>,
    task: JoinHandle<()>,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reporter {
    /// Must be called in a runtime of tokio. What it can't do by itself it asks of whoever drives the agent.
    pub fn start(tools: Arc<Tools>, driver: mpsc::Sender<Order>) -> Self {
        let (shown, report) = watch::channel(None);
        let told_by = Arc::clone(&tools);
        let telling = Telling { tools: told_by, driver, report, answers: Vec::new(), told: 0, failures: 0 };
        Self { tools, shown, shown_at: None, task: tokio::spawn(telling.run()) }
    }

    /// This is so now. It is asked for no more often than it can be told, and only while the manager hears it; gives how long it is
    /// too early, where it is.
    pub fn show(&mut self, report: impl FnOnce() -> Option<Report>) -> Option<Duration> {
        let hears = self.tools.manager.hears_of_routers();
        let early = self.shown_at.map_or(Duration::ZERO, |at| BETWEEN.saturating_sub(at.elapsed()));
        if hears && !early.is_zero() {
            return Some(early);
        }
        let report = if hears { report() } else { None };
        self.shown_at = report.is_some().then(Instant::now);
        self.shown.send_if_modified(|before| {
            let is_news = match (&*before, &report) {
                (Some(before), Some(report)) => report.is_news(before),
                (None, None) => false,
                (None, Some(_)) | (Some(_), None) => true,
            };
            // Whoever makes the next call tells the newest numbers, too.
            *before = report.map(Arc::new);
            is_news
        });
        None
    }
}

struct Telling {
    tools: Arc<Tools>,
    driver: mpsc::Sender<Order>,
    report: watch::Receiver<Option<Arc<Report>>>,
    /// Those that the manager doesn't have yet.
    answers: Vec<OrderAnswer>,
    /// The number of the newest drift that it has.
    told: u64,
    failures: u32,
}

impl Telling {
    async fn run(mut self) {
        loop {
            let Some(report) = self.report.borrow_and_update().clone() else {
                if self.report.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let began = Instant::now();
            let pause = match self.tell(&report).await {
                None => BETWEEN.saturating_sub(began.elapsed()),
                Some(Ok(orders)) => {
                    self.failures = 0;
                    for order in orders {
                        let answer = self.carry_out(&order).await;
                        self.answers.push(answer);
                    }
                    BETWEEN.saturating_sub(began.elapsed())
                }
                Some(Err(error)) => {
                    let pause = AGAIN.saturating_mul(1 << self.failures.min(6)).min(AGAIN_AT_LAST);
                    if self.failures == 0 {
                        tracing::info!("the manager isn't told what the router does; tried again: {error}");
                    }
                    self.failures = self.failures.saturating_add(1);
                    pause.mul_f64(f64::from(fastrand::u8(75..126)) / 100.0)
                }
            };
            sleep(pause).await;
        }
    }

    /// None: there is something else to be told now.
    async fn tell(&mut self, report: &Report) -> Option<Result<Vec<OrderForm>, LinkError>> {
        let drifts = report.drifts.iter().filter(|drift| drift.number > self.told);
        let skipped = drifts.clone().count().saturating_sub(MAX_TOLD_DRIFTS);
        let drifts: Vec<_> = drifts.skip(skipped).map(drift).collect();
        let newest = drifts.last().map(|drift| drift.number);
        let answers: Vec<OrderAnswer> = self.answers.iter().take(MAX_TOLD_ANSWERS).cloned().collect();
        let told = answers.len();
        let request = TrafficRequest {
            id: report.id.as_str().into(),
            router: report.router.clone(),
            services: report.services.clone(),
            untold: report.untold,
            drifts,
            answers,
        };
        let wait = if report.counts() { WAIT_COUNTING } else { WAIT };
        let answer = tokio::select! {
            answer = self.tools.manager.traffic(&request, wait) => answer,
            changed = self.report.changed() => {
                if changed.is_ok() {
                    return None;
                }
                std::future::pending().await
            }
        };
        Some(answer.map(|answer| {
            self.answers.drain(..told);
            self.told = newest.unwrap_or(self.told);
            answer.orders
        }))
    }

    async fn carry_out(&self, order: &OrderForm) -> OrderAnswer {
        let within = Duration::from_millis(order.within_ms);
        let done = match timeout(within, self.done(order)).await {
            Ok(done) => done,
            Err(_) => Err("it took too long".to_owned()),
        };
        let (ok, text, left_over) = match done {
            Ok(Done { refused: Some(refused), left_over, .. }) => (false, refused, left_over),
            Ok(Done { refused: None, left_over, text }) => (true, text, left_over),
            Err(why) => (false, why, Vec::new()),
        };
        tracing::info!(order = order.what.name(), ok, "an order of the manager's was carried out: {text}");
        let lines = text.chars().filter(|one| *one == '\n' || !one.is_control());
        let mut text: String = lines.collect();
        text.truncate(text.floor_char_boundary(MAX_ANSWER_TEXT_BYTES));
        OrderAnswer { number: order.number, ok, text, left_over }
    }

    /// The variations of a service that is led.
    fn variations(&self, service: &str) -> Vec<String> {
        let wanted = self.tools.front.view().wanted;
        let led = wanted.as_ref().and_then(|wanted| wanted.service(service));
        led.into_iter().flat_map(|led| &led.variations).map(|one| one.name.to_string()).collect()
    }

    /// Waits until the calls have ended that went on when a service was led no more, and says how many did not.
    async fn emptied(&self, service: &str, variations: Vec<String>) -> String {
        let mut text = Vec::new();
        for variation in variations {
            let front = &self.tools.front;
            let Ok(left) = timeout(EMPTIED_WITHIN, front.empty(service, &variation)).await else {
                text.push(format!("calls to {variation} go on"));
                continue;
            };
            match left {
                Ok(Some(0)) => {}
                // Each call of the proxy's has what it needs until it ends.
                Ok(None) if front.kind() == RouterKind::Embedded => {}
                Ok(Some(left)) => text.push(format!("{left} calls to {variation} did not end in time")),
                Ok(None) => text.push(format!("whether calls to {variation} go on can't be told")),
                Err(trouble) => text.push(format!("{variation}: {}", trouble.text)),
            }
        }
        text.join("; ")
    }

    async fn done(&self, order: &OrderForm) -> Result<Done, String> {
        let front = &self.tools.front;
        match order.what {
            OrderWhat::Check => {
                let checked = front.operations().check(order.config.as_deref().map(Path::new)).await;
                let checked = checked.map_err(|error| error.to_string())?;
                let warnings: Vec<String> =
                    checked.warnings.iter().map(|text| format!("warning: {text}")).collect();
                Ok(Done { text: warnings.join("\n"), refused: checked.refused, left_over: checked.left_over })
            }
            OrderWhat::Repair => {
                front.repair().await.map(|()| Done::default()).map_err(|trouble| trouble.text)
            }
            OrderWhat::Reload => {
                let reloaded = front.operations().reload().await;
                reloaded.map(|()| Done::default()).map_err(|error| error.to_string())
            }
            OrderWhat::Retire => {
                let name = order.service.clone().ok_or("it names no service")?;
                let held = self.variations(&name);
                let (answer, retired) = oneshot::channel();
                let ends = || "the agent ends".to_owned();
                self.driver.send(Order::Retire { name: name.clone(), answer }).await.map_err(|_| ends())?;
                let retired = retired.await.map_err(|_| ends())?;
                retired.map_err(|refused| refused.to_string())?;
                let text = self.emptied(&name, held).await;
                Ok(Done { text, ..Done::default() })
            }
            OrderWhat::Adopt => {
                let name = order.service.as_deref().ok_or("it names no service")?;
                let text = front.operations().adopt(name).await.map_err(|error| error.to_string())?;
                Ok(Done { text, ..Done::default() })
            }
        }
    }
}

/// What came of an order.
#[derive(Debug, Default)]
struct Done {
    /// What is to be read of it.
    text: String,
    refused: Option<String>,
    left_over: Vec<String>,
}
