pub mod cli;
pub mod functions;
pub mod model;
pub mod release;
pub mod store;
pub mod strategy;
