//! Random small strategies.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range};

use language::Group;

use super::{dice::Dice, services::PlannedService};
use crate::releases::{AB, WAIT, strategy_text};

/// The stages of a strategy, as far as it has so many.
pub const NAMES: [&str; 3] = ["One", "Two", "Three"];

/// The chance that whoever writes a strategy takes something for the base version that needn't serve.
const MISTAKEN: f64 = 0.15;

/// What lies in the folder of a version of a function: what was there before any release (0), or what the release of this number brought.
fn content(function: &str, number: u64) -> u64 {
    let name = function.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (name << 16) | number
}

/// What was there of a function before any release.
pub fn first(function: &str) -> u64 {
    content(function, 0)
}

/// A strategy and what a checker needs to know of it.
#[derive(Debug, Clone)]
pub struct Planned {
    pub id: String,
    pub text: String,
    /// The first and last place in the row of areas that it is for.
    pub target: Option<(usize, usize)>,
    pub led: Option<Led>,
    /// Success leads from each stage to the next, and every failure to the base version.
    pub is_straight: bool,
    pub stages: usize,
    /// Of a release of functions and services: the first stage of a service; those of the function stand before it.
    pub first_of_routers: Option<usize>,
    /// Services that it shares out; none: it is of a function.
    pub services: Vec<PlannedService>,
    /// Its function, and the number of the release whose version it begins with; 0: what was there before.
    pub function: Option<(&'static str, u64)>,
}

impl Planned {
    /// The stages that a group walks through.
    pub fn stages_of(&self, group: Group) -> Range<usize> {
        match (self.first_of_routers, group) {
            (None, _) => 0..self.stages,
            (Some(first), Group::Agents) => 0..first,
            (Some(first), Group::Routers) => first..self.stages,
        }
    }

    /// Whether its roll-out begins with this stage, for agents or for routers.
    pub fn is_rollout(&self, stage: usize) -> bool {
        stage == self.stages || Some(stage) == self.first_of_routers
    }

    /// Which release it is, from 1.
    pub fn number(&self) -> u64 {
        self.id[1..].parse().expect("r and a number")
    }

    /// What the folders of its function hold.
    pub fn contents(&self) -> Vec<[u64; 2]> {
        let of = |(name, base): &(&str, u64)| [content(name, *base), content(name, self.number())];
        self.function.iter().map(of).collect()
    }

    /// Whether a stage may be ended before its minima are met, for want of calls.
    pub fn may_end_early(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.may_end_early)
    }
}

#[derive(Debug, Clone)]
pub struct Led {
    pub order: &'static str,
    pub soak_ms: u64,
    pub approval: Option<&'static str>,
    /// A stage without calls is ended before all others of its time are over.
    pub may_end_early: bool,
    /// For `waves`: the size of each, growing; the last is everybody.
    pub waves: Vec<Size>,
}

#[derive(Debug, Clone, Copy)]
pub enum Size {
    Count(u64),
    Percent(u64),
}

impl Size {
    /// How many of `all` have had their turn after this wave.
    pub const fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (all * percent as usize).div_ceil(100),
        }
    }
}

/// The number of the release whose version of a function is taken for the base. `serving`: what the last release has left, by function.
pub fn draw_base(
    dice: &mut Dice,
    number: usize,
    function: &'static str,
    serving: &BTreeMap<&str, u64>,
) -> (&'static str, u64) {
    let serves = serving.get(function).copied().unwrap_or_default();
    let is_mistaken = dice.chance(MISTAKEN);
    (function, if is_mistaken { dice.below(number) as u64 } else { serves })
}

/// `serving`: what the last release has left, by function.
pub fn draw(dice: &mut Dice, number: usize, places: usize, serving: &BTreeMap<&str, u64>) -> Planned {
    let id = format!("r{number}");
    let (mut extra, target) = draw_whom(dice, places);
    let led = dice.chance(0.7).then(|| draw_led(dice, &mut extra));
    let stages = 1 + dice.below(3);
    let is_straight = dice.chance(0.8);
    let function = dice.pick(&["a", "a", "b"]);
    let begins = draw_base(dice, number, function, serving);
    let rows: Vec<[&str; 5]> = (0..stages)
        .map(|at| {
            let kind = dice.pick(&[AB, WAIT, WAIT]);
            let next = NAMES.get(at + 1).filter(|_| at + 1 < stages).copied();
            let fails = if is_straight { "rollback" } else { next.unwrap_or("rollback") };
            [NAMES[at], kind, function, next.unwrap_or("rollout"), fails]
        })
        .collect();
    let text = strategy_text(&id, &extra, &[function], &rows);
    Planned {
        id,
        text,
        target,
        led,
        is_straight,
        stages,
        first_of_routers: None,
        services: Vec::new(),
        function: Some(begins),
    }
}

