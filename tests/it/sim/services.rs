//! Random releases of services: one or two of them, each with two to four variations, in stages with odd shares.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    dice::Dice,
    plans::{self, NAMES, Planned},
};

/// Names and ports of services.
pub const SERVICES: [(&str, u16); 2] = [("shop", 8_080), ("search", 8_081)];

/// All shares, in units of 0.01 %.
pub const WHOLE: u16 = 10_000;

/// By how much the variations beside the stable one grow from one stage to the next, in units of 0.01 %.
const STEPS: [u16; 9] = [0, 1, 7, 99, 250, 1_000, 1_667, 2_500, 3_333];

/// What serves before there was any release.
const FIRST: &str = "first";

/// The chance that whoever writes a strategy takes something for stable that doesn't serve.
const MISTAKEN: f64 = 0.07;

/// A service in a release, as far as a checker needs to know.
#[derive(Debug, Clone)]
pub struct PlannedService {
    pub name: &'static str,
    /// Names of variations; the first is the stable one. A name is of one target, in all releases.
    pub variations: Vec<String>,
    /// Of each stage: what the variations get there in units of 0.01 %; `None`: it is a stage of another service.
    pub shares: Vec<Option<Vec<u16>>>,
}

impl PlannedService {
    /// What it has come to in a stage, or before the first one of its own.
    pub fn shares_in(&self, stage: usize) -> Vec<u16> {
        let own = self.shares.iter().take(stage + 1).flatten();
        own.last().cloned().unwrap_or_else(|| self.all_to(0))
    }

    pub fn all_to(&self, variation: usize) -> Vec<u16> {
        (0..self.variations.len()).map(|at| if at == variation { WHOLE } else { 0 }).collect()
    }

    /// Which variation serves alone when all has gone well: that which had most beside the stable one, of equals the first.
    pub fn winner(&self) -> usize {
        let last = self.shares_in(self.shares.len());
        let mut winner = 1;
        for at in 2..last.len() {
            if last[at] > last[winner] {
                winner = at;
            }
        }
        winner
    }
}

/// Which variation a target is.
pub fn target_of(variation: &str) -> String {
    let number = |text: &str| text.parse::<u16>().unwrap_or_default();
    let (release, which) =
        variation.strip_prefix('r').and_then(|rest| rest.split_once('v')).unwrap_or(("0", "0"));
    format!("10.{}.{}.1:9000", number(release), number(which))
}

/// The release that has brought a variation; `None`: it was there before.
pub fn brought_by(variation: &str) -> Option<String> {
    let (release, _) = variation.strip_prefix('r')?.split_once('v')?;
    Some(format!("r{release}"))
}

/// `serving`: what the last release has left, by service.
pub fn draw(dice: &mut Dice, number: usize, places: usize, serving: &BTreeMap<&str, String>) -> Planned {
    let orders = ["global_incremental", "global_incremental", "waves", "location_sequential", "parallel"];
    draw_with(dice, number, places, serving, (None, &orders))
}

/// The same, of a function as well, which has the first stage.
pub fn draw_hybrid(
    dice: &mut Dice,
    number: usize,
    places: usize,
    serving: &BTreeMap<&str, String>,
    of_functions: &BTreeMap<&str, u64>,
) -> Planned {
    let function = dice.pick(&["a", "a", "b"]);
    let function = plans::draw_base(dice, number, function, of_functions);
    draw_with(
        dice,
        number,
        places,
        serving,
        (Some(function), &["global_incremental", "parallel", "waves", "location_sequential"]),
    )
}

