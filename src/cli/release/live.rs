//! A release on a terminal, drawn again in place.

use std::io::{self, Write};

use crossterm::{
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    execute, queue,
    style::{Color, Stylize as _},
    terminal::{self, Clear, ClearType},
};
use jiff::Timestamp;

use super::{progress, show as detail_view, stage_progress};
use crate::cli::{show, terminal::colours};
use protocol::api::{ReleaseChild, ReleaseDetail};

/// Where the terminal does not tell its size.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Lines around the stages and the children.
const FRAME_LINES: usize = 10;

/// Fewest children shown, however small the terminal is.
const MIN_ROWS: usize = 3;

/// Most children shown, however large it is.
const MAX_ROWS: usize = 200;

/// Characters of the bar.
const BAR: usize = 30;

fn size() -> (usize, usize) {
    let (width, height) =
        terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(DEFAULT_SIZE);
    (width.into(), height.into())
}

/// How many children fit under the release.
pub fn rows_for_children(detail: &ReleaseDetail) -> usize {
    let judged: usize = detail.analyses.iter().map(|analysis| 1 + analysis.metrics.len()).sum();
    let now = Timestamp::now();
    let measured: usize = detail.stages.iter().map(|stage| stage_progress::lines(stage, now).len()).sum();
    size().1.saturating_sub(FRAME_LINES + detail.stages.len() + measured + judged).clamp(MIN_ROWS, MAX_ROWS)
}

/// The drawing. The cursor is hidden while it lives.
#[derive(Debug)]
pub struct Live {
    lines: u16,
    colours: bool,
}

impl Live {
    pub fn new() -> Self {
        // A terminal that can't hide its cursor shows it.
        let _ = execute!(io::stdout(), Hide);
        Self { lines: 0, colours: colours(&io::stdout()) }
    }

    /// Draws over what it drew before.
    pub fn draw(
        &mut self,
        detail: &ReleaseDetail,
        children: &[ReleaseChild],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (width, height) = size();
        let mut lines = frame(detail, children, Timestamp::now());
        lines.truncate(height.saturating_sub(1));
        self.clear(out)?;
        for line in &lines {
            let line = show::cut(line, width);
            if self.colours { writeln!(out, "{}", coloured(&line))? } else { writeln!(out, "{line}")? }
        }
        self.lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        out.flush()
    }

    /// A line below the drawing, until the next one.
    pub fn note(&mut self, text: &str, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", show::cut(text, size().0))?;
        self.lines += 1;
        out.flush()
    }

    fn clear(&self, out: &mut impl Write) -> io::Result<()> {
        if self.lines > 0 {
            queue!(out, MoveUp(self.lines), MoveToColumn(0), Clear(ClearType::FromCursorDown))?;
        }
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), Show);
    }
}

/// The lines of the drawing, without colours and as long as they are.
fn frame(detail: &ReleaseDetail, children: &[ReleaseChild], now: Timestamp) -> Vec<String> {
    let release = &detail.release;
    let counts = &release.counts;
    let took = show::between(release.started.as_deref(), release.ended.as_deref(), now);
    let mut lines = vec![
        format!("{}  {}", release.id, show::one_line(&release.name)),
        format!("{}  {took}", progress::state_beside_waiting(release)),
        show::one_line(release.waits_for.as_deref().unwrap_or_default()),
        format!(
            "{} {}/{} over  {}",
            bar(counts.done + counts.failed_status, counts.participants),
            counts.done + counts.failed_status,
            counts.participants,
            progress::outcomes(counts)
        ),
    ];
    lines.extend(progress::first_failure(release).map(|failure| format!("first failure: {failure}")));
    lines.push(String::new());
    for stage in &detail.stages {
        let mut here: Vec<String> =
            stage.children.iter().map(|(status, count)| format!("{count} {status}")).collect();
        here.extend(stage.failed.then(|| "failed".to_owned()));
        let shares = if stage.shares.is_empty() {
            format!("{} % new", stage.new_traffic)
        } else {
            show::one_line(&show::percents(&stage.shares))
        };
        lines.push(format!("  {} ({shares})  {}", show::one_line(&stage.name), here.join(", ")));
        lines.extend(stage_progress::lines(stage, now).into_iter().map(|line| format!("    {line}")));
    }
    for analysis in &detail.analyses {
        let verdict = analysis.verdict.as_deref().unwrap_or(&analysis.state);
        lines.push(format!("  analysis of {}: {verdict}", show::one_line(&analysis.of)));
        for metric in &analysis.metrics {
            lines.push(format!("    {}: {}", show::one_line(&metric.name), show::one_line(&metric.found)));
        }
    }
    if !children.is_empty() {
        lines.push(String::new());
        let rows = children.iter().map(|child| detail_view::row(child, now));
        lines.extend(show::table(&detail_view::HEAD, rows).lines().map(str::to_owned));
    }
    let hidden = (counts.participants as usize).saturating_sub(children.len());
    if hidden > 0 {
        lines.push(format!("… and {}", show::counted(hidden as u64, "more child", "more children")));
    }
    lines
}

fn bar(done: u32, all: u32) -> String {
    let full = if all == 0 { 0 } else { BAR * done as usize / all as usize };
    format!("[{}{}]", "#".repeat(full.min(BAR)), ".".repeat(BAR.saturating_sub(full)))
}

/// Words that say how it goes stand out; nothing is said by colour alone.
fn coloured(line: &str) -> String {
    let words = [
        ("DoneWithFailures", Color::Red),
        ("RolledBackUnproven", Color::Magenta),
        ("RolledBack", Color::Red),
        ("Aborted", Color::Red),
        ("NoParticipants", Color::Yellow),
        ("DoneUntested", Color::Yellow),
        ("AwaitingApproval", Color::Yellow),
        ("RollingBack", Color::Yellow),
        ("Paused", Color::Yellow),
        ("Running", Color::Cyan),
        ("succeeded", Color::Green),
        ("timed out", Color::Red),
        ("unreachable", Color::Yellow),
        ("untested", Color::Yellow),
        ("failed", Color::Red),
        ("lost", Color::Red),
    ];
    let found = words
        .iter()
        .filter_map(|(word, colour)| Some((line.find(word)?, *word, *colour)))
        .min_by_key(|f| f.0);
    match found {
        None => line.to_owned(),
        Some((at, word, colour)) => {
            let rest = &line[at + word.len()..];
            format!("{}{}{}", &line[..at], word.with(colour), coloured(rest))
        }
    }
}
