//! The colours of the style: each of a text or a shape is seen on each ground.

use std::collections::BTreeMap;

use crate::contrast::{colour, ratio};

const STYLE: &str = include_str!("../../src/page/assets/style.css");

/// What texts and shapes lie on.
const GROUNDS: [&str; 5] = ["page", "card", "soft", "sea", "land"];

/// Lines that part what is apart anyway.
const DECORATION: [&str; 1] = ["line"];

/// Borders of what can be used: WCAG 2.2, 1.4.11.
const GRAPHICS: [&str; 1] = ["edge"];

/// The colours of the style by name: light, then dark.
fn colours() -> BTreeMap<&'static str, [[f64; 3]; 2]> {
    let lines = STYLE.lines().filter_map(|line| line.trim().strip_prefix("--")?.split_once(": light-dark("));
    lines
        .map(|(name, both)| {
            let (light, dark) = both.trim_end_matches(");").split_once(", ").unwrap();
            (name, [light, dark].map(|text| colour(text).unwrap_or_else(|| panic!("--{name}: {text}"))))
        })
        .collect()
}

#[test]
fn each_colour_of_a_text_or_a_shape_is_seen_on_each_ground() {
    let all = colours();
    assert!(all.len() >= 16, "{:?}", all.keys());
    let mut faint = Vec::new();
    for (name, inks) in &all {
        if GROUNDS.contains(name) || DECORATION.contains(name) {
            continue;
        }
        let least = if GRAPHICS.contains(name) { 3.0 } else { 4.5 };
        for ground in GROUNDS {
            for (scheme, (ink, below)) in ["light", "dark"].iter().zip(inks.iter().zip(all[ground])) {
                let is = ratio(*ink, below);
                if is < least {
                    faint.push(format!("--{name} on --{ground}, {scheme}: {is:.2}, least {least}"));
                }
            }
        }
    }
    assert!(faint.is_empty(), "{faint:#?}");
}

#[test]
fn all_colours_are_named_in_one_place() {
    let named = |line: &str| line.trim_start().starts_with("--");
    let loose: Vec<&str> = STYLE
        .lines()
        .filter(|line| !named(line))
        .flat_map(|line| line.split([' ', ';', ',', '(', ')', ':']))
        .filter(|word| colour(word).is_some() || word.starts_with("hsl") || word.starts_with("oklch"))
        .collect();
    assert!(loose.is_empty(), "{loose:?}");
}
