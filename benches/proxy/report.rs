//! The table that comes out.

/// The median of some numbers; not a number where there is none.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The median of what rounds that followed each other come to.
pub fn paired(ours: &[f64], theirs: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    let pairs: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| of(*ours, *theirs)).collect();
    median(&pairs)
}

/// Whether a row reached what it is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    Yes,
    No,
    /// Too few rounds were quiet enough to tell.
    TooBusy,
}

impl Met {
    pub fn of(is_met: bool) -> Self {
        if is_met { Self::Yes } else { Self::No }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "**no**",
            Self::TooBusy => "machine too busy",
        }
    }
}

#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    missing: Vec<String>,
}

impl Report {
    pub fn line(&mut self, what: &str, ours: &str, theirs: &str, ratio: &str, target: &str, met: Met) {
        let line = format!("| {what} | {ours} | {theirs} | {ratio} | {target} | {} |", met.text());
        eprintln!("{line}");
        self.lines.push(line);
    }

    pub fn missing(&mut self, what: &str) {
        self.missing.push(format!("Missing: {what} is not installed, so nothing is compared with it."));
    }

    pub fn print(&self, about: &str) {
        println!("\n| what | proxy | beside it | ratio | target | met |\n|---|---|---|---|---|---|");
        self.lines.iter().for_each(|line| println!("{line}"));
        println!("\n{about}");
        self.missing.iter().for_each(|missing| println!("\n{missing}"));
    }
}
