//! An offer of the parent as a submission here.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::release::{
    lifecycle::Submission,
    offer::{MAX_ATTEMPT, OfferName, Unit},
    parent::ParentOffer,
};
use language::{NoForm, Order, Rollout, Strategy};
use model::{ReleaseId, hex};

/// An offer that is refused or can't be right is fetched so often before that is believed.
pub const BELIEVED_AFTER: u32 = 5;

/// Starts the ids of releases from above whose own id is taken here.
const OWN_ID: &str = "up-";

/// How a strategy from above is led: as it says, else with barriers over all.
pub fn led(strategy: Strategy) -> Strategy {
    let global = || Rollout { order: Order::GlobalIncremental, ..Rollout::default() };
    Strategy { rollout: Some(strategy.rollout.unwrap_or_else(global)), ..strategy }
}

/// The release that an offer becomes.
pub fn submission(
    offer: &str,
    text: &[u8],
    strategy: Strategy,
    archive: [u8; 32],
) -> Result<Submission, NoForm> {
    Ok(Submission {
        id: strategy.id.clone(),
        digest: digest(offer, &strategy, archive)?,
        archive,
        strategy: Arc::new(led(strategy)),
        text: String::from_utf8_lossy(text).into(),
        parent: Some(ParentOffer::new(offer.to_owned())),
        deferred: false,
        adopts: None,
    })
}

/// What it may be called here: as the parent calls it, or by an id of this manager's own where that is taken. The same
/// for the same offer, whenever it is asked.
pub fn ids(offer: &str) -> impl Iterator<Item = ReleaseId> {
    [ReleaseId::parse(offer).ok(), ReleaseId::parse(&own_id(offer)).ok()].into_iter().flatten()
}

/// What the offers of a release of the parent may be called here.
pub fn all_ids(release: &str) -> impl Iterator<Item = String> {
    let offers = (1..=MAX_ATTEMPT).map(|attempt| OfferName::of(Unit::Whole, attempt).id(release));
    offers.flat_map(|offer| [own_id(&offer), offer])
}

fn own_id(offer: &str) -> String {
    format!("{OWN_ID}{}", hex::encode(&Sha256::digest(offer.as_bytes())[..8]))
}

/// Never that of a release which a developer submitted.
///
/// What the parent makes of it for this manager is not in it: that changes with the children of both, and the parent may be
/// asked again for what was taken over already.
fn digest(offer: &str, strategy: &Strategy, archive: [u8; 32]) -> Result<[u8; 32], NoForm> {
    let mut plain = Strategy { target: None, rollout: None, from_parent: None, ..strategy.clone() };
    for function in &mut plain.functions {
        (function.sticky, function.retry) = (None, None);
    }
    let form = plain.digest_form()?;
    let offer = format!("from above: {offer}\n");
    Ok(Sha256::new().chain_update(offer).chain_update(form).chain_update(archive).finalize().into())
}

/// An offer of nothing, as a manager answers for one that it showed and took back.
pub fn is_withdrawn(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| line.trim_end() == "stages: []")
}
