//! An offer of the parent as a submission here.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{
    change::Submitted,
    upstream::{Upstream, led},
};
use crate::{model::ReleaseId, strategy::Strategy};

/// Starts the ids of releases from above whose own id is taken here.
const OWN_ID: &str = "up-";

/// The release that an offer becomes.
pub fn submission(offer: &str, text: &[u8], strategy: Strategy, archive: [u8; 32]) -> Submitted {
    Submitted {
        id: strategy.id.clone(),
        digest: digest(offer, &strategy, archive),
        archive,
        strategy: Arc::new(led(strategy)),
        text: String::from_utf8_lossy(text).into(),
        upstream: Some(Upstream { offer: offer.to_owned(), reported: 0 }),
    }
}

/// What it may be called here: as the parent calls it, or by an id of this manager's own where that is taken. The same
/// for the same offer, whenever it is asked.
pub fn ids(offer: &str) -> impl Iterator<Item = ReleaseId> {
    let hash = Sha256::digest(offer.as_bytes());
    let own = hash.iter().take(8).fold(OWN_ID.to_owned(), |id, byte| format!("{id}{byte:02x}"));
    [ReleaseId::parse(offer).ok(), ReleaseId::parse(&own).ok()].into_iter().flatten()
}

/// Never that of a release which a developer submitted.
fn digest(offer: &str, strategy: &Strategy, archive: [u8; 32]) -> [u8; 32] {
    let form = serde_json::to_vec(strategy).unwrap_or_default();
    let offer = format!("from above: {offer}\n");
    Sha256::new().chain_update(offer).chain_update(form).chain_update(archive).finalize().into()
}

/// An offer of nothing, as a manager answers for one that it showed and took back.
pub fn is_withdrawn(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| line.trim_end() == "stages: []")
}
