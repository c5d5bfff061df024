pub mod durable;
mod refused;
mod trouble;
mod waiters;
