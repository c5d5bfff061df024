//! Offers as an agent reads them: what [`super::render`] and [`super::render_full`] make for one, and what other managers hand out.
//!
//! They are read by the rules by which strategies are. A key that nobody here knows is passed over, for a manager may know
//! more than its agents; a rule that came after the offer was made is not held against it.

use super::{
    diagnostic::Diagnostic,
    findings::Findings,
    interim::Interim,
    local,
    node::At,
    parse::{self, Author},
    raw::{self, MAX_STRATEGY_BYTES},
    service::Service,
    strategy::{Function, Stage},
    validate::Body,
};

/// Longest offer, in bytes: a strategy in which everything is written out, each odd character as an escape.
pub const MAX_OFFER_BYTES: usize = 16 * MAX_STRATEGY_BYTES;

/// What an agent is handed.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// By what the manager calls it.
    pub id: String,
    /// None: it was withdrawn.
    pub functions: Vec<Function>,
    /// Services whose calls a router is to lead.
    pub services: Vec<Service>,
    /// The first is where it begins. None: it was withdrawn.
    pub stages: Vec<OfferStage>,
    /// The probability with which this agent may stop a version that keeps all conditions in one of its stages, in this attempt; `None`: the manager
    /// says nothing of it.
    pub alpha: Option<f64>,
    /// What the keys of calls are hashed with where the release draws its users; the offer's id where the manager says nothing of it.
    pub salt: String,
    /// The shares of a stage that has failed are kept up until the manager says what becomes of them.
    pub keeps_failed: bool,
}

/// A stage, with what only agents are told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferStage {
    pub stage: Stage,
    /// How it is reported while it goes on; `None`: nobody wants to hear of it.
    pub interim: Option<Interim>,
}

/// Reads an offer.
///
/// # Errors
///
/// All that is wrong with it, with places; among them at least one error.
pub fn read(text: &str) -> Result<Offer, Vec<Diagnostic>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_OFFER_BYTES {
        let mut findings = Findings::of_offer("");
        let message = format!("an offer has at most {MAX_OFFER_BYTES} bytes, this one has {}", text.len());
        findings.error(At::START, "too-large", message);
        return Err(findings.finish());
    }
    let mut findings = Findings::of_offer(text);
    match parts(text, &mut findings) {
        Some(offer) if !findings.has_errors() => Ok(offer),
        _ => {
            if !findings.has_errors() {
                findings.error(At::START, "incomplete", "something of this offer is missing");
            }
            Err(findings.finish())
        }
    }
}

fn parts(text: &str, findings: &mut Findings<'_>) -> Option<Offer> {
    let root = raw::read(text, findings)?;
    let mut draft = parse::read_strategy(&root, Author::Manager, findings)?;
    let is_empty = [draft.functions.is_empty() && draft.services.is_empty(), draft.stages.is_empty()];
    if is_empty[0] != is_empty[1] {
        let message = "this offer has functions without stages, or stages without functions";
        findings.error(At::START, "incomplete", message);
        return None;
    }
    let told = draft.from_parent.as_ref().and_then(|said| said.local_alpha);
    let keeps_failed = draft.from_parent.as_ref().is_some_and(|said| said.keeps_failed);
    let salt = draft.from_parent.as_mut().and_then(|said| said.salt.take());
    let interims: Vec<Option<Interim>> = draft.stages.iter_mut().map(|stage| stage.interim.take()).collect();
    let body = Body::of(draft.functions, draft.services, draft.stages, findings);
    let stages = body.stages?.into_iter().zip(interims);
    let stages: Vec<_> = stages.map(|(stage, interim)| OfferStage { stage, interim }).collect();
    let judged = local::judged(stages.iter().map(|of| &of.stage));
    let alpha = told.map(|alpha| alpha / judged as f64);
    let id = draft.offer_id?;
    let salt = salt.unwrap_or_else(|| id.clone());
    Some(Offer {
        id,
        functions: body.functions?,
        services: body.services?,
        stages,
        alpha,
        salt,
        keeps_failed,
    })
}
