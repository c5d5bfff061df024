//! `from_above`: what a manager says to a manager below it beside the strategy. No developer can write it: it is read only
//! in a text that came from the parent.

use serde::{Deserialize, Serialize};

use super::{
    diagnostic::{Findings, quoted},
    fields::{Entry, Fields},
    parse,
    rollout::MAX_WAVES,
    scalar::{Fault, fault},
};

/// What a parent says of its offer. All of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FromAbove {
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
}

pub(super) fn read(entry: Entry<'_>, findings: &mut Findings<'_>) -> Option<FromAbove> {
    let known = ["waves", "continues", "undoes", "retries"];
    let fields = Fields::open(entry.node, "from_above".to_owned(), &known, findings)?;
    let offer = |key: &str, findings: &mut Findings<'_>| {
        let entry = fields.filled(key, "an id", findings)?;
        parse::name(entry, findings).map(|name| name.value)
    };
    let (continues, undoes) = (offer("continues", findings), offer("undoes", findings));
    let waves = fields.filled("waves", "1", findings);
    let waves = waves.and_then(|entry| parse::read(entry, "bad-count", waves_open, findings));
    let retries = fields.filled("retries", "true", findings).and_then(|entry| parse::truth(entry, findings));
    Some(FromAbove { waves, continues, undoes, retries: retries.unwrap_or_default() })
}

fn waves_open(text: &str) -> Result<u32, Fault> {
    let open = text.parse().ok().filter(|open: &u32| (1..=MAX_WAVES as u32).contains(open));
    open.ok_or_else(|| fault(format!("{} is no number of waves", quoted(text)), "write 1 or more"))
}
