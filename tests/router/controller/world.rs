//! A router in memory and its time, for the state machine that leads it.

use std::{collections::BTreeSet, sync::Arc};

use router::controller::{
    Act, DriftAction, Event, OnDrift, Order, Phase, RouterEvent, Settings, StateMachine, Status, Trouble,
    TroubleKind,
};
use traffic::{
    desired::{DesiredConfig, Number, Target},
    health::{Effective, Grain},
    observed::{ObservedConfig, differences},
};

use super::states::{health, obeyed};

/// How long whoever asks waits.
pub const APPLY_WITHIN_MS: u64 = 30_000;
pub const READ_WITHIN_MS: u64 = 5_000;

/// What becomes of something that the router is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Good,
    /// It says no, and nothing changes.
    Refuses,
    /// It says yes, and nothing changes.
    Lies,
    /// It never answers, and nothing changes.
    Hangs,
    /// It does it, and never answers.
    IsSilent,
}

#[derive(Debug)]
struct Way {
    act: Act,
    told: Option<Arc<Effective>>,
    fate: Fate,
    ends_ms: u64,
}

#[derive(Debug)]
pub struct World {
    pub core: StateMachine,
    pub now_ms: u64,
    /// What the router does.
    pub does: ObservedConfig,
    /// The newest number that it knows of.
    pub knows: Option<Number>,
    pub connections: Option<u64>,
    pub facts: Vec<(u64, RouterEvent)>,
    /// What it was told and did, in order.
    pub obeyed: Vec<DesiredConfig>,
    /// How often it was told something.
    pub told: usize,
    /// What becomes of what is asked next; good, once these are used up.
    pub fates: Vec<Fate>,
    pub always: Fate,
    /// What becomes of all that it is told, whatever else is asked.
    pub applies: Option<Fate>,
    pub bad: BTreeSet<Target>,
    pub unknown: BTreeSet<Target>,
    way: Option<Way>,
    last_read: Option<ObservedConfig>,
    /// Repairs before then don't count: who leads was started anew, or was told to repair.
    counts_from_ms: u64,
}

pub fn settings() -> Settings {
    Settings { seed: 7, ..Settings::of(Grain::Target) }
}

