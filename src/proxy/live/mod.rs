//! The table that is in force, and what each thread keeps of it.
//!
//! [`Version`]s are shared by all threads and outlive a change of the table as long as anybody uses them: a version is drained
//! once nobody holds it. A call holds the versions it may go to, from the choice to the end of the answer's body, and no others.
//!
//! Each thread has its own view of the table ([`Local`]), which it exchanges when it is told of a new one; so a call takes no
//! lock and touches no counter that another thread writes, but for the number of calls in flight at its version.

mod local;
mod place;
mod places;
mod routes;
mod table;
mod version;

pub(crate) use self::{
    local::{Local, LocalVersion, Served},
    place::Place,
    routes::Route,
    version::below,
};
pub use self::{
    table::{LiveService, LiveTable, ServiceFault, TableFault, Transport, is_service_name},
    version::{Protocol, Target, Version},
};
