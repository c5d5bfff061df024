//! `choirmaster router …`, `service …` and `traffic …`: who leads the calls of services, and who gets what.

pub(super) mod form;
pub mod order;
pub mod router;
pub mod service;
pub mod traffic;
