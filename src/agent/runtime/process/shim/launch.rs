use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::process::{Resource, Rlimit, getppid, setrlimit, setsid};

use super::super::{super::Limits, run::Run};

/// What the launcher is told where there are control groups.
pub(super) const GROUPED: &str = "grouped";

/// Sets the limits of a function on this process, which then becomes the function. Returns where it can't.
/// `is_grouped`: its control groups were made.
pub(super) fn launch(run: &Run, parent: Option<i32>, is_grouped: bool) -> Result<(), String> {
    let spec = run.spec().map_err(|error| error.to_string())?;
    // Nobody would know of it.
    if parent.is_none() || getppid().map(|parent| parent.as_raw_nonzero().get()) != parent {
        return Err("its shim is gone".to_owned());
    }
    setsid().map_err(|error| format!("no session of its own: {error}"))?;
    // The one before may have left something. Where that can't be taken away, its start says so.
    let _ = spec.remove_container();
    if is_grouped {
        spec.groups.join().map_err(|error| format!("its control groups: {error}"))?;
    }
    limit(&spec.limits)?;
    std::env::set_current_dir(run.content()).map_err(|error| error.to_string())?;
    let error = Command::new(&spec.program).args(&spec.arguments).stdin(Stdio::null()).exec();
    Err(format!("{} can't be started: {error}", spec.program.display()))
}

/// A second wall behind what the shim looks at now and then: no process gets far beyond a limit in between.
fn limit(limits: &Limits) -> Result<(), String> {
    let at_most = [
        (Resource::Core, 0),
        (Resource::Nofile, limits.files),
        (Resource::Fsize, limits.room),
        (Resource::Data, limits.data()),
    ];
    for (resource, wanted) in at_most {
        // Who started the agent may have set less.
        let most = rustix::process::getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| format!("{resource:?} can't be limited to {most}: {error}"))?;
    }
    Ok(())
}
