//! Lines of a shell as words and operators: enough to see where a command ends, and what it calls.

use std::{iter::Peekable, str::Chars};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Without its quotes.
    Word(String),
    /// Also the end of a line.
    Operator(String),
}

#[derive(Debug)]
pub struct Lexed {
    tokens: Vec<Token>,
    /// Not in the middle of quotes, of a here-document, of a loop, or of a line that goes on.
    pub is_whole: bool,
    /// Behind the last `#`.
    pub comment: String,
}

pub fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer::new(text);
    while let Some(c) = lexer.chars.next() {
        lexer.take(c);
    }
    lexer.end_word();
    let is_open = lexer.is_cut || !lexer.heredocs.is_empty();
    let lexed = Lexed { tokens: lexer.tokens, is_whole: true, comment: lexer.comment };
    Lexed { is_whole: !is_open && lexed.depth() == 0, ..lexed }
}

struct Lexer<'t> {
    chars: Peekable<Chars<'t>>,
    tokens: Vec<Token>,
    word: Option<String>,
    /// The last lines of here-documents that begin with the next line.
    heredocs: Vec<String>,
    comment: String,
    is_cut: bool,
}

impl<'t> Lexer<'t> {
    fn new(text: &'t str) -> Self {
        let chars = text.chars().peekable();
        let (tokens, heredocs, comment) = (Vec::new(), Vec::new(), String::new());
        Self { chars, tokens, word: None, heredocs, comment, is_cut: false }
    }

    fn take(&mut self, c: char) {
        match c {
            '\\' => match self.chars.next() {
                Some('\n') => {}
                Some(c) => self.push(c),
                None => self.is_cut = true,
            },
            '\'' | '"' | '`' => self.quoted(c),
            '$' if self.chars.peek() == Some(&'(') => self.substitution(),
            '#' if self.word.is_none() => {
                self.comment = std::iter::from_fn(|| self.chars.next_if(|c| *c != '\n')).collect();
            }
            '\n' => {
                self.end_word();
                self.tokens.push(Token::Operator("\n".to_owned()));
                self.skip_heredocs();
            }
            c if c.is_whitespace() => self.end_word(),
            '|' | '&' | ';' | '(' | ')' | '<' | '>' => self.operator(c),
            c => self.push(c),
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        self.tokens.extend(self.word.take().map(Token::Word));
    }

    fn quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        loop {
            match self.chars.next() {
                None => {
                    self.is_cut = true;
                    return;
                }
                Some(c) if c == quote => return,
                Some('\\') if quote == '"' => {
                    if let Some(c) = self.chars.next() {
                        self.push(c);
                    }
                }
                Some(c) => self.push(c),
            }
        }
    }

    /// `$(…)`, as it is written.
    fn substitution(&mut self) {
        self.push('$');
        let mut depth = 0;
        loop {
            let Some(c) = self.chars.next() else {
                self.is_cut = true;
                return;
            };
            self.push(c);
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return,
                ')' => depth -= 1,
                _ => {}
            }
        }
    }

    fn operator(&mut self, first: char) {
        // The number of a file that is redirected.
        let is_number = self.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        if matches!(first, '<' | '>') && is_number {
            self.word = None;
        }
        self.end_word();
        let mut operator = String::from(first);
        while let Some(c) = self.chars.next_if(|c| *c == first && first != '(' && first != ')') {
            operator.push(c);
        }
        if matches!(first, '<' | '>') {
            operator.extend(self.chars.next_if(|c| matches!(c, '&' | '|')));
        }
        if operator == "<<" {
            self.heredoc();
        } else {
            self.tokens.push(Token::Operator(operator));
        }
    }

    fn heredoc(&mut self) {
        while self.chars.next_if(|c| matches!(c, '-' | ' ')).is_some() {}
        let word = std::iter::from_fn(|| self.chars.next_if(|c| !c.is_whitespace() && !";|&)".contains(*c)));
        let word: String = word.filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        self.heredocs.push(word);
    }

    fn skip_heredocs(&mut self) {
        while let Some(last) = self.heredocs.first() {
            let line: String = std::iter::from_fn(|| self.chars.next_if(|c| *c != '\n')).collect();
            if line.trim_start_matches('\t') == last {
                self.heredocs.remove(0);
            }
            if self.chars.peek().is_none() {
                return;
            }
            if !self.heredocs.is_empty() {
                self.chars.next();
            }
        }
    }
}

