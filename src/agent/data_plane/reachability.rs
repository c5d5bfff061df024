//! Which targets of services can be reached: names become addresses, and addresses are looked at, again and again. A router that is led
//! does this in [`router::controller`]; the proxy beside an agent is told whole tables by number, and so what is left of one is weighed here.

use std::sync::{Arc, Mutex, PoisonError};

use router::{
    controller::RouterEvent,
    health::{self, Checker},
    names::{self, Answers, Names, Resolved, System, Unresolvable, resolve},
};
use tokio::sync::watch;
use traffic::{
    desired::DesiredConfig,
    health::{Departure, Effective, Grain, Health, effective, turns},
    observed::ObservedConfig,
};

/// Asks for names and looks at targets until it is dropped.
#[derive(Debug)]
pub struct Reach {
    wanted: watch::Sender<Option<Arc<DesiredConfig>>>,
    resolved: watch::Sender<Option<Arc<DesiredConfig>>>,
    answers: watch::Receiver<Arc<Answers>>,
    found: watch::Receiver<Arc<health::HealthReport>>,
    told: Mutex<Told>,
    _names: Names,
    _checker: Checker,
}

/// What was made of a wanted state last.
#[derive(Debug, Default)]
struct Told {
    wanted: Option<DesiredConfig>,
    effective: Option<Effective>,
}

impl Reach {
    /// `mark`: of connections to targets. Must be called in a runtime of tokio.
    pub fn start(mark: Option<u32>) -> Self {
        let (wanted, named) = watch::channel(None);
        let (resolved, checked) = watch::channel(None);
        let names = Names::start(Arc::new(System::default()), named, names::Settings::default());
        let checker = Checker::start(checked, &health::Settings { mark, ..health::Settings::default() });
        Self {
            wanted,
            resolved,
            answers: names.answers(),
            found: checker.found(),
            told: Mutex::default(),
            _names: names,
            _checker: checker,
        }
    }

    /// What is left of a wanted state now. `seen` is what the proxy was seen to do last.
    ///
    /// # Errors
    ///
    /// A target has no address, or none yet.
    pub fn weigh(
        &self,
        wanted: &DesiredConfig,
        seen: Option<&ObservedConfig>,
    ) -> Result<Effective, Unresolvable> {
        let is_known = self.wanted.borrow().as_deref() == Some(wanted);
        if !is_known {
            self.wanted.send_replace(Some(Arc::new(wanted.clone())));
        }
        let Resolved { wanted: resolved, stale } = resolve(wanted, &self.answers.borrow(), seen)?;
        for unresolved in stale {
            tracing::debug!("the answer before counts: {unresolved}");
        }
        self.resolved.send_if_modified(|before| {
            let is_news = before.as_deref() != Some(&resolved);
            if is_news {
                *before = Some(Arc::new(resolved.clone()));
            }
            is_news
        });
        Ok(effective(&resolved, &self.found.borrow().health, seen, Grain::Target))
    }

    /// This was told to the proxy.
    pub fn note(&self, wanted: DesiredConfig, told: Effective) {
        let mut before = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let old = before.effective.as_ref().map_or(&[][..], |before| &before.departures);
        for turn in turns(old, &told.departures) {
            let fact = RouterEvent::Turn { turn };
            if fact.is_alarm() {
                tracing::error!("{fact}");
            } else {
                tracing::info!("{fact}");
            }
        }
        *before = Told { wanted: Some(wanted), effective: Some(told) };
    }

    /// Waits until each target of a wanted state has an address. `waits` is called while one has none.
    pub async fn named(&self, wanted: &DesiredConfig, seen: Option<&ObservedConfig>, waits: impl Fn()) {
        let mut answers = self.answers.clone();
        loop {
            answers.mark_unchanged();
            if self.weigh(wanted, seen).is_ok() {
                return;
            }
            waits();
            if answers.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until what is left of the wanted state isn't what was told.
    pub async fn outdated(&self, seen: impl Fn() -> Option<ObservedConfig>) {
        let (mut answers, mut found) = (self.answers.clone(), self.found.clone());
        loop {
            answers.mark_unchanged();
            found.mark_unchanged();
            if self.is_outdated(seen().as_ref()) {
                return;
            }
            tokio::select! {
                changed = answers.changed() => if changed.is_err() { return },
                changed = found.changed() => if changed.is_err() { return },
            }
        }
    }

    fn is_outdated(&self, seen: Option<&ObservedConfig>) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(wanted), Some(told)) = (&told.wanted, &told.effective) else { return false };
        // Names that have no address any more keep those that they had.
        self.weigh(wanted, seen).is_ok_and(|now| now.wanted != told.wanted)
    }

    pub fn health(&self) -> Health {
        self.found.borrow().health.clone()
    }

    pub fn resolved(&self) -> Option<Arc<DesiredConfig>> {
        self.resolved.borrow().clone()
    }

    pub fn departures(&self) -> Vec<Departure> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.effective.as_ref().map_or_else(Vec::new, |told| told.departures.clone())
    }
}
