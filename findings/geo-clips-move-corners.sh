#!/bin/sh
# The crate geo cuts one polygon to another (`BooleanOps::intersection`), as whoever hands a part of an area on does.
#
# One would guess:  a rectangle that lies wholly within another one comes out with its own corners, for nothing of it is cut.
# What happens:     corners that no edge of the other comes near are moved as well: the operation works on a grid of whole numbers that is
#                   laid over both, so that a corner is off by about a 2^30th of their size, inwards or outwards.
# Why it matters:   areas of a map share edges. One that is cut to a place and grows by 10^-10 degrees overlaps its neighbour, and whoever asks
#                   "which areas does it meet?" exactly is told one too many. Points that were only copied can't be compared with `==` either.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "measure"
version = "0.0.0"
edition = "2021"

[dependencies]
geo = { version = "=0.33.1", default-features = false }
TOML
cat >"$folder/src/main.rs" <<'RUST'
use geo::{coordinate_position::CoordPos, dimensions::Dimensions, polygon, BooleanOps, CoordsIter, Relate};

fn rectangle(west: f64, south: f64, east: f64, north: f64) -> geo::Polygon {
    polygon![(x: west, y: south), (x: east, y: south), (x: east, y: north), (x: west, y: north), (x: west, y: south)]
}

fn main() {
    let target = rectangle(13.1, 52.3, 13.8, 52.7);
    // It shares an edge with the target, and no more.
    let neighbour = rectangle(13.8, 52.0, 14.1, 53.0);
    let meets = |area: &geo::MultiPolygon| {
        area.relate(&neighbour).get(CoordPos::Inside, CoordPos::Inside) != Dimensions::Empty
    };
    let given: Vec<_> = target.coords_iter().collect();
    let (mut corners, mut moved, mut farthest, mut overlaps) = (0, 0, 0.0_f64, 0);
    for step in 0..100 {
        // All of the target lies far within this.
        let part = target.intersection(&rectangle(12.05, 51.45, 14.5 + f64::from(step) / 40.0, 53.15));
        for corner in part.coords_iter() {
            let from = |at: &geo::Coord| (at.x - corner.x).abs().max((at.y - corner.y).abs());
            let nearest = given.iter().map(from).fold(f64::MAX, f64::min);
            corners += 1;
            moved += usize::from(nearest > 0.0);
            farthest = farthest.max(nearest);
        }
        overlaps += usize::from(meets(&part));
    }
    println!("{moved} of {corners} corners are moved, at most by {farthest:e} degrees");
    println!("the neighbour lies in the target: {}; in the target cut to what is around it: {overlaps} times of 100", meets(&target.into()));
    if moved == 0 || overlaps == 0 {
        println!("CHANGED: corners stay, or none is moved outwards");
        std::process::exit(1);
    }
}
RUST
cargo --version
(cd "$folder" && cargo run --quiet --release)
