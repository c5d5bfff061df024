//! The stored form of a pause: beside the reason, whether to go on is to accept that children ended badly, and who paused.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use domain::release::pause::{Pause, PausedBy};

/// See [`Fields`].
pub(super) struct PauseForm;

impl PauseForm {
    pub fn serialize<S: Serializer>(pause: &Pause, serializer: S) -> Result<S::Ok, S::Error> {
        let Pause { reason, by } = pause.clone();
        Fields { reason, by_limit: by.is_limit(), by: by.into() }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pause, D::Error> {
        let Fields { reason, by_limit, by } = Fields::deserialize(deserializer)?;
        let by = match by {
            Who::Operator => PausedBy::Operator,
            Who::Parent => PausedBy::Parent { at_limit: by_limit },
            Who::Limit => PausedBy::Limit,
            Who::Unproven => PausedBy::Unproven,
            Who::Analysis => PausedBy::Analysis,
            Who::Agent => PausedBy::Agent,
        };
        Ok(Pause { reason, by })
    }
}

#[derive(Serialize, Deserialize)]
struct Fields {
    reason: String,
    by_limit: bool,
    by: Who,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Who {
    Operator,
    #[serde(rename = "above")]
    Parent,
    Limit,
    Unproven,
    Analysis,
    Agent,
}

impl From<PausedBy> for Who {
    fn from(by: PausedBy) -> Self {
        match by {
            PausedBy::Operator => Self::Operator,
            // Whether at a limit is said by `by_limit`.
            PausedBy::Parent { at_limit: _ } => Self::Parent,
            PausedBy::Limit => Self::Limit,
            PausedBy::Unproven => Self::Unproven,
            PausedBy::Analysis => Self::Analysis,
            PausedBy::Agent => Self::Agent,
        }
    }
}
