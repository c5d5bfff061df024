//! Calls to others' ports: the rule, the text for nftables, and what happens in which order. What the kernel makes of it is tried in
//! `tests/it/real_agents/taken_over.rs`.

mod order;
mod rules;
mod text;
