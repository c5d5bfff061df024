//! The YAML reader of a deployed agent, which is a narrow one.
//!
//! It knows the keys of the reference document and ignores others. Thresholds have to be strings and percentages
//! whole numbers; `compareWith` is Median, Minimum or Maximum; operators stand before a number without a space;
//! on the first stage `onFailure` can't name a stage. What it can't read makes the agent exit ([`OfferError`]).
//! Minimum durations and calls are read only when a stage begins ([`OfferStage::minima`]), and there a failure makes
//! the stage do nothing.

use std::{fmt, time::Duration};

use model::duration::read_go;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, Visitor},
};

/// The time of a call that there was not.
const NO_CALL: f64 = -1.0;

/// Shortest time between two reports of a stage that goes on.
const SHORTEST_INTERIM: Duration = Duration::from_millis(10);

/// Why an agent can't read an offer. It exits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OfferError(String);

/// What an agent understands of an offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub id: String,
    pub functions: Vec<Function>,
    pub stages: Vec<OfferStage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Function {
    pub name: String,
    pub base_version: OfferVersion,
    pub new_version: OfferVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename = "Version")]
pub struct OfferVersion {
    pub path: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OfferStage {
    pub name: String,
    /// As written; see [`OfferStage::kind`].
    pub kind: String,
    pub function: String,
    /// 0 to 100.
    pub new_traffic: i64,
    pub conditions: Vec<Condition>,
    min_duration: String,
    min_calls: String,
    pub on_success: NextAction,
    pub on_failure: NextAction,
    /// A deployed agent doesn't look at it.
    pub interim: Option<InterimReports>,
}

/// How a stage is reported while it goes on, by the manager's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterimReports {
    pub every: Duration,
    /// How long the intervals are in which calls are counted apart.
    pub cut: Duration,
}

/// The two types of stage an agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    AB,
    WaitForSignal,
}

/// What a stage has to reach before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minima {
    pub duration: Duration,
    pub calls: u64,
}

/// What follows a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextAction {
    Rollout,
    Rollback,
    Stage(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// `None`: the error rate.
    pub response_time: Option<Statistic>,
    pub operator: Comparator,
    pub threshold: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    Median,
    Minimum,
    Maximum,
    /// From 0 to 1. A deployed agent knows none.
    Quantile(f64),
}

/// How much of a strategy is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Narrow,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Offer {
    pub fn read(yaml: &str) -> Result<Self, OfferError> {
        Self::read_by(yaml, Reading::Narrow)
    }

    /// As one reads it that takes whole strategies: with percentiles, and every way through the stages.
    pub fn read_whole(yaml: &str) -> Result<Self, OfferError> {
        Self::read_by(yaml, Reading::Whole)
    }

    fn read_by(yaml: &str, reading: Reading) -> Result<Self, OfferError> {
        let raw: RawOffer =
            serde_saphyr::from_str(yaml).map_err(|error| OfferError(first_line(&error.to_string())))?;
        let stages = raw
            .stages
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(position, stage)| stage.read(reading, position == 0))
            .collect::<Result<_, _>>()?;
        Ok(Self { id: raw.id, functions: raw.functions.unwrap_or_default(), stages })
    }
}

impl OfferStage {
    /// `None` for a type the agent doesn't know.
    pub fn kind(&self) -> Option<StageKind> {
        match self.kind.as_str() {
            "A/B" => Some(StageKind::AB),
            "WaitForSignal" => Some(StageKind::WaitForSignal),
            _ => None,
        }
    }

    /// `None` where the agent can't read them: a duration in days, a number of calls with a fraction.
    pub fn minima(&self) -> Option<Minima> {
        Some(Minima { duration: read_go(&self.min_duration)?, calls: self.min_calls.parse().ok()? })
    }
}

impl Condition {
    /// -1, no call, is compared like any other number, and 0 errors of 0 calls are a rate of 0.
    /// `quantile`: the times of its calls by share.
    pub fn holds(
        &self,
        times: &protocol::TimesForm,
        error_rate: f64,
        quantile: impl Fn(f64) -> Option<f64>,
    ) -> bool {
        let value = match self.response_time {
            None => error_rate,
            Some(Statistic::Median) => times.median,
            Some(Statistic::Minimum) => times.minimum,
            Some(Statistic::Maximum) => times.maximum,
            Some(Statistic::Quantile(q)) => quantile(q).unwrap_or(NO_CALL),
        };
        match self.operator {
            Comparator::Less => value < self.threshold,
            Comparator::LessOrEqual => value <= self.threshold,
            Comparator::Greater => value > self.threshold,
            Comparator::GreaterOrEqual => value >= self.threshold,
            Comparator::Equal => (value - self.threshold).abs() < f64::EPSILON,
        }
    }
}

impl NextAction {
    fn read(text: &str) -> Self {
        match text {
            "rollout" => Self::Rollout,
            "rollback" => Self::Rollback,
            stage => Self::Stage(stage.into()),
        }
    }

    /// The stage that follows; empty: none.
    pub fn stage(&self) -> &str {
        match self {
            Self::Stage(name) => name,
            Self::Rollout | Self::Rollback => "",
        }
    }