fn draw_with(
    dice: &mut Dice,
    number: usize,
    places: usize,
    serving: &BTreeMap<&str, String>,
    (begins, orders): (Option<(&'static str, u64)>, &[&'static str]),
) -> Planned {
    let function = begins.map(|(name, _)| name);
    let id = format!("r{number}");
    let (mut extra, target) = plans::draw_whom(dice, places);
    // Somebody has to say when the routers begin.
    let is_led = dice.chance(0.9) || function.is_some();
    // A service isn't given to a variation that nobody has tried.
    let led = is_led.then(|| plans::draw_led_by(dice, &mut extra, orders, &["leave"]));
    let both = dice.chance(0.35);
    let one = dice.below(2);
    let chosen: Vec<_> = if both { SERVICES.to_vec() } else { vec![SERVICES[one]] };
    let first = usize::from(function.is_some());
    let stages = first + chosen.len().max(1 + dice.below(3 - first));
    let mut services: Vec<PlannedService> = chosen
        .iter()
        .map(|(name, _)| {
            let is_mistaken = dice.chance(MISTAKEN);
            let stable =
                serving.get(name).filter(|_| !is_mistaken).cloned().unwrap_or_else(|| FIRST.to_owned());
            let new = 1 + dice.below(3);
            let new = (1..=new).map(|which| format!("r{number}v{which}"));
            PlannedService {
                name,
                variations: std::iter::once(stable).chain(new).collect(),
                shares: vec![None; stages],
            }
        })
        .collect();
    for stage in first..stages {
        let which = if stage - first < services.len() { stage - first } else { dice.below(services.len()) };
        let service = &mut services[which];
        let mut shares = service.shares_in(stage);
        for at in 1..shares.len() {
            let more = dice.pick(&STEPS).min(shares[0]);
            shares[at] += more;
            shares[0] -= more;
        }
        service.shares[stage] = Some(shares);
    }
    let text = text(dice, &id, &extra, function, &services);
    let first_of_routers = function.map(|_| first);
    Planned { id, text, target, led, is_straight: true, stages, first_of_routers, services, function: begins }
}

fn text(
    dice: &mut Dice,
    id: &str,
    extra: &str,
    function: Option<&str>,
    services: &[PlannedService],
) -> String {
    let mut text = format!("id: {id}\nname: {id}\n{extra}");
    if let Some(name) = function {
        let _ = write!(
            text,
            "functions:\n  - name: {name}\n    base_version: {{path: fns/{name}_base, env: nodejs}}\n    \
             new_version: {{path: fns/{name}_new, env: nodejs}}\n"
        );
    }
    text.push_str("services:\n");
    let salted = dice.chance(0.15);
    for PlannedService { name, variations, .. } in services {
        let port = SERVICES.iter().find(|(of, _)| of == name).map_or(0, |(_, port)| *port);
        let _ = write!(
            text,
            "  - name: {name}\n    ports: [{{port: {port}}}]\n    sticky: {{header: X-User}}\n{}    variations:\n",
            if salted { "    salt: service\n" } else { "" }
        );
        for name in variations {
            let _ = writeln!(text, "      - {{name: {name}, targets: [\"{}\"]}}", target_of(name));
        }
    }
    text.push_str("stages:\n");
    if let Some(name) = function {
        let (kind, next) = (dice.pick(&["A/B", "WaitForSignal"]), dice.pick(&[NAMES[1], "rollout"]));
        let _ = write!(
            text,
            "  - name: {}\n    type: {kind}\n    func_name: {name}\n    variants:\n      - {{name: base_version, \
             trafficPercentage: 90}}\n      - {{name: new_version, trafficPercentage: 10}}\n    metrics_conditions:\n      \
             - {{name: errorRate, threshold: \"<0.1\"}}\n    end_conditions:\n      - {{name: minDuration, threshold: 5s}}\n      \
             - {{name: minCalls, threshold: \"10\"}}\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
            NAMES[0]
        );
    }
    let stages = services[0].shares.len();
    for (at, stage) in NAMES.iter().enumerate().take(stages) {
        let Some((service, shares)) = services.iter().find_map(|of| Some((of, of.shares[at].as_ref()?)))
        else {
            continue;
        };
        let kind = dice.pick(&["Traffic", "Traffic", "WaitForSignal"]);
        let named = service.variations.iter().zip(shares);
        let named = named.map(|(name, share)| format!("{name}: {}.{:02}", share / 100, share % 100));
        let next = NAMES.get(at + 1).filter(|_| at + 1 < stages).copied().unwrap_or("rollout");
        let calls = dice.pick(&[0, 5, 20]);
        let _ = write!(
            text,
            "  - name: {}\n    type: {kind}\n    service: {}\n    shares: {{{}}}\n    metrics_conditions:\n      - {{name: \
             errorRate, threshold: \"<0.1\"}}\n    end_conditions:\n      - {{name: minDuration, threshold: 5s}}\n      \
             - {{name: minCalls, threshold: \"{calls}\"}}\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
            stage,
            service.name,
            named.collect::<Vec<_>>().join(", ")
        );
    }
    text
}
