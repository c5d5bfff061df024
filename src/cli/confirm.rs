//! What is asked of a person before much is done at once.

use std::io::{self, IsTerminal as _, Write as _};

use super::failure::Failure;

/// Whether anybody is to be asked.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Consent {
    /// Ask nothing: it is to be done. Required where there is no terminal
    #[arg(long)]
    pub yes: bool,
}

impl Consent {
    /// Asks a question on standard error, and reads the answer as a line of standard input. With `--yes` nothing is asked.
    ///
    /// # Errors
    ///
    /// The answer is not yes, or there is no terminal, so that nobody can be asked.
    pub fn ask(self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let mut terminal = io::stderr();
        if !(io::stdin().is_terminal() && terminal.is_terminal()) {
            return Err(Failure::user(format!(
                "nothing was done: without a terminal nobody can be asked: {question}\nIf the answer is yes, add --yes."
            )));
        }
        write!(terminal, "{question} [y/N] ")?;
        let mut answer = String::new();
        io::stdin()
            .read_line(&mut answer)
            .map_err(|error| Failure::ours(format!("nothing was done: the answer can't be read: {error}")))?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::user("nothing was done")),
        }
    }
}
