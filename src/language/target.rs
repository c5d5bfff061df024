//! `target`: which children take part, by area and label.
//!
//! The area is GeoJSON written as YAML, so that every fault of a ring has its line. What RFC 7946 lets stand beside
//! geometry (`properties`, `bbox`, names of tools) is passed over. Polygons of a target may overlap: their union is
//! meant. Not here: whether a child lies in it.

use std::collections::BTreeMap;

use geo::{Coord, LineString, MultiPolygon, Polygon};
use serde::{Deserialize, Serialize};

use super::{
    diagnostic::{nearest, quoted},
    fields::{FieldEntry, Fields},
    findings::Findings,
    node::{At, Node, NodeKind},
    reading::{read_name, read_word},
};
use model::area::{self, AreaError};

/// Most positions that the area of a target may have.
pub const MAX_TARGET_POSITIONS: usize = 5_000;

/// Most labels that a target may ask for.
pub const MAX_TARGET_LABELS: usize = 32;

/// Who takes part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Target {
    /// `None`: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<TargetArea>,
    /// All of them must be a child's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub partial: Partial,
}

/// Whether a child that can't run all functions takes part with those it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Partial {
    #[default]
    Refuse,
    Allow,
}

/// An area as the coordinates of a GeoJSON `MultiPolygon`: polygons of rings of longitude and latitude in degrees. Each
/// polygon is valid by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetArea(pub Vec<Vec<Vec<[f64; 2]>>>);

impl TargetArea {
    pub fn polygons(&self) -> MultiPolygon {
        let ring = |ring: &Vec<[f64; 2]>| -> LineString {
            ring.iter().map(|[x, y]| Coord { x: *x, y: *y }).collect::<Vec<_>>().into()
        };
        self.0
            .iter()
            .filter_map(|rings| {
                let (exterior, holes) = rings.split_first()?;
                Some(Polygon::new(ring(exterior), holes.iter().map(ring).collect()))
            })
            .collect()
    }
}

impl From<&MultiPolygon> for TargetArea {
    fn from(polygons: &MultiPolygon) -> Self {
        let ring = |ring: &LineString| ring.coords().map(|c| [c.x, c.y]).collect::<Vec<_>>();
        let rings = |polygon: &Polygon| {
            std::iter::once(polygon.exterior()).chain(polygon.interiors()).map(ring).collect::<Vec<_>>()
        };
        Self(polygons.iter().map(rings).collect())
    }
}

/// Reads the block. What is empty is refused: it would mean every child, which is hardly what was meant.
pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Target> {
    let fields = Fields::open(entry.node, "target".to_owned(), &["area", "labels", "partial"], findings)?;
    let mut target = Target::default();
    if let Some(entry) = fields.filled("area", "and below it a GeoJSON Polygon", findings) {
        let mut reader = Reader { polygons: Vec::new(), positions: 0, faults: false };
        reader.object(entry.node, entry.at, findings);
        reader.check_size(entry.at, findings);
        target.area = Some(TargetArea::from(&MultiPolygon::new(reader.polygons)));
    }
    if let Some(entry) = fields.filled("labels", "{tier: edge}", findings) {
        target.labels = labels(entry, findings)?;
    }
    if let Some(entry) = fields.filled("partial", "refuse", findings) {
        let known = [("refuse", Partial::Refuse), ("allow", Partial::Allow)];
        target.partial = read_word(entry, "partial", &known, findings)?;
    }
    if fields.is_empty() {
        findings
            .error(entry.at, "missing-value", "target is empty")
            .fix("say who takes part by area: or labels:, or leave target out");
    }
    Some(target)
}

/// `{labels: {env: prod}}`, by which children are chosen for one function or service; `key` is where it stands.
pub(super) fn selector(
    key: &str,
    entry: FieldEntry<'_>,
    findings: &mut Findings<'_>,
) -> Option<BTreeMap<String, String>> {
    let fields = Fields::open(entry.node, key.to_owned(), &["labels"], findings)?;
    let entry = fields.required("labels", "{env: prod}", findings)?;
    labels(entry, findings)
}

