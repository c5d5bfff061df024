//! Queries with `{{ .Variables }}`, as of Go's templates, of which variables are all that is understood.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

use crate::diagnostic::{nearest, quoted};

/// Longest query, in bytes: 16 KiB.
pub const MAX_QUERY_BYTES: usize = 16 * 1024;

/// What a query may name, besides the arguments that it is given.
const WORDS: [(&str, Variable); 7] = [
    ("Variant", Variable::VariantName),
    ("Variant.Name", Variable::VariantName),
    ("BuiltInArgs.Variant.Name", Variable::VariantName),
    ("BuiltInArgs.App.Name", Variable::AppName),
    ("BuiltInArgs.App.K8s.Namespace", Variable::Namespace),
    ("BuiltInArgs.Window.Start", Variable::WindowStart),
    ("BuiltInArgs.Window.End", Variable::WindowEnd),
];

/// What was called otherwise, and what to write now.
const RENAMED: [(&str, &str); 5] = [
    ("App.Name", "write {{ .BuiltInArgs.App.Name }}"),
    ("BuiltInArgs.Name", "write {{ .BuiltInArgs.App.Name }}"),
    ("K8s.Namespace", NAMESPACE_NOW),
    ("App.K8s.Namespace", NAMESPACE_NOW),
    (
        "Variant.CustomArgs",
        "write {{ .VariantArgs.NAME }}, and NAME under baselineArgs, canaryArgs or primaryArgs",
    ),
];

const NAMESPACE_NOW: &str =
    "write {{ .BuiltInArgs.App.K8s.Namespace }}, and namespace: NAME into the release";

const VARIANT_ARGS: &str = "VariantArgs.";

const APP_ARGS: &str = "AppArgs.";

/// An argument that is the function's name where it isn't given: so it was called before it had a place of its own.
pub(super) const NAME: &str = "Name";

/// Values of variables by name.
pub type QueryArgs = BTreeMap<String, String>;

/// Whose numbers a query asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    Baseline,
    Canary,
    Primary,
}

impl Variant {
    /// As `{{ .Variant.Name }}` gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Canary => "canary",
            Self::Primary => "primary",
        }
    }
}

/// A query that was read; its text, and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Query {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(Variable),
}

/// What stands between `{{` and `}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `baseline`, `canary` or `primary`.
    VariantName,
    /// The function.
    AppName,
    /// Where it runs.
    Namespace,
    /// The ends of the time that is asked about, in seconds since 1970 with three decimals: for providers that would
    /// otherwise tell what is now.
    WindowStart,
    WindowEnd,
    VariantArg(String),
    AppArg(String),
}

impl std::fmt::Display for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::VariantName => f.write_str(".Variant.Name"),
            Self::AppName => f.write_str(".BuiltInArgs.App.Name"),
            Self::Namespace => f.write_str(".BuiltInArgs.App.K8s.Namespace"),
            Self::WindowStart => f.write_str(".BuiltInArgs.Window.Start"),
            Self::WindowEnd => f.write_str(".BuiltInArgs.Window.End"),
            Self::VariantArg(name) => write!(f, ".VariantArgs.{name}"),
            Self::AppArg(name) => write!(f, ".AppArgs.{name}"),
        }
    }
}

/// What a value may not do to the text that it is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// It stays inside a string between quotes: `\`, `"`, `'` and line breaks are escaped. Inside of backticks `PromQL`
    /// knows no escapes.
    PromQl,
    /// It stays one part of a URL: all but letters, digits and `-._~` is percent-encoded.
    Url,
}

/// The values of the variables.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    pub variant: Variant,
    pub variant_args: &'a QueryArgs,
    pub app_name: &'a str,
    pub app_args: &'a QueryArgs,
    pub namespace: Option<&'a str>,
    /// What time is asked about: its ends, in milliseconds since 1970.
    pub window_ms: Option<(i64, i64)>,
}

/// A variable without a value. A validated strategy has none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the query names {0}, which has no value")]
pub struct Unbound(pub Variable);

/// Something in a query that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryFault {
    /// As it stands in the query, for finding its place.
    pub piece: String,
    pub message: String,
    pub fix: String,
}

