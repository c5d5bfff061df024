//! Words that stand in the code as text.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Lit, Macro,
    visit::{self, Visit},
};

use super::sorted;
use crate::source;

/// Literals of one word. What is written for people has several, and what attributes say is guarded by what they make.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn take(&mut self, literal: &Lit) {
        let text = match literal {
            Lit::Str(text) => text.value(),
            Lit::ByteStr(bytes) => String::from_utf8_lossy(&bytes.value()).into_owned(),
            Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
            _ => return,
        };
        let text = text.trim();
        if !text.contains(char::is_whitespace) && text.contains(char::is_alphanumeric) {
            self.0.push(without_variables(text).escape_debug().to_string());
        }
    }

    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut after_mark = false;
        for token in tokens {
            match &token {
                TokenTree::Group(group) if after_mark && group.delimiter() == Delimiter::Bracket => {}
                TokenTree::Group(group) => self.take_tokens(group.stream()),
                TokenTree::Literal(literal) => self.take(&Lit::new(literal.clone())),
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
            // An attribute of what a macro declares.
            after_mark = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '#');
        }
    }
}

impl Visit<'_> for Words {
    fn visit_attribute(&mut self, _: &Attribute) {}

    fn visit_lit(&mut self, literal: &Lit) {
        self.take(literal);
    }

    fn visit_macro(&mut self, called: &Macro) {
        if called.path.segments.last().is_some_and(|name| name.ident.to_string().starts_with("include")) {
            return;
        }
        visit::visit_macro(self, called);
        self.take_tokens(called.tokens.clone());
    }
}

/// `{}` for each `{name}`: what stands between the brackets is a name within the code.
fn without_variables(text: &str) -> String {
    let mut parts = text.split('}');
    let mut short = parts.next_back().unwrap_or_default().to_owned();
    for part in parts.rev() {
        short = match part.rsplit_once('{') {
            Some((before, inner)) if is_variable(inner) => format!("{before}{{}}{short}"),
            _ => format!("{part}}}{short}"),
        };
    }
    short
}

fn is_variable(inner: &str) -> bool {
    let name = inner.split(':').next().unwrap_or_default();
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[test]
fn every_word_that_stands_in_the_code_is_the_same() {
    let mut words = Words::default();
    for source in source::all() {
        words.visit_file(&source.file);
    }
    insta::assert_snapshot!(sorted(words.0));
}
