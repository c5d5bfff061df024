//! What goes to a terminal, without what others may have hidden in it.
//!
//! A writer between the commands and the terminal: whatever they print of names and notes, nothing in it moves the
//! cursor. Where the output is no terminal (a file, a pipe) nothing is changed.

use std::io::{self, IsTerminal as _, Stderr, Stdout, Write};

use super::terminal;
use model::text::{escape, is_unprintable};

/// Longest control sequence of our own, in bytes; whatever is longer is not one.
const MAX_SEQUENCE: usize = 24;

/// The last bytes of control sequences that drawings are made of: colours, places, clearing, the cursor's look.
const DRAWING: &[u8] = b"mABCDEFGHJKhl";

/// Control sequences that reach a terminal: those of the command that writes, never those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    None,
    /// The colours of [`terminal::painted`].
    Colours,
    /// Whatever drawings are made of. What the command draws it makes fit by itself.
    Drawings,
}

/// A writer that spells out what can't be shown.
#[derive(Debug)]
pub struct Printable<W: Write> {
    inner: W,
    /// Bytes of a character or a sequence that is not complete.
    rest: Vec<u8>,
    filters: bool,
    passes: Passes,
}

impl Printable<Stdout> {
    pub fn stdout(passes: Passes) -> Self {
        let stdout = io::stdout();
        let filters = stdout.is_terminal();
        Self::new(stdout, filters, passes)
    }
}

impl Printable<Stderr> {
    /// For logs, of which somebody may look at each, wherever they are kept.
    pub fn stderr(passes: Passes) -> Self {
        Self::new(io::stderr(), true, passes)
    }
}

impl<W: Write> Printable<W> {
    pub fn new(inner: W, filters: bool, passes: Passes) -> Self {
        Self { inner, rest: Vec::new(), filters, passes }
    }

    fn pass(&mut self, text: &str, out: &mut String) {
        let mut left = text;
        while let Some(at) = left.find(is_unprintable) {
            let (fine, from) = left.split_at(at);
            out.push_str(fine);
            if let Some(length) = self.own_sequence(from) {
                if length > from.len() {
                    self.rest = from.as_bytes().to_vec();
                    return;
                }
                out.push_str(&from[..length]);
                left = &from[length..];
                continue;
            }
            let mut chars = from.chars();
            match chars.next() {
                Some(c @ ('\n' | '\t')) => out.push(c),
                Some(c) => escape(c, out),
                None => {}
            }
            left = chars.as_str();
        }
        out.push_str(left);
    }

    /// The length of a sequence of our own at the beginning of a text; longer than the text if its end is to come.
    fn own_sequence(&self, text: &str) -> Option<usize> {
        if self.passes == Passes::None {
            return None;
        }
        let bytes = text.as_bytes();
        match bytes {
            [b'\r', ..] => return (self.passes == Passes::Drawings).then_some(1),
            [0x1b] => return Some(2),
            [0x1b, b'[', ..] => {}
            _ => return None,
        }
        let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b'?');
        match bytes[2..].iter().position(|byte| !is_parameter(byte)) {
            Some(end) if self.passes == Passes::Colours => {
                terminal::is_of_painting(&bytes[..3 + end]).then_some(3 + end)
            }
            Some(end) => DRAWING.contains(&bytes[2 + end]).then_some(3 + end),
            None => (bytes.len() < MAX_SEQUENCE).then_some(bytes.len() + 1),
        }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.filters {
            return self.inner.write(bytes);
        }
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        let mut left = all.as_slice();
        loop {
            match std::str::from_utf8(left) {
                Ok(text) => {
                    self.pass(text, &mut out);
                    break;
                }
                Err(error) => {
                    let (fine, from) = left.split_at(error.valid_up_to());
                    self.pass(&String::from_utf8_lossy(fine), &mut out);
                    let Some(length) = error.error_len() else {
                        self.rest = from.to_vec();
                        break;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    left = &from[length..];
                }
            }
        }
        self.inner.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
