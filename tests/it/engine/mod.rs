pub mod durable;
mod refused;
mod waiters;