impl Query {
    pub(super) fn read(text: &str) -> Result<Self, Vec<QueryFault>> {
        let mut faults = Vec::new();
        if text.trim().is_empty() {
            faults.push(whole("the query is empty", "write what to ask the provider"));
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            if start > 0 {
                pieces.push(Piece::Text(rest[..start].to_owned()));
            }
            let Some(end) = rest[start..].find("}}").map(|end| start + end + 2) else {
                let piece = rest[start..].lines().next().unwrap_or_default().to_owned();
                let message = format!("{} is never closed", quoted(&piece));
                faults.push(QueryFault { piece, message, fix: "end a variable with }}".to_owned() });
                rest = "";
                break;
            };
            let piece = &rest[start..end];
            match variable(&piece[2..piece.len() - 2]) {
                Ok(variable) => pieces.push(Piece::Variable(variable)),
                Err((message, fix)) => faults.push(QueryFault { piece: piece.to_owned(), message, fix }),
            }
            rest = &rest[end..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if faults.is_empty() { Ok(Self { text: text.to_owned(), pieces }) } else { Err(faults) }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }

    /// The text with a value for each variable. Values are put in as they are, but for what `escape` takes from them.
    pub fn expand(&self, binding: &Binding<'_>, escape: Escape) -> Result<String, Unbound> {
        let mut text = String::new();
        for piece in &self.pieces {
            let variable = match piece {
                Piece::Text(plain) => {
                    text.push_str(plain);
                    continue;
                }
                Piece::Variable(variable) => variable,
            };
            let end = |ms: i64| format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
            let ends = binding.window_ms.map(|(start, stop)| (end(start), end(stop)));
            let value = match variable {
                Variable::WindowStart => ends.as_ref().map(|(start, _)| start.as_str()),
                Variable::WindowEnd => ends.as_ref().map(|(_, stop)| stop.as_str()),
                Variable::VariantName => Some(binding.variant.name()),
                Variable::AppName => Some(binding.app_name),
                Variable::VariantArg(name) => binding.variant_args.get(name).map(String::as_str),
                Variable::Namespace => binding.namespace,
                Variable::AppArg(name) => {
                    let given = binding.app_args.get(name).map(String::as_str);
                    given.or_else(|| (name == NAME).then_some(binding.app_name))
                }
            };
            escape.push(&mut text, value.ok_or_else(|| Unbound(variable.clone()))?);
        }
        Ok(text)
    }
}

impl Escape {
    fn push(self, text: &mut String, value: &str) {
        match self {
            Self::PromQl => {
                for c in value.chars() {
                    match c {
                        '\n' => text.push_str("\\n"),
                        '\r' => text.push_str("\\r"),
                        '\\' | '"' | '\'' => text.extend(['\\', c]),
                        _ => text.push(c),
                    }
                }
            }
            Self::Url => {
                for byte in value.bytes() {
                    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                        text.push(char::from(byte));
                    } else {
                        let _ = write!(text, "%{byte:02X}");
                    }
                }
            }
        }
    }
}

impl TryFrom<String> for Query {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let first = |faults: Vec<QueryFault>| faults.into_iter().next().map(|fault| fault.message);
        Self::read(&text).map_err(|faults| first(faults).unwrap_or_default())
    }
}

impl From<Query> for String {
    fn from(query: Query) -> Self {
        query.text
    }
}

fn whole(message: &str, fix: &str) -> QueryFault {
    QueryFault { piece: String::new(), message: message.to_owned(), fix: fix.to_owned() }
}

/// What a piece names, or what is wrong with it and what to write.
fn variable(inner: &str) -> Result<Variable, (String, String)> {
    let shown = format!("{{{{{inner}}}}}");
    let Some(path) = inner.trim().strip_prefix('.').filter(|path| path.split('.').all(is_name)) else {
        return Err((
            format!("{} is not a variable", quoted(&shown)),
            "write variables alone, as in {{ .Variant.Name }}: there are no functions and no conditions"
                .to_owned(),
        ));
    };
    let known = WORDS.iter().find(|(word, _)| *word == path);
    if let Some((_, variable)) = known {
        return Ok(variable.clone());
    }
    let argument = |prefix| path.strip_prefix(prefix).filter(|name: &&str| !name.contains('.'));
    if let Some(name) = argument(VARIANT_ARGS) {
        return Ok(Variable::VariantArg(name.to_owned()));
    }
    if let Some(name) = argument(APP_ARGS) {
        return Ok(Variable::AppArg(name.to_owned()));
    }
    let message = format!("there is no variable .{path}");
    let group = |group: &'static str, list: &str| {
        let near = path.split_once('.').and_then(|(head, name)| {
            nearest(head, [group.trim_end_matches('.')]).filter(|_| !name.contains('.')).map(|_| name)
        });
        near.map(|name| format!("did you mean .{group}{name}? Give it under {list}"))
    };
    let renamed = RENAMED.iter().find(|(old, _)| *old == path);
    let fix = if let Some((_, fix)) = renamed {
        Some((*fix).to_owned())
    } else {
        group(VARIANT_ARGS, "baselineArgs, canaryArgs or primaryArgs")
            .or_else(|| group(APP_ARGS, "appArgs"))
            .or_else(|| {
                let near = nearest(path, WORDS.iter().map(|(word, _)| *word));
                near.map(|near| format!("did you mean .{near}?"))
            })
    };
    let all = "it is .Variant.Name, .BuiltInArgs.App.Name, .VariantArgs.NAME or .AppArgs.NAME";
    Err((message, fix.unwrap_or_else(|| all.to_owned())))
}

/// Whether a text can be the name of an argument.
pub(super) fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}
