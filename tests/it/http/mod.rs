//! The HTTP edge, from outside.

mod address;
mod auth;
mod bytes;
mod charged;
mod check;
mod children;
mod events;
mod host;
mod joining;
mod led;
mod openapi;
mod original;
mod pace;
mod protocol;
mod registering;
mod releases;
mod slow;
mod steering;
mod submit;
mod survey;
pub mod tenants;
mod traffic;
mod wait;
mod watching;
mod whole;
mod wiped;