fn labels(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<BTreeMap<String, String>> {
    let NodeKind::Mapping(pairs) = &entry.node.kind else {
        findings.error(entry.at, "wrong-type", "labels is not a mapping").fix("write labels: {tier: edge}");
        return None;
    };
    if pairs.is_empty() {
        findings
            .error(entry.at, "missing-value", "labels is empty")
            .fix("name at least one, as in {tier: edge}, or leave labels out");
    }
    if pairs.len() > MAX_TARGET_LABELS {
        let message = format!("there are {} labels, at most {MAX_TARGET_LABELS} are possible", pairs.len());
        findings.broken_rule(entry.at, "too-many", message).fix("ask for fewer");
    }
    let most = if findings.is_stored() { usize::MAX } else { MAX_TARGET_LABELS };
    let mut labels: BTreeMap<String, (String, u32)> = BTreeMap::new();
    for (key, value) in pairs.iter().take(most) {
        let NodeKind::Scalar(name) = &key.kind else {
            findings.error(key.at, "wrong-type", "a label's key is not a word").fix("write tier: edge");
            continue;
        };
        if matches!(value.kind, NodeKind::Null) {
            let message = format!("the label {} has no value", quoted(name));
            findings.error(key.at, "missing-value", message).fix(format!("write {name}: value"));
            continue;
        }
        if name.trim().is_empty() {
            findings.error(key.at, "bad-name", "a label has no name").fix("write tier: edge");
            continue;
        }
        let entry = FieldEntry { key: name, node: value, at: value.at };
        let Some(value) = read_name(entry, findings) else { continue };
        if let Some((_, line)) = labels.get(name.as_str()) {
            let message = format!("labels has the key {} twice, first in line {line}", quoted(name));
            findings.error(key.at, "duplicate-key", message).fix("keep one of the two");
            continue;
        }
        labels.insert(name.clone(), (value.value, key.at.line));
    }
    Some(labels.into_iter().map(|(key, (value, _))| (key, value)).collect())
}

const GEOMETRIES: [&str; 4] = ["Polygon", "MultiPolygon", "Feature", "FeatureCollection"];

const OTHER_GEOMETRIES: [&str; 5] =
    ["Point", "MultiPoint", "LineString", "MultiLineString", "GeometryCollection"];

/// Gathers the polygons of whatever GeoJSON there is.
struct Reader {
    polygons: Vec<Polygon>,
    positions: usize,
    faults: bool,
}

impl Reader {
    fn fault(
        &mut self,
        findings: &mut Findings<'_>,
        at: At,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.faults = true;
        findings.error(at, "bad-area", message).fix(fix);
    }

    /// A member of a GeoJSON object; unknown ones may stand beside it.
    fn member<'n>(
        &mut self,
        pairs: &'n [(Node, Node)],
        of: &str,
        key: &str,
        at: At,
        findings: &mut Findings<'_>,
    ) -> Option<&'n Node> {
        let named = |name: &Node| matches!(&name.kind, NodeKind::Scalar(name) if name == key);
        let mut found = pairs.iter().filter(|(name, _)| named(name));
        let first = found.next();
        if let (Some((name, _)), Some((again, _))) = (first, found.next()) {
            let message = format!("{of} has the key {key} twice, first in line {}", name.at.line);
            self.fault(findings, again.at, message, "keep one of the two");
        }
        if first.is_none() {
            let near = nearest(
                key,
                pairs.iter().filter_map(|(name, _)| match &name.kind {
                    NodeKind::Scalar(name) => Some(name.as_str()),
                    _ => None,
                }),
            );
            let fix = match near {
                Some(near) => format!("is {} meant to be {key}?", quoted(near)),
                None => format!(
                    "add {key}:, or use a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection"
                ),
            };
            self.fault(findings, at, format!("{of} has no {key}"), fix);
        }
        first.map(|(_, value)| value)
    }

    fn object(&mut self, node: &Node, at: At, findings: &mut Findings<'_>) {
        let NodeKind::Mapping(pairs) = &node.kind else {
            let fix = "write area: {type: Polygon, coordinates: [...]}";
            return self.fault(findings, at, "the area is no GeoJSON object", fix);
        };
        let Some(kind) = self.member(pairs, "the area", "type", at, findings) else { return };
        let word = match &kind.kind {
            NodeKind::Scalar(word) => word.as_str(),
            _ => "",
        };
        match word {
            "Polygon" => {
                if let Some(node) = self.member(pairs, "the Polygon", "coordinates", at, findings) {
                    self.polygon(node, findings);
                }
            }
            "MultiPolygon" => {
                let Some(node) = self.member(pairs, "the MultiPolygon", "coordinates", at, findings) else {
                    return;
                };
                for polygon in self.list(node, "a list of polygons", findings) {
                    self.polygon(polygon, findings);
                }
            }
            "Feature" => {
                if let Some(node) = self.member(pairs, "the Feature", "geometry", at, findings) {
                    self.object(node, node.at, findings);
                }
            }
            "FeatureCollection" => {
                let node = self.member(pairs, "the FeatureCollection", "features", at, findings);
                for feature in node.map_or(&[][..], |node| self.list(node, "a list of features", findings)) {
                    self.object(feature, feature.at, findings);
                }
            }
            other if OTHER_GEOMETRIES.contains(&other) => {
                let message = format!("a {other} has no area");
                self.fault(findings, kind.at, message, "draw a Polygon or MultiPolygon around it");
            }
            other => {
                let fix = match nearest(other, GEOMETRIES) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("it is one of {}", GEOMETRIES.join(", ")),
                };
                self.fault(findings, kind.at, format!("there is no GeoJSON type {}", quoted(other)), fix);
            }
        }
    }

    fn list<'n>(&mut self, node: &'n Node, what: &str, findings: &mut Findings<'_>) -> &'n [Node] {
        match &node.kind {
            NodeKind::Sequence(items) if !items.is_empty() => items,
            NodeKind::Sequence(_) => {
                self.fault(
                    findings,
                    node.at,
                    format!("there is nothing in {what}"),
                    "draw at least one ring of positions",
                );
                &[]
            }
            _ => {
                let fix = "coordinates are polygons of rings of [longitude, latitude]";
                self.fault(findings, node.at, format!("this is not {what}"), fix);
                &[]
            }
        }
    }

    fn polygon(&mut self, node: &Node, findings: &mut Findings<'_>) {
        if depth(node) == 2 {
            let message = "a pair of brackets is missing: positions make a ring, and rings a polygon";
            let fix = "write [[[13.3, 52.4], [13.5, 52.4], [13.5, 52.6], [13.3, 52.4]]], and one pair more in a MultiPolygon";
            return self.fault(findings, node.at, message, fix);
        }
        let nodes = self.list(node, "a list of rings", findings);
        let rings: Vec<LineString> = nodes.iter().filter_map(|node| self.ring(node, findings)).collect();
        if rings.len() < nodes.len() || rings.is_empty() {
            return;
        }
        let mut rings = rings.into_iter();
        let Some(exterior) = rings.next() else { return };
        let polygon = Polygon::new(exterior, rings.collect());
        match area::check_polygon(&polygon) {
            Ok(()) => self.polygons.push(polygon),
            Err(error) => self.refused(&error, node.at, findings),
        }
    }

    fn ring(&mut self, node: &Node, findings: &mut Findings<'_>) -> Option<LineString> {
        if depth(node) >= 3 {
            let message = "there is a pair of brackets too many: positions make a ring, and rings a polygon";
            self.fault(findings, node.at, message, "take one [ and one ] away");
            return None;
        }
        let nodes = self.list(node, "a ring of positions", findings);
        self.positions += nodes.len().saturating_sub(1);
        // Beyond the limit only the count is of interest.
        if nodes.is_empty() || (self.positions > MAX_TARGET_POSITIONS && !findings.is_stored()) {
            return None;
        }
        let mut coords = Vec::with_capacity(nodes.len());
        for node in nodes {
            coords.push(self.position(node, findings)?);
        }
        area::ring_of(coords).map_err(|error| self.refused(&error, node.at, findings)).ok()
    }

    fn position(&mut self, node: &Node, findings: &mut Findings<'_>) -> Option<Coord> {
        let numbers: Option<Vec<f64>> = match &node.kind {
            NodeKind::Sequence(items) => items.iter().map(number).collect(),
            _ => None,
        };
        let Some(numbers) = numbers else {
            self.fault(
                findings,
                node.at,
                "this is no position",
                "write [longitude, latitude], as in [13.4, 52.52]",
            );
            return None;
        };
        area::coord(&numbers).map_err(|error| self.refused(&error, node.at, findings)).ok()
    }

    fn refused(&mut self, error: &AreaError, at: At, findings: &mut Findings<'_>) {
        let fix = match error {
            AreaError::OpenRing => "repeat the first position at the end",
            AreaError::ShortRing(_) => "a ring has three corners or more, and the first again",
            AreaError::Position(_) | AreaError::Longitude(_) | AreaError::Latitude(_) => {
                "longitude comes first, then latitude, in degrees, as in [13.4, 52.52]"
            }
            AreaError::LongEdge(_) => "cut it in two at ±180, or go on beyond ±180, as in [190, 10]",
            AreaError::TooLong(_)
            | AreaError::NotGeoJson(_)
            | AreaError::Kind(_)
            | AreaError::Empty
            | AreaError::TooManyVertices { .. }
            | AreaError::Invalid(_) => "rings must not cross themselves or each other, and holes lie inside",
        };
        self.fault(findings, at, error.to_string(), fix);
    }

    fn check_size(&mut self, at: At, findings: &mut Findings<'_>) {
        let found = self.positions;
        if found > MAX_TARGET_POSITIONS && !findings.is_stored() {
            let error = AreaError::TooManyVertices { found, max: MAX_TARGET_POSITIONS };
            self.fault(findings, at, error.to_string(), "draw it with fewer corners");
        } else if self.polygons.is_empty() && !self.faults {
            self.fault(findings, at, "the area is empty", "draw a Polygon, or leave area out");
        }
    }
}

/// How many lists lie within each other where a number is first come to; 0 where there is none. A ring of positions has 2.
fn depth(node: &Node) -> usize {
    let (mut node, mut depth) = (node, 0);
    while let NodeKind::Sequence(items) = &node.kind {
        let Some(first) = items.first() else { return 0 };
        (node, depth) = (first, depth + 1);
    }
    if number(node).is_some() { depth } else { 0 }
}

/// Read as the areas of children are read, so that equal spellings are equal numbers.
fn number(node: &Node) -> Option<f64> {
    let NodeKind::Scalar(text) = &node.kind else { return None };
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let number = serde_json::from_str::<f64>(text).ok().or_else(|| text.parse().ok())?;
    (plain && number.is_finite()).then_some(number)
}

/// A position outside of any ring.
pub(super) fn lone_position(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<[f64; 2]> {
    let mut reader = Reader { polygons: Vec::new(), positions: 0, faults: false };
    reader.position(entry.node, findings).map(|coord| [coord.x, coord.y])
}
