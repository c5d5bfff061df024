pub mod durable;
mod history;
mod recall;
mod refused;
mod waiters;