/// Deadlines, what becomes of others in the way, and for whom it is.
pub(super) fn draw_whom(dice: &mut Dice, places: usize) -> (String, Option<(usize, usize)>) {
    let mut extra = String::from("offer_deadline: 40s\nsetup_grace: 45s\nstage_deadline: 150s\n");
    if dice.chance(0.2) {
        extra.push_str("on_conflict: supersede\n");
    }
    let target = dice.chance(0.4).then(|| {
        let first = dice.below(places);
        (first, first + dice.below(places - first))
    });
    if let Some((first, last)) = target {
        let (west, east) = (first as f64 - 0.1, last as f64 + 0.9);
        let _ = writeln!(
            extra,
            "target: {{area: {{type: Polygon, coordinates: [[[{west}, 0.2], [{east}, 0.2], [{east}, 0.8], [{west}, 0.8], [{west}, 0.2]]]}}}}"
        );
    }
    (extra, target)
}

fn draw_led(dice: &mut Dice, extra: &mut String) -> Led {
    let orders = ["parallel", "location_sequential", "global_incremental", "waves"];
    draw_led_by(dice, extra, &orders, &["leave", "rollout"])
}

/// `orders`: in which of these. `untested`: what becomes of those without calls.
pub(super) fn draw_led_by(
    dice: &mut Dice,
    extra: &mut String,
    orders: &[&'static str],
    untested: &[&'static str],
) -> Led {
    let order = dice.pick(orders);
    let mut led = Led { order, soak_ms: 0, approval: None, waves: Vec::new(), may_end_early: false };
    let _ = write!(extra, "rollout: {{order: {order}");
    match order {
        "location_sequential" => extra.push_str(", start_at: [0.0, 0.5]"),
        "waves" => {
            led.waves = match dice.below(3) {
                0 => vec![Size::Count(1), Size::Percent(50), Size::Percent(100)],
                1 => vec![Size::Percent(30), Size::Percent(100)],
                _ => vec![Size::Count(2), Size::Percent(100)],
            };
            let sizes: Vec<String> = led
                .waves
                .iter()
                .map(|size| match size {
                    Size::Count(count) => count.to_string(),
                    Size::Percent(percent) => format!("{percent}%"),
                })
                .collect();
            let _ = write!(extra, ", waves: [{}]", sizes.join(", "));
        }
        _ => {}
    }
    if order != "parallel" && dice.chance(0.5) {
        led.soak_ms = 1_000 * dice.between(1, 20);
        let _ = write!(extra, ", soak: {}s", led.soak_ms / 1_000);
    }
    if dice.chance(0.4) {
        let approval =
            if order == "waves" && dice.chance(0.5) { "before_each_wave" } else { "before_rollout" };
        led.approval = Some(approval);
        let _ = write!(extra, ", approval: {approval}, approval_timeout: 60s");
    }
    let limit = dice.pick(&["0", "1", "50%", "100%"]);
    let late = dice.pick(&["0", "1", "100%"]);
    let then = dice.pick(&["rollback", "pause", "pause", "continue"]);
    // Where no failure is borne, own agents keep the shares of what fails.
    let limit = if then == "pause" { "0" } else { limit };
    let _ = write!(extra, ", max_failed: {limit}, max_timed_out: {late}, on_failure: {then}");
    if dice.chance(0.7) {
        let no_calls = dice.pick(&["after 5s", "after 20s", "after 1m", "never"]);
        let untested = dice.pick(untested);
        let most = dice.pick(&["0", "1", "100%", "100%"]);
        let _ = write!(extra, ", no_calls: {no_calls}, untested: {untested}, max_untested: {most}");
        led.may_end_early = no_calls != "never";
    }
    extra.push_str("}\n");
    led
}
