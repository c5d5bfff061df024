use std::fmt::Write as _;

/// Rows gathered so far, as a table of Markdown.
#[derive(Debug, Default)]
pub struct Lines {
    lines: Vec<String>,
    missing: Vec<String>,
}

impl Lines {
    /// What was measured, our side, the others', what that comes to, what it is to reach, and whether it did. It is shown at once as well.
    pub fn push(&mut self, cells: [&str; 6]) {
        let line = format!("| {} |", cells.join(" | "));
        eprintln!("{line}");
        self.lines.push(line);
    }

    /// Says why rows are not there.
    pub fn missing(&mut self, what: &str, why: &str) {
        self.missing.push(format!("Missing: {what}: {why}."));
    }

    /// All of it. `ours`: what our side is called.
    pub fn render(&self, ours: &str, about: &str) -> String {
        let mut text =
            format!("\n| what | {ours} | beside it | ratio | target | met |\n|---|---|---|---|---|---|\n");
        for line in &self.lines {
            // Writing into a string can't fail.
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "\n{about}");
        for missing in &self.missing {
            let _ = writeln!(text, "\n{missing}");
        }
        text
    }
}
