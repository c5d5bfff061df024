//! The English of maps, that of their script with it.

pub const MAP: &str = "Map";
pub const ON_A_MAP: &str = "On a map";
pub const LEGEND: &str = "What is shown";
pub const PLACELESS: &str = "of them without a known place";
pub const CELLS: &str = "A cell has the shape and the colour of its most frequent failure or, if there is none, of what most children in it are.";
pub const PLACES: &str = "By place";
pub const PLACE: &str = "Around";
pub const CHILDREN: &str = "Children";
pub const ALL: &str = "Everywhere";
pub const WITHOUT: &str = "Place not known";
pub const ELSEWHERE: &str = "Outside of this view";
pub const NOBODY: &str = "Nobody is in this view.";
pub const DRAWING: &str = "counted by cell; the table below has the same facts";
pub const IN_VIEW: &str = "West, south, east and north in degrees:";
pub const FARTHER: &str = "Zoom out";
pub const WORLD: &str = "The whole world";
pub const CHILD: &str = "Child, by its id";
pub const FIND: &str = "Find";
pub const NOWHERE: &str = "place not known";
pub const WAVE: &str = "wave";
pub const NO_CHILD: &str = "There is no child with this id or number:";

/// What the script says, by the names that it has for it.
const OF_SCRIPT: [(&str, &str); 23] = [
    ("stage", "Map. Arrows move it, plus and minus zoom. The table below has the same facts."),
    ("controls", "Map controls"),
    ("zoomIn", "Zoom in"),
    ("zoomOut", "Zoom out"),
    ("all", "Show all"),
    ("failures", "Show failures"),
    ("wave", "Wave"),
    ("toWave", "Go to a wave"),
    ("replay", "Replay"),
    ("now", "Back to now"),
    ("moment", "Moment of the replay"),
    ("stale", "Not live: the connection is cut. What is shown may be old."),
    ("none", "There are none."),
    ("nowhere", NOWHERE),
    ("inWave", WAVE),
    ("counted", "There are too many children to show each: counts by cell."),
    ("noGraphics", "This browser has no WebGL: counts by cell."),
    ("cut", "not all of it is kept"),
    ("noPast", "There is nothing to replay."),
    ("tooMany", "This release has too many children to be replayed."),
    ("noPastPicture", "Without WebGL only the counts below are those of then."),
    ("at", "At"),
    ("failed", "The map could not be loaded. The table below has the same facts."),
];

/// As JSON.
pub fn for_script() -> String {
    super::json(&OF_SCRIPT)
}

pub const PLANNED: &str = "Where those are who would take part";
pub const TAKES_PART: &str = "would take part.";
pub const NO_PART: &str = "would not.";
pub const TARGET_LINE: &str = "The line is the target.";
pub const NO_PLACE: &str = "no known place.";
pub const WOULD: &str = "Would take part";
pub const OTHERS: &str = "Others";
pub const WAVES: &str = "Waves";
pub const MORE_PLACES: &str = "more places are on the map alone.";
pub const BY_WAVE: &str = "By wave";
pub const TARGET: &str =
    "The dashed line is the target's. It lies between these degrees west, south, east and north:";
pub const NO_TARGET: &str =
    "No line of a target is in this view: it is bound to no area, or is too small to be seen here.";

/// `1 to 3`.
pub fn from_to(first: u32, last: u32) -> String {
    format!("{first} to {last}")
}

/// `wave 2`, `waves 1 to 3`.
pub fn waves_in_words(first: u32, last: u32) -> String {
    if first == last { format!("wave {first}") } else { format!("waves {}", from_to(first, last)) }
}

pub fn children_have(number: u64) -> String {
    super::count(number, "child has", "children have")
}
