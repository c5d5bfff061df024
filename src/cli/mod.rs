//! The commands of the program, one file each: arguments, what they print, how they end.

pub mod fleet;
pub mod schema;
pub mod validate;
