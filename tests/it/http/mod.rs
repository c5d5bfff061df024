//! The HTTP edge, from outside.

mod auth;
mod bytes;
mod children;
mod events;
mod openapi;
mod protocol;
mod releases;
mod slow;
mod submit;
mod wait;
mod watching;
