//! How many agents below a manager can take part in a release: the kind `eligible`.
//!
//! A child that fits is counted only if it fits as a whole: area, labels and runtimes of the same child. One that has
//! nothing in hand anywhere and has not called for a while is counted as silent, apart from the live ones.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::kind::{QuestionKind, ToAnswer, Unanswered, ask_all};
use crate::Engine;
use domain::{
    plan,
    plan::Needs,
    release::{
        command::LastSeen as _,
        liveness_check::{SilenceLimit, SilenceLimits},
        next_action,
        state::Snapshot,
    },
};
use language::Target;
use model::{ChildKey, Exclusion};

/// The kind `eligible`.
#[derive(Debug)]
pub struct Eligible;

/// What is needed, and how long an agent may be silent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EligibleWanted {
    #[serde(with = "NeedsForm")]
    pub needs: Needs,
    #[serde(rename = "silent_after_ms", with = "limits_form")]
    pub limits: SilenceLimits,
}

/// As it goes down the tree: in milliseconds of serving time.
mod limits_form {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::SilenceLimits;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub fn serialize<S: Serializer>(limits: &SilenceLimits, to: S) -> Result<S::Ok, S::Error> {
        let SilenceLimits { after_ms } = *limits;
        to.serialize_u64(after_ms)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SilenceLimits, D::Error> {
        Ok(SilenceLimits { after_ms: u64::deserialize(from)? })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Needs")]
struct NeedsForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    runtimes: Vec<[String; 2]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routers: Vec<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    functions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bases: Vec<u64>,
}

/// Agents by whether they can take part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Able {
    /// They can, and were heard of.
    pub live: u32,
    /// They could, but were not heard of for too long.
    pub silent: u32,
    /// Of managers that were not heard: at most so many more.
    pub not_asked: u32,
    /// Managers that were not heard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<String>,
    /// They can't, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub excluded: BTreeMap<Exclusion, u32>,
}

/// Managers named as unheard of at most.
const MAX_NAMED: usize = 100;

impl Able {
    /// All that can take part, as far as is known.
    pub fn at_most(&self) -> u32 {
        self.live.saturating_add(self.silent).saturating_add(self.not_asked)
    }

    fn add(&mut self, other: Self) {
        let sums = [
            (&mut self.live, other.live),
            (&mut self.silent, other.silent),
            (&mut self.not_asked, other.not_asked),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        let room = MAX_NAMED.saturating_sub(self.unheard.len());
        self.unheard.extend(other.unheard.into_iter().take(room));
        for (why, agents) in other.excluded {
            let sum = self.excluded.entry(why).or_default();
            *sum = sum.saturating_add(agents);
        }
    }

    /// No more than a child says that it has: it may have changed, or say nonsense.
    #[must_use]
    fn within(self, agents: u32) -> Self {
        let live = self.live.min(agents);
        let silent = self.silent.min(agents - live);
        let not_asked = self.not_asked.min(agents - live - silent);
        Self { live, silent, not_asked, ..self }
    }
}

impl QuestionKind for Eligible {
    const NAME: &'static str = "eligible";
    type Body = EligibleWanted;
    type Answer = Able;

    async fn answer(asked: ToAnswer, wanted: EligibleWanted) -> Result<Able, String> {
        wanted.needs.validate()?;
        let needs = wanted.needs.clone();
        let limits = wanted.limits;
        let fits = asked.look(move |state| Fits::of(state, &needs, limits)).await?;
        let own = fits.own(&asked.engine);
        let below = asked.ask_below::<Self>(fits.questions(&wanted)).await;
        Ok(fits.sum(own, below))
    }
}

/// A manager below that fits.
#[derive(Debug)]
struct ManagerBelow {
    key: ChildKey,
    id: String,
    agents: u32,
}

/// An agent that fits.
#[derive(Debug)]
struct AgentBelow {
    key: ChildKey,
    /// How many it counts for.
    agents: u32,
    /// `None`: it has something in hand, and is never silent.
    limit: Option<SilenceLimit>,
}

/// The children that fit.
#[derive(Debug, Default)]
struct Fits {
    agents: Vec<AgentBelow>,
    managers: Vec<ManagerBelow>,
    excluded: BTreeMap<Exclusion, u32>,
}

impl Fits {
    fn of(state: &Snapshot, needs: &Needs, limits: SilenceLimits) -> Self {
        let mut fits = Self::default();
        plan::able(needs, state, |key, entry, judged| {
            let Some(child) = state.children.get(key) else { return };
            match judged {
                Err(why) => {
                    let sum = fits.excluded.entry(why.exclusion()).or_default();
                    *sum = sum.saturating_add(entry.agents);
                }
                Ok(()) if child.kind().is_manager() => {
                    fits.managers.push(ManagerBelow { key, id: child.id.to_string(), agents: entry.agents });
                }
                Ok(()) => {
                    let limit = (!next_action::has_in_hand(state, key)).then(|| limits.of_child(child));
                    fits.agents.push(AgentBelow { key, agents: entry.agents, limit });
                }
            }
        });
        fits
    }

    fn own(&self, engine: &Engine) -> Able {
        let served_ms = engine.clock().served_ms();
        let mut own = Able { excluded: self.excluded.clone(), ..Able::default() };
        for AgentBelow { key, agents, limit } in &self.agents {
            let last = engine.view().children.last_call(*key).unwrap_or_default();
            let is_silent = limit.is_some_and(|limit| limit.is_passed(last, served_ms));
            let sum = if is_silent { &mut own.silent } else { &mut own.live };
            *sum = sum.saturating_add(*agents);
        }
        own
    }

    fn questions(&self, wanted: &EligibleWanted) -> Vec<(ChildKey, EligibleWanted)> {
        let body = |below: &ManagerBelow| (below.key, wanted.clone());
        // Whoever has no agents need not be asked for them.
        self.managers.iter().filter(|below| below.agents > 0).map(body).collect()
    }

    fn sum(self, mut own: Able, answers: Vec<(ChildKey, Result<Able, Unanswered>)>) -> Able {
        let answers: BTreeMap<_, _> = answers.into_iter().collect();
        for below in self.managers {
            match answers.get(&below.key) {
                Some(Ok(able)) => own.add(able.clone().within(below.agents)),
                Some(Err(_)) => {
                    own.add(Able { not_asked: below.agents, unheard: vec![below.id], ..Able::default() });
                }
                None => {}
            }
        }
        own
    }
}

/// A manager below that is asked for a release.
#[derive(Debug)]
pub struct AskedManager {
    pub key: ChildKey,
    /// That it said it has.
    pub agents: u32,
    pub wanted: Arc<EligibleWanted>,
}

/// Asks managers below this one for a release. Those that don't answer are `None`.
pub async fn of_managers(
    engine: &Engine,
    managers: Vec<AskedManager>,
    time: Duration,
) -> BTreeMap<ChildKey, Option<Able>> {
    let agents: BTreeMap<ChildKey, u32> = managers.iter().map(|asked| (asked.key, asked.agents)).collect();
    let body = |AskedManager { key, wanted, .. }: AskedManager| (key, EligibleWanted::clone(&wanted));
    let answers = ask_all::<Eligible>(engine, managers.into_iter().map(body).collect(), time).await;
    let within = |key: ChildKey, able: Able| able.within(agents.get(&key).copied().unwrap_or_default());
    answers.into_iter().map(|(key, said)| (key, said.ok().map(|able| within(key, able)))).collect()
}
