use std::{
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
};

use rustix::{
    fs::Mode,
    process::{getpid, set_child_subreaper, setsid, umask},
};

use super::{super::run::Run, function::PROGRAM, watch::Watch};

/// What a shim says once it answers.
const READY: &str = "ready";

/// Starts the shim and ends once it answers, so that it is nobody's child.
pub(super) fn start(run: &Run) -> Result<(), String> {
    let spec = run.spec().map_err(|error| error.to_string())?;
    let mut shim = Command::new("/proc/self/exe")
        .arg0(PROGRAM)
        .args(&spec.shim)
        .arg("watch")
        .arg(run.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut line = String::new();
    if let Some(said) = shim.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(|error| error.to_string())?;
    }
    match line.trim() {
        READY => Ok(()),
        "" => Err(format!("it ended with {:?}", shim.wait())),
        why => Err(why.to_owned()),
    }
}

/// Watches a run until it was stopped. What prevents that is said on the standard output, where the starter reads it.
pub(super) fn watch(run: Run) -> Result<(), String> {
    let done = watch_until_stopped(run);
    if let Err(why) = &done {
        let _ = writeln!(std::io::stdout(), "{why}");
    }
    done
}

fn watch_until_stopped(run: Run) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let _held = run.take().map_err(text)?.ok_or("another shim has it")?;
    let spec = run.spec().map_err(text)?;
    let before = run.outlived();
    if before.is_none() && run.was_started() {
        return Err("its function has ended".to_owned());
    }
    setsid().map_err(|error| format!("no session of its own: {error}"))?;
    umask(Mode::from_bits_truncate(0o077));
    set_child_subreaper(Some(getpid())).map_err(|error| format!("no parent of orphans: {error}"))?;
    std::env::set_current_dir("/").map_err(text)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    runtime.block_on(async {
        let socket = run.shim_socket();
        // That of a shim that is gone.
        let _ = std::fs::remove_file(&socket);
        let listener = tokio::net::UnixListener::bind(&socket).map_err(text)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).map_err(text)?;
        let watch = Watch::new(run, spec, before).map_err(text)?;
        // The starter may have been killed with its agent: the version runs nevertheless, until somebody asks for it.
        let _ = writeln!(std::io::stdout(), "{READY}");
        watch.until_stopped(listener).await.map_err(text)?;
        let _ = std::fs::remove_file(&socket);
        Ok(())
    })
}
