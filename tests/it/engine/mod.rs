pub mod durable;
mod recall;
mod refused;
mod waiters;
