//! The table of null cells, as Markdown.

use super::{ALPHA, Cell, Tally};

pub fn nulls(cells: &[Cell], tallies: &[Tally]) -> String {
    let mut text = format!(
        "{} null cells on the boundary, {} runs each, alpha {ALPHA}.\n\n\
         | cell | false alarms | limit | false passes | undecided |\n|---|---:|---:|---:|---:|\n",
        cells.len(),
        tallies.first().map_or(0, |tally| tally.runs)
    );
    for (cell, tally) in cells.iter().zip(tallies) {
        let undecided = tally.undecided as f64 / tally.runs as f64;
        text.push_str(&format!(
            "| {} | {:.4} | {} | {:.4} | {undecided:.3} |\n",
            cell.name,
            tally.share_failed(),
            cell.limit,
            tally.share_passed(),
        ));
    }
    text
}
