pub mod durable;
mod faulty;
mod history;
mod recall;
mod refused;
mod standstill;
mod trouble;
mod unreadable;
mod waiters;
