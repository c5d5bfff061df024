//! `from_parent`: what a manager says to a manager below it beside the strategy. No developer can write it: it is read only
//! in a text that came from the parent.

use serde::{Deserialize, Serialize};

use super::{
    analysis::MAX_ALPHA,
    diagnostic::quoted,
    fields::{FieldEntry, Fields},
    findings::Findings,
    interim::Interim,
    limits::{MAX_STAGES, MAX_WAVES},
    reading::{read_name, read_scalar, read_truth},
    scalar::{self, ScalarFault, fault},
};

/// What a parent says of its offer. All of it may be absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FromParent {
    /// So many waves are open; the parent opens the others. `None`: there are none to be opened from above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<u32>,
    /// The offer whose release goes on with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// The release of the parent that is to be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// That release is over, and those of its agents that ended badly get another attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries: bool,
    /// How stages are reported while they go on, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interim: Vec<(String, Interim)>,
    /// What is measured is told apart by classes of how fast children were before the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub classes: bool,
    /// The probability with which each agent may ever stop a version that keeps all conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_alpha: Option<f64>,
    /// What the keys of calls are hashed with where a release draws its users: the id that the release has where it was submitted, so
    /// that every attempt at it, and every manager below, draws the same. `None`: the id of the offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// An agent keeps up the shares of a stage that has failed, until it is told what becomes of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_failed: bool,
}

pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<FromParent> {
    let known = [
        "waves",
        "continues",
        "undoes",
        "retries",
        "interim",
        "classes",
        "local_alpha",
        "salt",
        "keeps_failed",
    ];
    let fields = Fields::open(entry.node, "from_above".to_owned(), &known, findings)?;
    let offer = |key: &str, findings: &mut Findings<'_>| {
        let entry = fields.filled(key, "an id", findings)?;
        read_name(entry, findings).map(|name| name.value)
    };
    let (continues, undoes) = (offer("continues", findings), offer("undoes", findings));
    let salt = offer("salt", findings);
    let waves = fields.filled("waves", "1", findings);
    let waves = waves.and_then(|entry| read_scalar(entry, "bad-count", waves_open, findings));
    let truth = |key: &str, findings: &mut Findings<'_>| {
        fields.filled(key, "true", findings).and_then(|entry| read_truth(entry, findings)).unwrap_or_default()
    };
    let (retries, classes) = (truth("retries", findings), truth("classes", findings));
    let keeps_failed = truth("keeps_failed", findings);
    let interim = fields.optional("interim").map(|entry| read_interims(entry, findings)).unwrap_or_default();
    let alpha = fields.filled("local_alpha", "1e-6", findings);
    let local_alpha =
        alpha.and_then(|entry| read_scalar(entry, "bad-analysis-value", alpha_of_one, findings));
    Some(FromParent { waves, continues, undoes, retries, interim, classes, local_alpha, salt, keeps_failed })
}

fn read_interims(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Vec<(String, Interim)> {
    let one = |node, findings: &mut Findings<'_>| {
        let fields = Fields::open(node, "interim".to_owned(), &["stage", "every", "cut"], findings)?;
        let stage = fields.required("stage", "the name of a stage", findings);
        let stage = stage.and_then(|entry| read_name(entry, findings));
        let interim = interim_of(&fields, findings);
        Some((stage?.value, interim?))
    };
    entry.items(MAX_STAGES, findings).iter().filter_map(|node| one(node, findings)).collect()
}

/// What `every:` and `cut:` say.
pub(super) fn interim_of(fields: &Fields<'_>, findings: &mut Findings<'_>) -> Option<Interim> {
    let mut time = |key: &str| {
        let time = fields.required(key, "10s", findings);
        let time = time.and_then(|entry| read_scalar(entry, "bad-duration", scalar::duration, findings))?;
        Some((time.as_millis() as u64).max(1))
    };
    let (every_ms, cut_ms) = (time("every"), time("cut"));
    Some(Interim { every_ms: every_ms?, cut_ms: cut_ms? })
}

fn alpha_of_one(text: &str) -> Result<f64, ScalarFault<f64>> {
    let alpha = text.trim().parse().ok().filter(|alpha: &f64| *alpha > 0.0 && *alpha <= MAX_ALPHA);
    let message = || format!("{} is no alpha", quoted(text));
    alpha.ok_or_else(|| {
        fault(message(), format!("write a number above 0 and at most {MAX_ALPHA}, as in 1e-6"))
    })
}

fn waves_open(text: &str) -> Result<u32, ScalarFault<u32>> {
    let open = text.parse().ok().filter(|open: &u32| (1..=MAX_WAVES as u32).contains(open));
    open.ok_or_else(|| fault(format!("{} is no number of waves", quoted(text)), "write 1 or more"))
}
