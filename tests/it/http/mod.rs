//! The HTTP edge, from outside.

mod address;
mod auth;
mod bytes;
mod check;
mod children;
mod events;
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
mod wait;
mod watching;
mod wiped;
