pub mod model;
pub mod strategy;
pub mod wire;
