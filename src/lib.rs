pub mod cli;
pub mod model;
pub mod store;
pub mod strategy;
