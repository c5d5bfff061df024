//! What everything stands on, piece by piece.

mod pages;
mod pairs;
mod ring;
mod text;