impl World {
    pub fn new() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: Settings) -> Self {
        Self {
            core: StateMachine::new(settings),
            now_ms: 0,
            does: ObservedConfig::default(),
            knows: None,
            connections: Some(0),
            facts: Vec::new(),
            obeyed: Vec::new(),
            told: 0,
            fates: Vec::new(),
            always: Fate::Good,
            applies: None,
            bad: BTreeSet::new(),
            unknown: BTreeSet::new(),
            way: None,
            last_read: None,
            counts_from_ms: 0,
        }
    }

    /// Whoever leads is started anew; the router goes on.
    pub fn restart(&mut self, settings: Settings) {
        self.give_up();
        self.counts_from_ms = self.now_ms;
        self.core = StateMachine::new(settings);
    }

    pub fn order(&mut self, order: Order) {
        if matches!(order, Order::Repair) {
            self.counts_from_ms = self.now_ms;
        }
        self.handle(Event::Ordered(order));
    }

    pub fn want(&mut self, wanted: &DesiredConfig) {
        self.order(Order::Want(Box::new(wanted.clone())));
        self.tell_health();
    }

    pub fn on_drift(&mut self, on_drift: OnDrift) {
        self.order(Order::OnDrift(on_drift));
    }

    /// Tells what is known of targets now.
    pub fn tell_health(&mut self) {
        let Some(resolved) = self.core.resolved() else { return };
        let health = health(resolved, &self.bad, &self.unknown);
        self.handle(Event::Health(health));
    }

    pub fn handle(&mut self, event: Event) {
        self.core.handle(event, self.now_ms);
        self.check();
    }

    pub fn status(&self) -> Status {
        self.core.status()
    }

    pub fn phase(&self) -> Phase {
        self.status().phase
    }

    /// Facts in words, since the beginning.
    pub fn told_facts(&self) -> String {
        self.facts.iter().map(|(_, fact)| fact.to_string()).collect::<Vec<_>>().join("\n")
    }

    pub fn has_said(&self, is_it: impl Fn(&RouterEvent) -> bool) -> bool {
        self.facts.iter().any(|(_, fact)| is_it(fact))
    }

    pub fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began_ms = self.now_ms;
        while !is_so(self) {
            assert!(
                self.now_ms < began_ms + 600_000,
                "not within ten minutes: {what}\n{}",
                self.told_facts()
            );
            self.step();
        }
    }

    pub fn until_in_force(&mut self) {
        self.until("in force", |world| world.phase() == Phase::InForce);
    }

    pub fn pass_ms(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while self.now_ms < until_ms {
            self.step();
        }
    }

    /// Does what is to be done, and lets time pass until the next thing happens.
    pub fn step(&mut self) {
        self.start_act();
        let wake_ms = self.now_ms + self.core.wakes_in_ms(self.now_ms);
        self.now_ms = self.way.as_ref().map_or(wake_ms, |way| way.ends_ms.min(wake_ms));
        if let Some(way) = self.way.take_if(|way| way.ends_ms <= self.now_ms) {
            let event = self.end(way);
            self.handle(event);
        } else {
            self.core.pass(self.now_ms);
            self.check();
        }
    }

    /// Begins what is to be done. It is on its way then, until a step ends it.
    pub fn start_act(&mut self) {
        let act = self.core.acts(self.now_ms);
        if self.way.as_ref().map(|way| &way.act) != act.as_ref() {
            self.give_up();
            self.way = act.map(|act| self.begin(act));
        }
    }

    fn begin(&mut self, act: Act) -> Way {
        let fate = if self.fates.is_empty() { self.always } else { self.fates.remove(0) };
        let told = self.core.errand().filter(|_| matches!(act, Act::Apply(_)));
        let fate = self.applies.filter(|_| told.is_some()).unwrap_or(fate);
        let (quick_ms, slow_ms) = match act {
            Act::Apply(_) => (30, APPLY_WITHIN_MS),
            Act::Read(_) | Act::Connections { .. } => (5, READ_WITHIN_MS),
        };
        if let Some(told) = &told {
            self.told += 1;
            self.check_told(told);
        }
        let is_late = matches!(fate, Fate::Hangs | Fate::IsSilent);
        Way { act, told, fate, ends_ms: self.now_ms + if is_late { slow_ms } else { quick_ms } }
    }

    /// What is given up may have been done already.
    fn give_up(&mut self) {
        if let Some(way) = self.way.take()
            && matches!(way.fate, Fate::Good | Fate::IsSilent)
            && let Some(told) = way.told
        {
            let _ = self.obey(&told.wanted);
        }
    }

    fn obey(&mut self, wanted: &DesiredConfig) -> Result<(), Trouble> {
        if let Some(newest) = self.knows.filter(|newest| *newest > wanted.number) {
            return Err(Trouble { kind: TroubleKind::Older(newest), text: "older".to_owned() });
        }
        self.knows = Some(wanted.number);
        self.does = obeyed(wanted);
        self.obeyed.push(wanted.clone());
        Ok(())
    }

    fn end(&mut self, Way { act, told, fate, .. }: Way) -> Event {
        let answer = match fate {
            Fate::Good | Fate::Lies => Ok(()),
            Fate::Refuses => Err(Trouble::passing("it refuses")),
            Fate::Hangs | Fate::IsSilent => Err(Trouble::passing("it takes too long")),
        };
        match (act, told) {
            (Act::Apply(_), Some(told)) => {
                let done = match fate {
                    Fate::Good | Fate::IsSilent => self.obey(&told.wanted),
                    Fate::Refuses | Fate::Lies | Fate::Hangs => Ok(()),
                };
                Event::Applied { told, applied: done.and(answer) }
            }
            (Act::Apply(_), None) => unreachable!("nothing was to be told"),
            (Act::Read(_), _) => {
                let read = answer.map(|()| self.does.clone());
                self.last_read = read.as_ref().ok().cloned().or(self.last_read.take());
                Event::Read(read)
            }
            (Act::Connections { service, variation }, _) => {
                Event::Connections { service, variation, counted: answer.map(|()| self.connections) }
            }
        }
    }

    /// What may be told at all.
    fn check_told(&self, told: &Effective) {
        let newest = self.core.status().seen.and_then(|seen| seen.number);
        assert!(newest.is_none_or(|newest| newest <= told.wanted.number), "older than what was seen");
        for service in told.wanted.services() {
            for variant in service.variants().skip(1) {
                let asked = service.rule.iter().flat_map(|rule| &rule.values);
                let gets = variant.hundredths > 0 || asked.into_iter().any(|(_, to)| *to == variant.which);
                let is_there = variant.variation.targets.iter().any(|target| !self.bad.contains(target));
                assert!(
                    !gets || is_there,
                    "{} of {} has no healthy target",
                    variant.variation.name,
                    service.name
                );
            }
        }
    }

    /// What may be said at all.
    fn check(&mut self) {
        for fact in self.core.take_facts() {
            if let RouterEvent::InForce { number, .. } = &fact {
                let effective = self.core.errand().unwrap();
                let read = self.last_read.as_ref().unwrap();
                assert_eq!(read.number, Some(*number));
                assert_eq!(self.status().wanted, Some(*number));
                assert_eq!(differences(&effective.wanted, read), [], "in force is what was read back");
            }
            let text = fact.to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
            self.facts.push((self.now_ms, fact));
        }
        let since_ms = self.now_ms.saturating_sub(3_600_000).max(self.counts_from_ms);
        let is_repair =
            |fact: &RouterEvent| matches!(fact, RouterEvent::Drift { then: DriftAction::Repaired, .. });
        let repairs = self.facts.iter().filter(|(at, fact)| *at > since_ms && is_repair(fact)).count();
        assert!(repairs <= 3, "{repairs} repairs within an hour");
    }
}
