pub mod durable;
