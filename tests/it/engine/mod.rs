pub mod durable;
mod history;
mod recall;
mod refused;
mod trouble;
mod waiters;
