//! Plans over HTTP and from the command line.

mod api;
mod command;
mod steps;

use crate::areas::rectangle;
