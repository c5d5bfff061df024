//! Calls to others' ports: the rule, the text for nftables, what happens in which order, and what the kernel makes of it. The whole is tried
//! in `tests/it/real_agents/taken_over.rs`.

mod kernel;
mod listeners;
mod order;
mod rules;
mod socket;
mod text;
