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
use model::{Role, Secret, TenantName};

/// The name of an operator whose token has none.
const NAMELESS_OPERATOR: &str = "operator";

/// Shortest token, in characters. A shorter one can be guessed.
const MIN_TOKEN_CHARS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    pub operator_token: Option<Secret>,
    /// One operator a line: `NAME TOKEN`, or a token alone; behind it `tenant=NAME` and `roles=ROLE,ROLE`.
    pub operator_token_file: Option<PathBuf>,
    /// One child a line: `ID TOKEN`.
    pub child_token_file: Option<PathBuf>,
    /// Whether children without a token are refused.
    pub child_token_required: bool,
    /// One join token a line: `NAME TOKEN`, and `tenant=NAME` behind it. Whoever has one becomes a child, with a token of its own.
    pub join_token_file: Option<PathBuf>,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
}

/// What a line of a file of tokens says.
#[derive(Debug, Clone)]
pub struct Line {
    /// Whose token it is.
    pub name: String,
    pub token: Secret,
    /// `None`: it is good for the whole manager.
    pub tenant: Option<TenantName>,
    /// Empty: all of them.
    pub roles: Vec<Role>,
}

/// What a line may say beside name and token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Tenant,
    TenantAndRoles,
}

impl Auth {
    pub fn has_operator_token(&self) -> bool {
        self.operator_token.is_some() || self.operator_token_file.is_some()
    }

    /// The token of each operator.
    pub fn operators(&self) -> Result<Vec<Line>, Fault> {
        let mut operators = Vec::new();
        if let Some(token) = &self.operator_token {
            check(token.reveal()).map_err(|why| fault("auth.operator_token", why))?;
            let (name, token) = (NAMELESS_OPERATOR.to_owned(), token.clone());
            operators.push(Line { name, token, tenant: None, roles: Vec::new() });
        }
        if let Some(file) = &self.operator_token_file {
            let key = "auth.operator_token_file";
            operators.extend(read(file, key, Some(NAMELESS_OPERATOR), Beside::TenantAndRoles)?);
        }
        Ok(operators)
    }

    /// Id and token of each child that has one.
    pub fn children(&self) -> Result<Vec<(String, Secret)>, Fault> {
        let key = "auth.child_token_file";
        let lines = self.child_token_file.as_ref();
        let lines = lines.map_or(Ok(Vec::new()), |file| read(file, key, None, Beside::Nothing))?;
        let mut ids = HashSet::new();
        match lines.iter().find(|line| !ids.insert(&line.name)) {
            Some(Line { name, .. }) => Err(fault(key, format!("child {name} has two tokens; each has one"))),
            None => Ok(lines.into_iter().map(|line| (line.name, line.token)).collect()),
        }
    }

    /// The token of each door through which children join.
    pub fn doors(&self) -> Result<Vec<Line>, Fault> {
        let key = "auth.join_token_file";
        let file = self.join_token_file.as_ref();
        file.map_or(Ok(Vec::new()), |file| read(file, key, None, Beside::Tenant))
    }
}

/// Lines of `NAME TOKEN`, with what may be said beside; empty lines and those that start with `#` are passed over.
fn read(file: &Path, key: &str, nameless: Option<&str>, beside: Beside) -> Result<Vec<Line>, Fault> {
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
        let (name, rest) = match (line.split_once(char::is_whitespace), nameless) {
            (Some((name, rest)), _) => (name, rest.trim()),
            (None, Some(name)) => (name, line),
            (None, None) => {
                return Err(at(format!(
                    "it looks like {} TOKEN",
                    if key.contains("join") { "NAME" } else { "ID" }
                )));
            }
        };
        // Without a word about tenants, all that follows the name is the token, and has no spaces in it.
        let (token, words) = match rest.split_once(char::is_whitespace) {
            Some((token, words)) if beside != Beside::Nothing => (token, words),
            Some(_) | None => (rest, ""),
        };
        if beside != Beside::Nothing && (token.starts_with("tenant=") || token.starts_with("roles=")) {
            return Err(at("it looks like NAME TOKEN tenant=NAME: the name is missing".to_owned()));
        }
        check(token).map_err(at)?;
        let (tenant, roles) = words_beside(words, beside).map_err(at)?;
        // Who calls with it could be either.
        if let Some(before) = tokens.insert(token, number) {
            return Err(at(format!("its token is that of line {before}; everybody has one of their own")));
        }
        list.push(Line { name: name.to_owned(), token: Secret::new(token), tenant, roles });
    }
    if list.is_empty() {
        return Err(fault(key, format!("{} holds no token", file.display())));
    }
    Ok(list)
}

/// Reads `tenant=NAME roles=ROLE,ROLE`, in any order, each once.
fn words_beside(words: &str, beside: Beside) -> Result<(Option<TenantName>, Vec<Role>), String> {
    let (mut tenant, mut roles) = (None, None);
    let twice = |word: &str| format!("{word:?} is the second of its kind");
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("tenant", name)) => {
                let name = TenantName::parse(name).map_err(|error| format!("tenant={name}: {error}"))?;
                if tenant.replace(name).is_some() {
                    return Err(twice(word));
                }
            }
            Some(("roles", names)) if beside == Beside::TenantAndRoles => {
                let role = |name: &str| {
                    let known = Role::NAMES.join(", ");
                    Role::named(name).ok_or_else(|| format!("the role {name:?} is none of {known}"))
                };
                let names: Vec<Role> = names.split(',').map(role).collect::<Result<_, _>>()?;
                if roles.replace(names).is_some() {
                    return Err(twice(word));
                }
            }
            // Never the word itself: it may be a token.
            Some(_) | None => {
                let known = match beside {
                    Beside::Nothing => "nothing",
                    Beside::Tenant => "tenant=NAME",
                    Beside::TenantAndRoles => "tenant=NAME and roles=ROLE,ROLE",
                };
                return Err(format!("a token has no spaces, and behind it stands {known}"));
            }
        }
    }
    Ok((tenant, roles.unwrap_or_default()))
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
