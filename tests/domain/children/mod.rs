//! What the domain knows of children.

mod open;
mod tenants;
