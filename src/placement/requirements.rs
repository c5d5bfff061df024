use std::collections::{BTreeMap, BTreeSet};

use model::area;

/// What a function, or a resource, asks of the node that it comes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Requirements {
    /// One of the node's runtimes; none of a resource.
    pub runtime: Option<String>,
    /// One of these nodes; empty: whichever.
    pub nodes: BTreeSet<String>,
    /// All of these labels.
    pub labels: BTreeSet<String>,
    /// All of these classes of resources.
    pub resources: BTreeSet<String>,
    /// The node's area meets this one, which is GeoJSON of a Polygon or a `MultiPolygon`.
    pub area: Option<Box<str>>,
    pub tee: bool,
    pub tpm: bool,
    /// MiB that it takes; 0: nobody counts.
    pub memory_mib: u64,
}

/// An annotation that can't be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequirementsError {
    /// The value is cut.
    #[error("{value:?} is not {wanted}")]
    Value { name: &'static str, value: String, wanted: &'static str },
    #[error("{error}")]
    Area { error: area::AreaError },
}

impl RequirementsError {
    /// Of the annotation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Value { name, .. } => name,
            Self::Area { .. } => AREA,
        }
    }
}

/// The most names of a list.
const MOST: usize = 1_000;

/// Characters of a value that are shown.
const SHOWN: usize = 100;

/// Of each annotation that is a requirement.
const MAX_INSTANCES: &str = "max_instances";
const NODES: &str = "node_id_match_any";
const LABELS: &str = "label_match_all";
const RESOURCES: &str = "resource_match_all";
const TEE: &str = "tee";
const TPM: &str = "tpm";
const MEMORY: &str = "memory_mib";
const AREA: &str = "area";

/// All of them.
pub(crate) const NAMES: [&str; 8] = [MAX_INSTANCES, NODES, LABELS, RESOURCES, TEE, TPM, MEMORY, AREA];

impl Requirements {
    /// Of a function that this runtime runs, with these annotations; or of a resource, which none does, with this configuration. Other
    /// names than those of requirements mean something to somebody else.
    ///
    /// # Errors
    ///
    /// The first that can't be read, by its name.
    pub fn read(
        runtime: Option<&str>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, RequirementsError> {
        let value = |name: &'static str| annotations.get(name).map(|value| (name, value.as_str()));
        if let Some(given) = value(MAX_INSTANCES) {
            // Each function has one instance.
            number(given, "a whole number from 1").and_then(|most| {
                if most == 0 { Err(error(given, "a whole number from 1")) } else { Ok(()) }
            })?;
        }
        let listed = |name, wanted: &'static str, is_one: fn(&str) -> bool| match value(name) {
            Some(given) => list(given, wanted, is_one),
            None => Ok(BTreeSet::new()),
        };
        let area = annotations.get(AREA).map(|text| match area::parse(text) {
            Ok(_) => Ok(text.as_str().into()),
            Err(error) => Err(RequirementsError::Area { error }),
        });
        Ok(Self {
            runtime: runtime.map(str::to_owned),
            // A UUID is the same in capitals.
            nodes: listed(NODES, "one or more ids of nodes, as UUIDs with commas between them", is_uuid)?
                .into_iter()
                .map(|id| id.to_ascii_lowercase())
                .collect(),
            labels: listed(LABELS, "one or more labels with commas between them", |_| true)?,
            resources: listed(RESOURCES, "one or more classes with commas between them", |_| true)?,
            area: area.transpose()?,
            tee: value(TEE).map_or(Ok(false), required)?,
            tpm: value(TPM).map_or(Ok(false), required)?,
            memory_mib: value(MEMORY).map_or(Ok(0), |given| number(given, "a whole number of MiB"))?,
        })
    }
}

type Given<'a> = (&'static str, &'a str);

fn error((name, value): Given<'_>, wanted: &'static str) -> RequirementsError {
    RequirementsError::Value { name, value: value.chars().take(SHOWN).collect(), wanted }
}

fn number(given: Given<'_>, wanted: &'static str) -> Result<u64, RequirementsError> {
    given.1.trim().parse().map_err(|_| error(given, wanted))
}

/// In any case, as others write it.
fn required(given: Given<'_>) -> Result<bool, RequirementsError> {
    let word = given.1.trim();
    let is = |other: &str| word.eq_ignore_ascii_case(other);
    match () {
        () if is("required") => Ok(true),
        () if is("not-required") => Ok(false),
        () => Err(error(given, "required or not-required")),
    }
}

fn list(
    given: Given<'_>,
    wanted: &'static str,
    is_one: fn(&str) -> bool,
) -> Result<BTreeSet<String>, RequirementsError> {
    let all: Vec<&str> = given.1.split(',').map(str::trim).collect();
    let may_be = all.len() <= MOST && all.iter().all(|one| !one.is_empty() && is_one(one));
    if !may_be {
        return Err(error(given, wanted));
    }
    Ok(all.into_iter().map(str::to_owned).collect())
}

/// 32 hexadecimal digits with four hyphens, as ids of nodes are.
fn is_uuid(text: &str) -> bool {
    let hyphens = [8, 13, 18, 23];
    let is_right = |(at, byte): (usize, u8)| {
        if hyphens.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// The requirement that was probably meant by another name, which is none.
pub(crate) fn misspelt(name: &str) -> Option<&'static str> {
    let plain = name.trim().to_lowercase().replace('-', "_");
    if let Some(known) = NAMES.into_iter().find(|known| *known == plain) {
        return Some(known);
    }
    if plain == "memory" {
        return Some(MEMORY);
    }
    // Short words have many that are nearly them.
    let is_near = |known: &&str| known.len() > 4 && known.len().abs_diff(plain.len()) <= 3;
    language::nearest(&plain, NAMES.into_iter().filter(is_near))
}
