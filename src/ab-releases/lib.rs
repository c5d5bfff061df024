//! Progressive delivery: a release of a service, as that interface shows it.
//!
//! It translates in both directions and keeps nothing. A body becomes the text of a strategy ([`translate`]), in the language in which
//! anybody may submit one; a release becomes an A/B release with stages ([`show()`]), whoever submitted it and however. What of that
//! can't change any more is written once, when it is submitted ([`Recorded`]), so that views of the store can show it; statuses, shares
//! and times are read from the release each time.
//!
//! Pure: the time and all names come as arguments. Not here: what is registered, and who may ask.

mod agents;
mod hybrid;
mod ids;
mod names;
mod progress;
mod recorded;
mod registered;
mod shares;
mod show;
mod strategies;
mod subject;
mod translate;

pub use ids::{DEFAULT_TENANT, Kind, Uuid, tenant_of};
pub use names::{Names, REGISTERED_RELEASE, release_id};
pub use progress::{Course, Phase, StageCourse, StageState, Status};
pub use recorded::{Recorded, RecordedStage, RecordedVariation};
pub use registered::{check_environment, check_group, check_version};
pub use shares::{hundredths, percent};
pub use show::{ReleaseDetails, share_of, show};
pub use strategies::{shown_strategy, shown_template};
pub use subject::{shares_of, subject_of, variation_of};
pub use translate::{Bound, Fault, Translated, read_strategy, translate};
