pub mod cli;
pub mod functions;
pub mod model;
pub mod strategy;
