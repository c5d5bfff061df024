pub mod durable;
mod faulty;
mod history;
mod recall;
mod refused;
mod trouble;
mod waiters;
