//! Own agents as they are run: a manager, agents, each with a proxy beside it, functions and callers, all of them real processes.
//!
//! Callers number their calls, and functions write down each number that they carry out; afterwards the two are compared, as in the
//! tests of the proxy:
//!
//! - *lost*: a call without a whole answer, or with an error that the function didn't give;
//! - *doubled*: a call that was carried out twice without a repeat that the proxy counted.
//!
//! All that a test starts has the path of its folder in its arguments or its environment, and ends with the test, whatever ends that.

mod beside;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/callers.rs"]
mod callers;
pub mod canaries;
mod counted;
mod delegated;
mod deposed;
mod ended;
mod flows;
mod hybrid;
mod inside;
mod kills;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/ledger.rs"]
mod ledger;
mod left_behind;
mod manager;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/message.rs"]
mod message;
pub mod node;
mod passed_below;
mod passed_on;
mod placed;
pub mod processes;
mod releases;
mod routed;
pub mod routers;
#[path = "../../shared/loss/scale.rs"]
mod scale;
mod services;
#[allow(dead_code, reason = "the tests of the proxy use more of it")]
#[path = "../../shared/loss/serving.rs"]
mod serving;
pub mod site;
mod stages;
mod started_canaries;
mod steering;
mod stopped;
mod taken_by_socket;
pub mod taken_over;
pub mod users;
#[path = "../../shared/loss/wait.rs"]
pub mod wait;
mod wrong;

use crate::fleet::manager as reference;
