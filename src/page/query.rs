//! What an address asks for, and the forms that write such addresses.

use maud::{Markup, html};

use crate::text;

/// What was asked for, as pairs; what is empty was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// Something that a list is narrowed down by.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// As the API calls it.
    pub name: &'static str,
    /// As people do.
    pub label: &'static str,
    pub input: Input,
}

/// How it is put in.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// A text, and an example of one.
    Text(&'static str),
    /// One of these, and what each is called.
    Choice(&'static [(&'static str, &'static str)]),
}

impl Query {
    pub fn read(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
        Self(pairs.filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    /// What was asked of this name first; empty: nothing.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
    }

    /// With another value of this name; an empty one: without.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let kept = self.0.iter().filter(|(key, _)| key != name).cloned();
        let more = (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()));
        Self(kept.chain(more).collect())
    }

    /// All that was asked of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// With another pair beside those of this name.
    pub fn and(&self, name: &str, value: &str) -> Self {
        let more = std::iter::once((name.to_owned(), value.to_owned()));
        Self(self.0.iter().cloned().chain(more).collect())
    }

    pub fn without(&self, name: &str) -> Self {
        self.with(name, "")
    }

    pub fn without_pair(&self, name: &str, value: &str) -> Self {
        let is_it = |pair: &(String, String)| pair.0 == name && pair.1 == value;
        Self(self.0.iter().filter(|pair| !is_it(pair)).cloned().collect())
    }

    /// The same, unless it was asked for.
    pub fn or(&self, name: &str, value: &str) -> Self {
        if self.get(name).is_empty() { self.with(name, value) } else { self.clone() }
    }

    /// A path with all of it.
    pub fn at(&self, path: &str) -> String {
        if self.0.is_empty() {
            return path.to_owned();
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish();
        format!("{path}?{query}")
    }
}

/// The form of a list's filters. `kept`: what it carries on beside them.
pub fn form(path: &str, filters: &[Filter], kept: &[&str], asked: &Query) -> Markup {
    let is_narrowed = filters.iter().any(|filter| !asked.get(filter.name).is_empty());
    let kept: Vec<_> =
        kept.iter().map(|name| (*name, asked.get(name))).filter(|(_, value)| !value.is_empty()).collect();
    let cleared = kept.iter().fold(Query::default(), |all, (name, value)| all.with(name, value));
    html! {
        form.filters role="search" method="get" action=(path) {
            @for (name, value) in &kept { input type="hidden" name=(name) value=(value); }
            @for filter in filters { div { (field(filter, asked.get(filter.name))) } }
            button type="submit" { (text::FILTER) }
            @if is_narrowed { a href=(cleared.at(path)) { (text::FILTER_CLEAR) } }
        }
    }
}

fn field(filter: &Filter, value: &str) -> Markup {
    let Filter { name, label, input } = *filter;
    html! {
        label for=(name) { (label) }
        @match input {
            Input::Text(example) => {
                input type="search" id=(name) name=(name) value=(value) placeholder=(example) autocomplete="off";
            }
            Input::Choice(choices) => {
                select id=(name) name=(name) {
                    option value="" { (text::ANY) }
                    @for (choice, words) in choices { option value=(choice) selected[*choice == value] { (words) } }
                }
            }
        }
    }
}

/// The way to the page behind this one, if there is one.
pub fn more(path: &str, asked: &Query, next: Option<&str>) -> Markup {
    html! {
        @if let Some(next) = next {
            p { a rel="next" href=(asked.with("after", next).at(path)) { (text::MORE) } }
        }
    }
}
