//! Which node runs which function, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod draws;
mod requirements;
mod workflows;

use std::collections::BTreeMap;

use placement::{Areas, Lies, Node, Requirements};

/// A node of this number that runs `process`.
fn node(number: usize) -> Node {
    let runtimes = ["process".to_owned()].into();
    Node { id: id(number).into(), runtimes, ..Node::default() }
}

fn id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// Where nobody asks for an area.
#[derive(Debug)]
struct NoAreas;

impl Areas for NoAreas {
    fn lie(&self, area: &str) -> Vec<Lies> {
        panic!("nobody asked for {area}")
    }
}

fn read(annotations: &[(&str, &str)]) -> Result<Requirements, String> {
    let annotations: BTreeMap<String, String> =
        annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Requirements::read(Some("process"), &annotations).map_err(|error| format!("{}: {error}", error.name()))
}
