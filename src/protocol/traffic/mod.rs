//! `POST /traffic`: what an agent that leads a router tells of it, and what operators ask of that.
//!
//! Each call says the whole of what is so now. It is a long poll (`?wait=30s`): the answer comes as soon as what was said is
//! stored, if anything of it is news, or as soon as an order waits; else after the wait. Counts of calls alone are no news: who
//! wants them to be seen soon asks with a wait of some seconds. Who has news while a call waits gives that up and calls anew.
//!
//! Once a call was answered with success, what it told is stored: drifts and answers to orders of it need not be told again. One
//! that is told again, as the answer was lost, changes nothing: drifts have numbers that grow, orders have theirs.
//!
//! Deliberately not here: what follows from a release. That travels in offers and results, which know nothing of this call.

mod answer;
mod limits;
mod report;
mod service;

pub use self::{
    answer::{MAX_ORDER_TEXT_BYTES, OrderForm, TrafficAnswer},
    limits::*,
    report::{DriftForm, OrderAnswer, RouterReport, ServiceReport, TrafficRequest, VariationReport},
};
pub use model::traffic::{
    DriftThen, HealthCheckForm, LedForm, LedVariation, Listen, OpenPorts, OrderWhat, Protocol, RouterPhase,
    RuleForm, Sticky, TargetCount, WHOLE,
};