impl Lexed {
    /// The commands that it runs, each as its words, without what comes in front of them and without redirections.
    pub fn commands(&self) -> Vec<Vec<&str>> {
        let (mut commands, mut words, mut is_target) = (Vec::new(), Vec::new(), false);
        for token in &self.tokens {
            match token {
                Token::Word(_) if is_target => is_target = false,
                Token::Word(word) => words.push(word.as_str()),
                Token::Operator(operator) if operator.contains(['<', '>']) => is_target = true,
                Token::Operator(_) => commands.push(std::mem::take(&mut words)),
            }
        }
        commands.push(words);
        commands.iter().map(|words| without_prefix(words)).filter(|words| !words.is_empty()).collect()
    }

    /// Whether it is one command and no more, which may take the place of its shell.
    pub fn is_simple(&self) -> bool {
        let is_other = |token: &Token| matches!(token, Token::Operator(of) if !of.contains(['<', '>']));
        let is_first = matches!(self.tokens.first(), Some(Token::Word(word)) if !is_assignment(word));
        is_first && !self.tokens.iter().any(is_other)
    }

    /// Whether it goes on while others are typed.
    pub fn is_in_background(&self) -> bool {
        self.tokens.last() == Some(&Token::Operator("&".to_owned()))
    }

    /// The variable that it sets, where it does nothing else.
    pub fn assigned(&self) -> Option<&str> {
        let mut words = self.tokens.iter().map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::Operator(_) => None,
        });
        let first = words.next()??;
        let (word, rest) =
            if first == "export" { (words.next()??, words.next()) } else { (first, words.next()) };
        (rest.is_none() && is_assignment(word)).then(|| word.split('=').next())?
    }

    /// How many loops, conditions, groups and functions are open at its end.
    fn depth(&self) -> i32 {
        let mut depth = 0;
        let mut is_first = true;
        for token in &self.tokens {
            match token {
                Token::Word(word) if is_first => {
                    depth += match word.as_str() {
                        "for" | "while" | "until" | "if" | "case" | "{" => 1,
                        "done" | "fi" | "esac" | "}" => -1,
                        _ => 0,
                    };
                    is_first = matches!(word.as_str(), "do" | "then" | "else" | "{");
                }
                Token::Word(_) => {}
                Token::Operator(operator) => is_first = !operator.contains(['<', '>']),
            }
        }
        depth
    }
}

/// `NAME=VALUE`.
fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The words of a command from the program on.
fn without_prefix<'t>(words: &[&'t str]) -> Vec<&'t str> {
    let mut rest = words;
    loop {
        match rest {
            ["sudo", "-u", _, after @ ..] => rest = after,
            ["do" | "then" | "else" | "!" | "{" | "exec" | "env" | "sudo" | "time" | "nohup", after @ ..] => {
                rest = after;
            }
            [word, after @ ..] if is_assignment(word) => rest = after,
            _ => return rest.to_vec(),
        }
    }
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    let commands = |text: &str| {
        let all = lex(text).commands().into_iter().map(|words| words.join("·")).collect::<Vec<_>>();
        all.join(" / ")
    };
    for (text, expected) in [
        ("a 'b c' \"d \\\" e\" f\\ g # h", "a·b c·d \" e·f g"),
        ("X=1 sudo -u me /usr/bin/a --b=c > d 2>&1 && e | f; g &", "/usr/bin/a·--b=c / e / f / g"),
        ("for i in 1 2; do a \"$i\"; done | b", "for·i·in·1·2 / a·$i / done / b"),
        ("cat > a <<'E'\nb c\nE\nd", "cat / d"),
        ("T=$(a b | c) d", "d"),
        ("a \\\n  b", "a·b"),
        ("api() { a \"$1\"; }", "api / a·$1 / }"),
    ] {
        assert!(lex(text).is_whole, "{text}");
        assert_eq!(commands(text), expected, "{text}");
    }
    for cut in ["a 'b", "a \"b", "a \\", "cat <<E\nb", "for i in 1; do a", "a $(b", "f() {"] {
        assert!(!lex(cut).is_whole, "{cut}");
    }
    let simple = |text: &str| (lex(text).is_simple(), lex(text).is_in_background(), lex(text).comment);
    assert_eq!(simple("a > b # c"), (true, false, " c".to_owned()));
    assert_eq!(simple("a b &"), (false, true, String::new()));
    assert_eq!(lex("export A=\"b c\"").assigned(), Some("A"));
    assert_eq!(lex("A=$(b c)").assigned(), Some("A"));
    assert_eq!((lex("A=b c").assigned(), lex("export A").assigned()), (None, None));
}
