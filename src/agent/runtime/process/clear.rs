//! Taking away what is left of a run that nobody watches.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use rustix::process::Signal;

use super::{
    super::error::Fault,
    run::{Held, Run},
    tree,
};

/// How often processes that were killed are looked for again, and the pause in between.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// Ends each process of a run and removes its folder. Blocks meanwhile.
pub(super) fn clear(run: &Run, held: Held) -> Result<(), Fault> {
    let spec = run.spec().map_err(Fault::io(format!("reading {}", run.spec_file().display())))?;
    let entry = spec.entry();
    let doing = Fault::io(format!("clearing {}", run.folder().display()));
    run.forget_started().map_err(doing)?;
    let mut left = tree::marked(&entry);
    for _ in 0..LOOKS {
        if left.is_empty() {
            break;
        }
        for pid in left {
            tree::kill(pid, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
        left = tree::marked(&entry);
    }
    if !left.is_empty() {
        return Err(Fault::Stuck(left));
    }
    spec.remove_container()?;
    spec.groups.remove().map_err(Fault::Stuck)?;
    remove(run.folder())?;
    drop(held);
    Ok(())
}

/// Removes a folder with all that is in it, also where a function took the right to do so away.
pub(super) fn remove(folder: &Path) -> Result<(), Fault> {
    let removed = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder);
            fs::remove_dir_all(folder)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Fault::io(format!("removing {}", folder.display()))(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn open_up(folder: &Path) {
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        // What can't be changed is named by the removal.
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        open.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
        );
    }
}
