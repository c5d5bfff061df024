//! Collectors of metrics: functions tell them when something begins and ends, and they tell the manager how long it took.
//!
//! An event is text: `function:begin:NUMBER`, `function:end:NUMBER`, `workflow:begin:NUMBER`, `workflow:end:NUMBER`, or `reset:MS`. What a
//! function begins it ends itself; what is begun of a workflow another function of it may end. It counts when something was put out, not
//! when that came here: an event may have waited.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use protocol::measurements::Measured;

use super::{
    basics::{lock, now_ms},
    event::Event,
    samples::Samples,
};

/// Most that is begun and not ended, of a collector. The older half is forgotten then.
const MAX_BEGUN: usize = 10_000;

/// By instance.
#[derive(Debug)]
pub(super) struct Collectors {
    of: Mutex<HashMap<String, Collector>>,
    samples: Arc<Samples>,
}

#[derive(Debug, Default)]
struct Collector {
    /// By whose it is and its number: when it was begun, in milliseconds since 1970 of this machine's clock.
    begun: HashMap<(Of, u64), i64>,
    /// Until then nothing counts.
    warm_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Of {
    Workflow,
    /// By its logical id.
    Function(String),
}

enum Said {
    Begin(Of, u64),
    End(Of, u64),
    Reset(u64),
}

impl Collectors {
    pub fn new(samples: Arc<Samples>) -> Self {
        Self { of: Mutex::default(), samples }
    }

    pub fn keep(&self, is_here: impl Fn(&str) -> bool) {
        lock(&self.of).retain(|instance, _| is_here(instance));
    }

    /// Takes an event; an error says why it is none of a collector.
    pub fn take(&self, instance: &str, event: &Event<'_>) -> Result<(), String> {
        let said = read(event)?;
        let at_ms = now_ms().saturating_sub_unsigned(event.age_ms);
        let collector = instance.to_owned();
        let mut all = lock(&self.of);
        let of = all.entry(collector.clone()).or_default();
        match said {
            Said::Begin(whose, number) => {
                if of.begun.len() >= MAX_BEGUN {
                    of.forget_older();
                }
                of.begun.insert((whose, number), at_ms);
            }
            Said::End(whose, number) => {
                // What was begun before this agent was started, or elsewhere, isn't known.
                let Some(begun_ms) = of.begun.remove(&(whose.clone(), number)) else { return Ok(()) };
                if at_ms < of.warm_ms {
                    return Ok(());
                }
                let ms = u64::try_from(at_ms - begun_ms).unwrap_or(0);
                let what = match whose {
                    Of::Workflow => Measured::Workflow { collector, ms },
                    Of::Function(logical) => Measured::Function { collector, logical, ms },
                };
                self.samples.add(at_ms, what);
            }
            Said::Reset(warm_up_ms) => {
                of.warm_ms = at_ms.saturating_add_unsigned(warm_up_ms);
                self.samples.add(at_ms, Measured::Reset { collector });
            }
        }
        Ok(())
    }
}

impl Collector {
    fn forget_older(&mut self) {
        let mut times: Vec<i64> = self.begun.values().copied().collect();
        let middle = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(middle);
        let middle = *middle;
        let before = self.begun.len();
        self.begun.retain(|_, at| *at > middle);
        tracing::warn!(
            forgotten = before - self.begun.len(),
            "what functions began and didn't end is forgotten: too much of it"
        );
    }
}

fn read(event: &Event<'_>) -> Result<Said, String> {
    let text = std::str::from_utf8(event.body).map_or("", str::trim);
    let words: Vec<&str> = text.split(':').collect();
    let number = words.last().and_then(|word| word.parse::<u64>().ok());
    let whose = match words.first() {
        Some(&"workflow") => Of::Workflow,
        _ => Of::Function(event.logical.to_owned()),
    };
    match (words.as_slice(), number) {
        (["workflow" | "function", "begin", _], Some(number)) => Ok(Said::Begin(whose, number)),
        (["workflow" | "function", "end", _], Some(number)) => Ok(Said::End(whose, number)),
        (["reset", _], Some(ms)) => Ok(Said::Reset(ms)),
        _ => Err("a collector of metrics is told function:begin:NUMBER, function:end:NUMBER, \
                  workflow:begin:NUMBER, workflow:end:NUMBER or reset:MS"
            .to_owned()),
    }
}
