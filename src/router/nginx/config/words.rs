//! The words of nginx's configurations: writing them so that they mean themselves, and reading them.

use std::fmt::Write as _;

use model::hex;

/// A pattern that only this text fits, in nginx's own quotes: letters and digits as they are, all else by its code. So there is
/// nothing in it that could end a word, name a variable, or mean anything to PCRE.
pub fn exactly(text: &str) -> String {
    let mut pattern = String::from("\"~^");
    for byte in text.bytes() {
        push_literal(&mut pattern, byte);
    }
    pattern.push_str("\\z\"");
    pattern
}

/// A byte within a pattern.
pub fn push_literal(pattern: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() {
        pattern.push(char::from(byte));
    } else {
        let _ = write!(pattern, "\\x{byte:02x}");
    }
}

/// The text that a pattern of [`exactly`] fits; none of another pattern.
pub fn exact_text(pattern: &str) -> Option<String> {
    literal(pattern.strip_prefix("~^")?.strip_suffix("\\z")?)
}

/// What [`push_literal`] wrote.
pub fn literal(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(code) = rest.strip_prefix("\\x") {
            let [byte] = hex::decode::<1>(code.get(..2)?).ok().filter(|[byte]| byte.is_ascii())?;
            text.push(char::from(byte));
            rest = &code[2..];
        } else {
            text.push(Some(first).filter(char::is_ascii_alphanumeric)?);
            rest = &rest[1..];
        }
    }
    Some(text)
}

/// A directive: its words, without quotes, and what stands in its braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    pub words: Vec<String>,
    pub block: Vec<Directive>,
}

impl Directive {
    pub fn name(&self) -> &str {
        self.word(0)
    }

    /// Whether it has this file in its block.
    pub fn includes(&self, path: &str) -> bool {
        self.block.iter().any(|one| one.name() == "include" && one.word(1) == path)
    }

    /// Empty where there are not so many.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// Braces that stand in each other deeper than any of ours.
const DEEPEST: usize = 16;

/// Reads a configuration as nginx does. None where it is none.
pub fn read(text: &str) -> Option<Vec<Directive>> {
    let mut reader = Reader { rest: text };
    let all = reader.block(0)?;
    reader.rest.is_empty().then_some(all)
}

struct Reader<'t> {
    rest: &'t str,
}

enum Token {
    Word(String),
    End,
    Open,
    Close,
    /// The text is over.
    Nothing,
}

impl Reader<'_> {
    /// The directives up to the brace that closes this block, or to the end of everything.
    fn block(&mut self, depth: usize) -> Option<Vec<Directive>> {
        if depth > DEEPEST {
            return None;
        }
        let mut all = Vec::new();
        let mut words = Vec::new();
        loop {
            match self.token()? {
                Token::Word(word) => words.push(word),
                Token::End if words.is_empty() => return None,
                Token::End => all.push(Directive { words: std::mem::take(&mut words), block: Vec::new() }),
                Token::Open => {
                    let block = self.block(depth + 1)?;
                    all.push(Directive { words: std::mem::take(&mut words), block });
                }
                Token::Close => return (depth > 0 && words.is_empty()).then_some(all),
                Token::Nothing => return (depth == 0 && words.is_empty()).then_some(all),
            }
        }
    }

    /// The next one; none where a quoted word has no end.
    fn token(&mut self) -> Option<Token> {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                break;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let Some(first) = self.rest.chars().next() else { return Some(Token::Nothing) };
        let token = match first {
            ';' => Token::End,
            '{' => Token::Open,
            '}' => Token::Close,
            '"' | '\'' => return self.quoted(first).map(Token::Word),
            _ => return Some(Token::Word(self.bare())),
        };
        self.rest = &self.rest[1..];
        Some(token)
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut word = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            if char == quote {
                self.rest = &self.rest[at + 1..];
                return Some(word);
            }
            if char != '\\' {
                word.push(char);
                continue;
            }
            match chars.next()?.1 {
                escaped @ ('"' | '\'' | '\\') => word.push(escaped),
                't' => word.push('\t'),
                'r' => word.push('\r'),
                'n' => word.push('\n'),
                other => word.extend(['\\', other]),
            }
        }
        None
    }

    /// `${` is no opening brace.
    fn bare(&mut self) -> String {
        let mut before = ' ';
        let mut in_variable = false;
        let end = self.rest.find(|char: char| {
            let opens = char == '{' && before == '$';
            let is_end = char.is_whitespace()
                || char == ';'
                || (char == '{' && !opens)
                || (char == '}' && !in_variable);
            in_variable = (in_variable || opens) && char != '}';
            before = char;
            is_end
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }
}
