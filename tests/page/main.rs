//! The web page in a real browser.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to end there")]

#[allow(dead_code, reason = "a browser that can press some keys alone would be harder to test with")]
mod browser;
mod clean;
mod colours;
mod contrast;
#[path = "../shared/deadline.rs"]
mod deadline;
mod dialogs;
mod faults;
mod harness;
mod keyboard;
mod life;
mod line;
mod live;
mod maps;
mod markup;
mod pictures;
#[path = "../shared/random.rs"]
mod random;
#[path = "../shared/seed.rs"]
mod seed;
mod served;
mod services;
mod states;
mod story;
mod tree;
#[allow(dead_code, reason = "the tests of the manager have more to do with it")]
#[path = "../it/virtual_time.rs"]
mod virtual_time;
#[allow(dead_code, reason = "the tests of the manager have more to do with it")]
#[path = "../it/world.rs"]
mod world;
