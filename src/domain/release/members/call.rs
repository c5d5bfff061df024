//! A call of a child about one of its offers.

use crate::release::{
    command::{NoReply, Refusal},
    offer::OfferName,
    state::{Release, State},
};
use model::ChildKey;

/// Whose call it is and about which offer, found out once for all calls of children.
pub(super) struct Call<'a> {
    pub key: ChildKey,
    pub release: &'a Release,
    pub name: OfferName,
}

impl<'a> Call<'a> {
    /// Refuses children and offers that are not known here.
    pub fn resolve(state: &'a State, child: &str, offer: &str) -> Result<Self, NoReply> {
        let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
        let never = || Refusal::NeverOffered { child: child.to_owned(), offer: offer.to_owned() };
        let (known, name) = OfferName::candidates(offer)
            .find_map(|(id, name)| Some((state.known.get(id)?, name)))
            .ok_or_else(never)?;
        let release = state.release(known.key).ok_or(NoReply::Missing(known.key))?;
        Ok(Self { key, release, name })
    }
}
