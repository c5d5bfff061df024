//! Is any call lost, cut or doubled while versions come and go?
//!
//! Callers number their calls, and versions write down each number that they carry out; afterwards the two are compared.
//!
//! - *lost*: a call without a whole answer, or with an error that the function didn't give;
//! - *doubled*: a call that was carried out twice without a repeat that the proxy counted.
//!
//! A run of the tests makes a twentieth of all calls; `tests/long` makes the others, with other seeds and longer stages.

#[path = "../../shared/loss/callers.rs"]
mod callers;
mod counts;
mod flows;
mod imitation;
#[path = "../../shared/loss/ledger.rs"]
mod ledger;
#[path = "../../shared/loss/message.rs"]
mod message;
mod mutations;
mod proofs;
mod releases;
#[path = "../../shared/loss/scale.rs"]
mod scale;
#[path = "../../shared/loss/serving.rs"]
mod serving;
mod shares;
mod splits;
mod sticky;
mod version;
#[path = "../../shared/loss/wait.rs"]
mod wait;
