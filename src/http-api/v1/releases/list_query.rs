//! What is asked of a list of releases, read.

use crate::problem::Problem;
use domain::release::state::ReleaseState;
use engine::questions::releases::Sort;

/// Longest part of a name that can be looked for, in characters.
pub const MAX_NAME_CHARS: usize = 200;

/// Names of states, with commas between.
pub fn states(asked: Option<&str>) -> Result<Vec<String>, Problem> {
    let mut states: Vec<String> = Vec::new();
    for state in asked.into_iter().flat_map(|text| text.split(',')) {
        if !ReleaseState::NAMES.contains(&state) {
            let detail = format!("`state` {state:?} is none of {}", ReleaseState::NAMES.join(", "));
            return Err(Problem::bad_request(detail));
        }
        if !states.iter().any(|known| known == state) {
            states.push(state.to_owned());
        }
    }
    Ok(states)
}

/// A part of a name.
pub fn name(asked: Option<String>) -> Result<Option<String>, Problem> {
    let asked = asked.filter(|part| !part.is_empty());
    if asked.as_ref().is_some_and(|part| part.chars().count() > MAX_NAME_CHARS) {
        return Err(Problem::bad_request(format!("`name` has at most {MAX_NAME_CHARS} characters")));
    }
    Ok(asked)
}

/// `key:value`.
pub fn label(asked: Option<String>) -> Result<Option<(String, String)>, Problem> {
    asked
        .map(|label| match label.split_once(':') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(Problem::bad_request("`label` looks like tier:edge")),
        })
        .transpose()
}

/// West, south, east, north.
pub fn area(asked: &str) -> Result<[f64; 4], Problem> {
    let bad = || {
        Problem::bad_request(
            "`area` is a point, LATITUDE,LONGITUDE, or a box, WEST,SOUTH,EAST,NORTH, in degrees: latitudes from -90 to \
             90, longitudes from -180 to 180, and south is not north of north",
        )
    };
    let numbers = asked.split(',').map(|text| text.trim().parse::<f64>());
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().map_err(|_| bad())?;
    let [west, south, east, north] = match *numbers.as_slice() {
        [latitude, longitude] => [longitude, latitude, longitude, latitude],
        [west, south, east, north] => [west, south, east, north],
        _ => return Err(bad()),
    };
    let fits = [west, east].iter().all(|x| (-180.0..=180.0).contains(x))
        && [south, north].iter().all(|y| (-90.0..=90.0).contains(y));
    if fits && south <= north { Ok([west, south, east, north]) } else { Err(bad()) }
}

/// The order of a list, and whether it is the other way round.
pub fn sort(asked: Option<&str>) -> Result<(Sort, bool), Problem> {
    let Some(asked) = asked else { return Ok((Sort::default(), false)) };
    let bad = || Problem::bad_request(format!("`sort` {asked:?} is none of {}", Sort::NAMES.join(", ")));
    Sort::named(asked).ok_or_else(bad)
}
