//! Words that stand in the code as text, and words that texts for users no longer have.

use std::{collections::BTreeMap, fs};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Lit, Macro,
    visit::{self, Visit},
};

use super::{command_line::help_of_all, sorted};
use crate::{
    docs::page::{self, Block, Page},
    source::{self, repository},
};

/// Which literals are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Of one word. What attributes say is guarded by what they make.
    OneWord,
    /// Of several: what is written for people.
    Several,
}

struct Words {
    of: Of,
    found: Vec<String>,
}

impl Words {
    /// Those of the files whose path fits.
    fn of(of: Of, is_of: impl Fn(&str) -> bool) -> Vec<String> {
        let mut words = Self { of, found: Vec::new() };
        for source in source::all().iter().filter(|source| is_of(&source.path.display().to_string())) {
            words.visit_file(&source.file);
        }
        words.found
    }

    fn take(&mut self, literal: &Lit) {
        let text = match literal {
            Lit::Str(text) => text.value(),
            Lit::ByteStr(bytes) => String::from_utf8_lossy(&bytes.value()).into_owned(),
            Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
            _ => return,
        };
        let text = text.trim();
        match self.of {
            Of::OneWord if !text.contains(char::is_whitespace) && text.contains(char::is_alphanumeric) => {
                self.found.push(without_variables(text).escape_debug().to_string());
            }
            Of::Several if text.contains(char::is_whitespace) => self.found.push(text.to_owned()),
            Of::OneWord | Of::Several => {}
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
    insta::assert_snapshot!(sorted(Words::of(Of::OneWord, |_| true)));
}

/// Each with where it stands, as far as that is known.
type Texts = Vec<(String, String)>;

/// The texts of a column of the file.
fn texts(place: &str) -> Texts {
    match place {
        "docs" => page::all().iter().flat_map(|name| of_page(&Page::read(name))).collect(),
        "config" => of_configuration(),
        "help" => vec![("--help".to_owned(), help_of_all())],
        "page" => named("the web page", Words::of(Of::Several, |path| path.starts_with("src/page/"))),
        "messages" => named("a message", Words::of(Of::Several, |path| !path.starts_with("src/page/"))),
        other => panic!("tests/it/names/replaced_words: there are no texts called {other:?}"),
    }
}

fn named(name: &str, texts: Vec<String>) -> Texts {
    texts.into_iter().map(|text| (name.to_owned(), text)).collect()
}

/// Its paragraphs, each with the place of its first line, and comments in its blocks.
fn of_page(page: &Page) -> Texts {
    let mut texts: Texts = Vec::new();
    let mut before = 0;
    for (place, text) in page.plain_lines() {
        match texts.last_mut() {
            Some((_, paragraph)) if place.line == before + 1 => {
                paragraph.push('\n');
                paragraph.push_str(&text);
            }
            _ => texts.push((place.to_string(), text)),
        }
        before = place.line;
    }
    let has_comments = |block: &&Block| matches!(block.language.as_str(), "sh" | "console" | "yaml" | "yml");
    for block in page.blocks().filter(has_comments) {
        texts.push((block.place.to_string(), comments(&block.text)));
    }
    texts
}

fn of_configuration() -> Texts {
    let files = fs::read_dir(repository().join("config")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yml"));
    files.map(|path| (path.display().to_string(), comments(&fs::read_to_string(&path).unwrap()))).collect()
}

/// What stands behind `#`, line by line.
fn comments(text: &str) -> String {
    let comment = |line: &str| match line.strip_prefix('#') {
        Some(comment) => comment.to_owned(),
        None => line.split_once(" #").map_or("", |(_, comment)| comment).to_owned(),
    };
    text.lines().map(comment).collect::<Vec<_>>().join("\n")
}

/// Words without case, but for what stands in backticks. Between parts of sentences stands an empty one.
fn words(text: &str) -> Vec<String> {
    let plain = text.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "." });
    let (mut words, mut word) = (Vec::new(), String::new());
    for c in plain.collect::<String>().to_lowercase().chars().chain([' ']) {
        if c.is_alphanumeric() || matches!(c, '-' | '\'' | '_') {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() && c != '*' {
            words.push(String::new());
        }
    }
    words
}

fn has(words: &[String], phrase: &[String]) -> bool {
    words.windows(phrase.len()).any(|window| window == phrase)
}

/// The words of a phrase alone.
fn phrase(text: &str) -> Vec<String> {
    words(text).into_iter().filter(|word| !word.is_empty()).collect()
}

#[test]
fn texts_for_users_have_no_word_that_was_replaced() {
    let list = fs::read_to_string(repository().join("tests/it/names/replaced_words")).unwrap();
    let mut replaced: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [places, old, new] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("tests/it/names/replaced_words: {line:?} is not WHERE | OLD | NEW");
        };
        for place in places.split_whitespace() {
            replaced.entry(place).or_default().push((old, new));
        }
    }
    let mut faults = Vec::new();
    for (place, replaced) in replaced {
        for (name, text) in texts(place) {
            let words = words(&text);
            let found = replaced.iter().filter(|(old, _)| has(&words, &phrase(old)));
            faults.extend(found.map(|(old, new)| format!("{name}: not {old:?}, but {new:?}:\n    {text}")));
        }
    }
    assert!(
        faults.is_empty(),
        "write other words, or change tests/it/names/replaced_words\n{}",
        faults.join("\n")
    );
}

#[test]
fn a_replaced_word_is_found_whatever_stands_around_it() {
    let is_in = |old: &str, text: &str| has(&words(text), &phrase(old));
    for text in ["It is taken back.", "(Taken\nback)", "**taken**  back: see", "it is taken back"] {
        assert!(is_in("taken back", text), "{text}");
    }
    for text in ["It was taken. Back then", "`taken back`", "mistaken back", "taken backwards", "taken, back"]
    {
        assert!(!is_in("taken back", text), "{text}");
    }
    assert!(is_in("beside", "beside it") && !is_in("beside", "besides"));
    assert_eq!(comments("a: 1 # one\n# two\nb: '#3'\n"), " one\n two\n");
}
