//! What the heart knows of children.

mod open;
mod tenants;
