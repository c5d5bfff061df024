//! An action on all children that a choice means: listed, asked for once, and then done a few at a time.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _, Write},
};

use futures_util::{StreamExt as _, stream};

use super::{Action, CHILDREN, Chosen, table};
use crate::cli::{
    client::{CallError, Client},
    failure::Failure,
    printable::{Passes, Printable},
    show,
};
use protocol::api::Child;

/// Calls at a time.
const AT_ONCE: usize = 16;

/// After so many children a person is told how far it is.
const PROGRESS: u64 = 500;

/// Does it to all that are meant, and says of how many it was done. Exit codes: 0 all, else that of the worst failure.
pub(super) async fn run(
    client: &Client,
    action: &Action,
    chosen: &Chosen,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let mut meant = choose(client, chosen).await?;
    if meant.is_empty() {
        writeln!(out, "no such children")?;
        return Ok(0);
    }
    if !chosen.consent.yes {
        let mut err = Printable::stderr(Passes::None);
        write!(err, "{}", table(&meant))?;
        let children = format!("{} of {}", counted(meant.len() as u64), client.manager());
        chosen.consent.ask(&action.question(&children))?;
        // Who has called since the list was shown may be meant no longer.
        let still: BTreeSet<String> =
            choose(client, chosen).await?.into_iter().map(|child| child.id).collect();
        for child in meant.extract_if(.., |child| !still.contains(&child.id)) {
            writeln!(err, "{}: left out, because it is not meant any more", child.id)?;
        }
    }
    carry_out(client, action, chosen, &meant, out).await
}

/// The children that are meant; refused where there are more than the limit.
async fn choose(client: &Client, chosen: &Chosen) -> Result<Vec<Child>, Failure> {
    // A page of a list may lead to another one in which nobody is meant: one child more tells whether there are more.
    let (found, _) = client.list(&CHILDREN, &chosen.selector.query(), chosen.limit.saturating_add(1)).await?;
    if found.len() > chosen.limit {
        return Err(Failure::user(format!(
            "nothing was done: the choice means more than {}\nChoose fewer, or raise --limit.",
            counted(chosen.limit as u64)
        )));
    }
    Ok(found)
}

async fn carry_out(
    client: &Client,
    action: &Action,
    chosen: &Chosen,
    meant: &[Child],
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let (all, is_watched) = (meant.len() as u64, io::stderr().is_terminal());
    let calls = meant.iter().map(|child| async move {
        (child.id.as_str(), action.carry_out(client, &child.id, &chosen.noted).await)
    });
    let mut calls = stream::iter(calls).buffered(AT_ONCE);
    let (mut done, mut failed, mut code) = (0_u64, 0_u64, 0);
    // Whoever has read enough of the output still wants all of it done.
    let mut written = Ok(());
    while let Some((id, result)) = calls.next().await {
        match result {
            Ok(()) => {
                done += 1;
                written = written.and_then(|()| writeln!(out, "{id}: {}", action.done()));
            }
            Err(error @ CallError::Unreachable { .. }) => {
                let failure = Failure::from(error);
                let text = format!(
                    "{done} of {}: {}; then the manager did not answer: {}\nThe others may have it or not: say it again.",
                    counted(all),
                    action.done(),
                    failure.text
                );
                return Err(Failure { text, ..failure });
            }
            Err(error) => {
                failed += 1;
                let failure = Failure::from(error);
                let _ = writeln!(Printable::stderr(Passes::None), "{id}: failed: {}", failure.text);
                code = failure.code.max(code);
            }
        }
        if is_watched && (done + failed).is_multiple_of(PROGRESS) {
            let _ = writeln!(io::stderr(), "{} of {} …", done + failed, counted(all));
        }
    }
    written?;
    let failures = if failed == 0 { String::new() } else { format!("; {failed} failed") };
    writeln!(out, "{done} of {}: {}{failures}", counted(all), action.done())?;
    Ok(code)
}

fn counted(children: u64) -> String {
    show::counted(children, "child", "children")
}
