pub mod model;
pub mod strategy;
