//! Times, as they are told to machines and to people.

use maud::{Markup, html};

/// A time of the API, RFC 3339 in UTC. Without a script it is shown so; with one, in the zone of whoever looks.
pub fn at(time: &str) -> Markup {
    let short =
        time.get(..19).map_or_else(|| time.to_owned(), |start| format!("{} UTC", start.replace('T', " ")));
    html! { time datetime=(time) { (short) } }
}

/// A time that may not have come.
pub fn maybe(time: Option<&str>) -> Markup {
    time.map_or_else(|| html! { (crate::text::NOT_YET) }, at)
}
