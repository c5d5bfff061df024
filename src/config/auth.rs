//! Who may do what. Tokens stand in variables or in files of their own, never in the configuration itself that is
//! shared and shown; the one exception, `operator_token`, is there for its variable.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    Fault,
    section::{Field, Section},
};
use model::Secret;

/// The name of an operator whose token has none.
const NAMELESS_OPERATOR: &str = "operator";

/// Shortest token, in characters. A shorter one can be guessed.
const MIN_TOKEN_CHARS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    pub operator_token: Option<Secret>,
    /// One operator a line: `NAME TOKEN`, or a token alone.
    pub operator_token_file: Option<PathBuf>,
    /// One child a line: `ID TOKEN`.
    pub child_token_file: Option<PathBuf>,
    /// Whether children without a token are refused.
    pub child_token_required: bool,
    /// One join token a line: `NAME TOKEN`. Whoever has one becomes a child, with a token of its own.
    pub join_token_file: Option<PathBuf>,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
}

impl Auth {
    pub fn has_operator_token(&self) -> bool {
        self.operator_token.is_some() || self.operator_token_file.is_some()
    }

    /// Name and token of each operator.
    pub fn operators(&self) -> Result<Vec<(String, Secret)>, Fault> {
        let mut operators = Vec::new();
        if let Some(token) = &self.operator_token {
            check(token.reveal()).map_err(|why| fault("auth.operator_token", why))?;
            operators.push((NAMELESS_OPERATOR.to_owned(), token.clone()));
        }
        if let Some(file) = &self.operator_token_file {
            operators.extend(read(file, "auth.operator_token_file", Some(NAMELESS_OPERATOR))?);
        }
        Ok(operators)
    }

    /// Id and token of each child that has one.
    pub fn children(&self) -> Result<Vec<(String, Secret)>, Fault> {
        let key = "auth.child_token_file";
        let children = self.child_token_file.as_ref().map_or(Ok(Vec::new()), |file| read(file, key, None))?;
        let mut ids = HashSet::new();
        match children.iter().find(|(id, _)| !ids.insert(id)) {
            Some((id, _)) => Err(fault(key, format!("child {id} has two tokens; each has one"))),
            None => Ok(children),
        }
    }

    /// Name and token of each door through which children join.
    pub fn doors(&self) -> Result<Vec<(String, Secret)>, Fault> {
        let key = "auth.join_token_file";
        self.join_token_file.as_ref().map_or(Ok(Vec::new()), |file| read(file, key, None))
    }
}

/// Lines of `NAME TOKEN`; empty lines and those that start with `#` are passed over.
fn read(file: &Path, key: &str, nameless: Option<&str>) -> Result<Vec<(String, Secret)>, Fault> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| fault(key, format!("{} can't be read: {error}", file.display())))?;
    let mut list = Vec::new();
    let mut tokens: HashMap<&str, u32> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: String| fault(key, format!("{} line {number}: {why}", file.display()));
        let (name, token) = match (line.split_once(char::is_whitespace), nameless) {
            (Some((name, token)), _) => (name, token.trim()),
            (None, Some(name)) => (name, line),
            (None, None) => {
                return Err(at(format!(
                    "it looks like {} TOKEN",
                    if key.contains("join") { "NAME" } else { "ID" }
                )));
            }
        };
        check(token).map_err(at)?;
        // Who calls with it could be either.
        if let Some(before) = tokens.insert(token, number) {
            return Err(at(format!("its token is that of line {before}; everybody has one of their own")));
        }
        list.push((name.to_owned(), Secret::new(token)));
    }
    if list.is_empty() {
        return Err(fault(key, format!("{} holds no token", file.display())));
    }
    Ok(list)
}

fn check(token: &str) -> Result<(), String> {
    if token.chars().count() < MIN_TOKEN_CHARS || token.contains(char::is_whitespace) {
        return Err(format!(
            "a token has at least {MIN_TOKEN_CHARS} characters and no spaces; openssl rand -hex 24 makes one"
        ));
    }
    Ok(())
}

fn fault(key: &str, message: String) -> Fault {
    Fault { place: key.to_owned(), message }
}

impl Section for Auth {
    fn name(&self) -> &'static str {
        "auth"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("operator_token", &mut self.operator_token),
            Field::new("operator_token_file", &mut self.operator_token_file),
            Field::new("child_token_file", &mut self.child_token_file),
            Field::new("child_token_required", &mut self.child_token_required),
            Field::new("join_token_file", &mut self.join_token_file),
            Field::new("open_metrics", &mut self.open_metrics),
        ]
    }

    fn check(&self) -> Vec<(&'static str, String)> {
        let nobody_has_one = self.child_token_file.is_none() && self.join_token_file.is_none();
        if self.child_token_required && nobody_has_one {
            let why = "without auth.child_token_file or auth.join_token_file no child could ever call";
            return vec![("child_token_required", why.to_owned())];
        }
        Vec::new()
    }
}
