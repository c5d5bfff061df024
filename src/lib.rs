pub mod engine;
pub mod model;
pub mod release;
pub mod store;
pub mod strategy;
