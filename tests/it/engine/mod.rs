pub mod durable;
mod history;
mod refused;
mod waiters;
