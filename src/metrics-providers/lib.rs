//! What lies outside and is asked or told: providers of measurements, and webhooks.

pub mod provider;
