//! What both benchmarks need: numbers out of rounds, threads that make a load, and the table that comes out.

pub mod figures;
pub mod lines;
pub mod threads;
