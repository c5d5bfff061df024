//! `choirmaster completions`: what a shell needs to complete commands and flags.

use std::io::Write;

use clap_complete::Shell;

use super::failure::Failure;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: choirmaster completions bash > ~/.local/share/bash-completion/completions/choirmaster"
)]
pub struct Args {
    #[arg(value_enum)]
    shell: Shell,
}

/// Of the program whose whole command line is handed in.
pub fn run(args: &Args, mut program: clap::Command, out: &mut impl Write) -> Result<u8, Failure> {
    // Written at once: the generator panics where its output can't be written.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "choirmaster", &mut text);
    out.write_all(&text)?;
    Ok(0)
}
