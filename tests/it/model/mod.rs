//! What everything stands on, piece by piece.

mod globe;
mod hex;
mod pages;
mod pairs;
mod ring;
mod text;
