pub mod durable;
mod history;
mod refused;
mod trouble;
mod waiters;
