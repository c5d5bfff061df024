//! The nginx that runs: its own check of a configuration, and having it load that anew.

use std::{
    fs, io,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::{process::Command, time::timeout};

use super::{NGINX, Reload, Settings};
use crate::{RouterError, disk::Disk};

/// A check resolves names, and a command of an operator's may do anything.
const LONGEST: Duration = Duration::from_secs(30);
/// Characters of what a program said that are passed on.
const MOST_SAID: usize = 1_000;

/// What nginx says against a configuration; none where it takes it.
pub async fn examine(settings: &Settings, config: &Path, disk: &Disk) -> Result<Option<String>, RouterError> {
    let mut command = Command::new(&settings.program);
    command.arg("-t").arg("-q").arg("-c").arg(config);
    let (is_good, said) = run(command, &settings.program, disk).await?;
    Ok((!is_good).then_some(said))
}

/// The configuration with all that it includes, as nginx prints it once it took it, and what it warns of.
pub async fn print(settings: &Settings, config: &Path, disk: &Disk) -> Result<(String, String), RouterError> {
    let mut command = Command::new(&settings.program);
    command.arg("-T").arg("-q").arg("-c").arg(config);
    let ended = end_of(command, &settings.program, disk).await?;
    if !ended.status.success() {
        return Err(RouterError::Refused { router: NGINX, said: said_by(&ended) });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&ended.stdout), text(&ended.stderr)))
}

/// Tells it to load its configuration anew; whether it does is seen by asking.
pub async fn reload(settings: &Settings, disk: &Disk) -> Result<(), RouterError> {
    match &settings.reload {
        Reload::Signal => {
            let doing = || format!("looking for its process by {}", settings.pid.display());
            let away = |source| RouterError::Away { router: NGINX, doing: doing(), source };
            let pid = master(&settings.pid).ok_or_else(|| away(io::ErrorKind::NotFound.into()))?;
            disk.step().map_err(away)?;
            kill_process(pid, Signal::HUP).map_err(|error| away(error.into()))
        }
        Reload::Command(words) => {
            let Some((program, arguments)) = words.split_first() else { return Ok(()) };
            let mut command = Command::new(program);
            command.args(arguments);
            let (is_good, said) = run(command, Path::new(program), disk).await?;
            if is_good { Ok(()) } else { Err(RouterError::Refused { router: NGINX, said }) }
        }
    }
}

/// Whether there is a process that it wrote down as its own.
pub fn is_running(settings: &Settings) -> bool {
    master(&settings.pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The process that its file names, if that is one of nginx: after a crash the number may be another's.
fn master(file: &Path) -> Option<Pid> {
    let number = fs::read_to_string(file).ok()?.trim().parse().ok().filter(|number| *number > 1)?;
    let pid = Pid::from_raw(number)?;
    let is_linux = Path::new("/proc/self/cmdline").exists();
    let title = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let is_nginx = title.windows(NGINX.len()).any(|part| part == NGINX.as_bytes());
    (!is_linux || is_nginx).then_some(pid)
}

/// Whether it ended well, and the end of what it said.
async fn run(command: Command, program: &Path, disk: &Disk) -> Result<(bool, String), RouterError> {
    let ended = end_of(command, program, disk).await?;
    Ok((ended.status.success(), said_by(&ended)))
}

async fn end_of(mut command: Command, program: &Path, disk: &Disk) -> Result<Output, RouterError> {
    let failed = |source| RouterError::Program { program: program.to_owned(), source };
    disk.step().map_err(failed)?;
    command.stdin(Stdio::null()).kill_on_drop(true);
    let Ok(ended) = timeout(LONGEST, command.output()).await else {
        let doing = format!("running {}", program.display());
        return Err(RouterError::Silent { router: NGINX, within: LONGEST, doing });
    };
    ended.map_err(failed)
}

/// The end of what it said.
fn said_by(ended: &Output) -> String {
    let both = [ended.stdout.as_slice(), ended.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&both);
    // Its last line says of a file that its check failed, which is why this is told.
    let lines = said.trim().lines().filter(|line| !line.ends_with(" test failed"));
    let said = lines.collect::<Vec<_>>().join("; ");
    let skipped = said.chars().count().saturating_sub(MOST_SAID);
    let said: String = said.chars().skip(skipped).collect();
    if said.is_empty() { format!("it ended with {}", ended.status) } else { said }
}
