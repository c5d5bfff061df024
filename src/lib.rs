pub mod cli;
pub mod fleet;
pub mod model;
pub mod strategy;
pub mod wire;
