pub mod durable;
mod refused;
