pub mod durable;
mod faulty;
mod history;
mod recall;
mod refused;
mod snapshots;
mod standstill;
mod trouble;
mod waiters;
