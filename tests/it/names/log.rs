//! Fields of what is logged: keys of the log in JSON.

use proc_macro2::TokenTree;
use syn::{
    Macro,
    visit::{self, Visit},
};

use super::sorted;
use crate::source;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

#[derive(Default)]
struct Logged(Vec<String>);

impl Visit<'_> for Logged {
    fn visit_macro(&mut self, called: &Macro) {
        let path: Vec<String> =
            called.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match &path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["tracing", level] if LEVELS.contains(level) => {
                self.0.push(format!("{level} {{{}}}", fields(called).join(", ")));
            }
            [level] if LEVELS.contains(level) => panic!("write tracing::{level}!, so that it is seen here"),
            ["tracing", "enabled"] => {}
            ["tracing", other] => panic!("tracing::{other}! is not seen here"),
            _ => {}
        }
        visit::visit_macro(self, called);
    }
}

/// The names of `name = value`, `%name` and `?name`, up to the text.
fn fields(called: &Macro) -> Vec<String> {
    let tokens: Vec<TokenTree> = called.tokens.clone().into_iter().collect();
    let arguments = tokens.split(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ','));
    let before_text =
        arguments.take_while(|argument| !matches!(argument.first(), Some(TokenTree::Literal(_))));
    before_text.map(name).collect()
}

fn name(argument: &[TokenTree]) -> String {
    let tokens: Vec<String> = argument.iter().map(ToString::to_string).collect();
    match tokens.iter().position(|token| token == "=") {
        Some(end) => tokens[..end].concat(),
        None => tokens.concat().trim_start_matches(['%', '?']).to_owned(),
    }
}

#[test]
fn what_is_logged_has_the_same_fields() {
    let mut logged = Logged::default();
    for source in source::all() {
        logged.visit_file(&source.file);
    }
    insta::assert_snapshot!(sorted(logged.0));
}