    /// As it stands in the YAML.
    pub fn as_written(&self) -> &str {
        match self {
            Self::Rollout => "rollout",
            Self::Rollback => "rollback",
            Self::Stage(name) => name,
        }
    }
}

/// The reader's own errors go on with an extract of the text.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().into()
}

// What the YAML says.

#[derive(Deserialize)]
struct RawOffer {
    /// A number is taken as it is written.
    id: String,
    #[serde(default)]
    functions: Option<Vec<Function>>,
    #[serde(default)]
    stages: Option<Vec<RawStage>>,
}

#[derive(Deserialize)]
struct RawStage {
    name: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    func_name: String,
    #[serde(default)]
    variants: Vec<RawVariant>,
    #[serde(default)]
    metrics_conditions: Option<Vec<RawCondition>>,
    #[serde(default)]
    end_conditions: Option<Vec<RawCondition>>,
    end_action: RawEnd,
    #[serde(default)]
    interim: Option<RawInterim>,
}

#[derive(Deserialize)]
struct RawInterim {
    every: String,
    cut: String,
}

impl RawInterim {
    /// `None`: it can't be read, and then it isn't there.
    fn read(self) -> Option<InterimReports> {
        let of = |text: &str| read_go(text).filter(|time| *time >= SHORTEST_INTERIM);
        Some(InterimReports { every: of(&self.every)?, cut: of(&self.cut)? })
    }
}

#[derive(Deserialize)]
struct RawVariant {
    name: String,
    #[serde(rename = "trafficPercentage", deserialize_with = "whole_number")]
    traffic: i64,
}

#[derive(Deserialize)]
struct RawCondition {
    name: String,
    #[serde(deserialize_with = "only_text")]
    threshold: String,
    #[serde(rename = "compareWith", default)]
    compare_with: String,
}

#[derive(Deserialize)]
struct RawEnd {
    #[serde(rename = "onSuccess")]
    on_success: String,
    #[serde(rename = "onFailure")]
    on_failure: String,
}

impl RawStage {
    fn read(self, reading: Reading, first: bool) -> Result<OfferStage, OfferError> {
        let end = |name: &str| {
            let found = self.end_conditions.iter().flatten().find(|condition| condition.name == name);
            found.map_or_else(|| "0".into(), |condition| condition.threshold.clone())
        };
        let on_failure = NextAction::read(&self.end_action.on_failure);
        if first
            && reading == Reading::Narrow
            && let NextAction::Stage(name) = &on_failure
        {
            return Err(OfferError(format!("the first stage can't go to {name:?} on failure")));
        }
        Ok(OfferStage {
            new_traffic: self.variants.iter().find(|v| v.name == "new_version").map_or(0, |v| v.traffic),
            min_duration: end("minDuration"),
            min_calls: end("minCalls"),
            conditions: self
                .metrics_conditions
                .unwrap_or_default()
                .into_iter()
                .map(|condition| condition.read(reading))
                .collect::<Result<_, _>>()?,
            on_success: NextAction::read(&self.end_action.on_success),
            on_failure,
            interim: self.interim.and_then(RawInterim::read),
            name: self.name,
            kind: self.kind,
            function: self.func_name,
        })
    }
}

impl RawCondition {
    fn read(self, reading: Reading) -> Result<Condition, OfferError> {
        let quantile = |with: &str| Some(with.strip_prefix('P')?.parse::<f64>().ok()? / 100.0);
        let response_time = match (self.name.as_str(), self.compare_with.as_str()) {
            ("errorRate", _) => None,
            ("responseTime", "Median") => Some(Statistic::Median),
            ("responseTime", "Minimum") => Some(Statistic::Minimum),
            ("responseTime", "Maximum") => Some(Statistic::Maximum),
            ("responseTime", with) if reading == Reading::Whole && quantile(with).is_some() => {
                quantile(with).map(Statistic::Quantile)
            }
            (name, with) => return Err(OfferError(format!("no condition {name:?} compared with {with:?}"))),
        };
        let number = self.threshold.trim_start_matches(['<', '>', '=']);
        let operator = match &self.threshold[..self.threshold.len() - number.len()] {
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            "=" | "==" => Comparator::Equal,
            _ => return Err(OfferError(format!("no operator in {:?}", self.threshold))),
        };
        let threshold =
            number.parse().map_err(|_| OfferError(format!("no number in {:?}", self.threshold)))?;
        Ok(Condition { response_time, operator, threshold })
    }
}

/// Go decodes an unquoted `100` to a number and then can't put it into a string.
fn only_text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    struct TextVisitor;
    impl Visitor<'_> for TextVisitor {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a threshold as a string")
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.into())
        }
    }
    d.deserialize_any(TextVisitor)
}

fn whole_number<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
    struct PercentageVisitor;
    impl Visitor<'_> for PercentageVisitor {
        type Value = i64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a percentage as a whole number")
        }
        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<i64, E> {
            Ok(number)
        }
        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<i64, E> {
            i64::try_from(number).map_err(E::custom)
        }
    }
    let percentage = d.deserialize_any(PercentageVisitor)?;
    if (0..=100).contains(&percentage) {
        Ok(percentage)
    } else {
        Err(D::Error::custom("a percentage is from 0 to 100"))
    }
}
