//! A container as `runc` is told of it: its command line, and `config.json` by the runtime specification of the Open Container
//! Initiative, version 1.0.2.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::Base;

/// Where a container finds its version.
const FUNCTION: &str = "/function";

/// What all containers have in common.
#[derive(Debug, Clone)]
pub(in super::super) struct Container {
    pub runc: PathBuf,
    pub base: Base,
}

impl Container {
    /// What runs a container until it ends, in the foreground; its parent gets its signals and how it ended.
    pub(in super::super) fn run(&self, folder: &Path, name: &str) -> (PathBuf, Vec<String>) {
        let state = folder.join("runc").display().to_string();
        let bundle = folder.display().to_string();
        (self.runc.clone(), ["--root", &state, "run", "--bundle", &bundle, name].map(str::to_owned).to_vec())
    }

    /// What takes away what is left of one, however it ended.
    pub(in super::super) fn delete(&self, folder: &Path, name: &str) -> Vec<String> {
        let (runc, state) = (self.runc.display().to_string(), folder.join("runc").display().to_string());
        [&runc, "--root", &state, "delete", "--force", name].map(str::to_owned).to_vec()
    }

    /// `config.json`. Both folders are those of this machine.
    pub(in super::super) fn config(
        &self,
        (content, scratch): (&Path, &Path),
        name: &str,
        environment: &BTreeMap<String, String>,
    ) -> Value {
        let mut environment = environment.clone();
        environment.insert("HOME".to_owned(), FUNCTION.to_owned());
        environment.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        environment.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let environment: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let bind = |from: &Path, to: &Path, access: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", access, "nosuid", "nodev"]});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=64k"]}),
            bind(content, Path::new(FUNCTION), "rw"),
            bind(scratch, Path::new("/tmp"), "rw"),
        ];
        mounts.extend(self.base.binds.iter().map(|folder| bind(folder, folder, "ro")));
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": ["./run"],
                "env": environment,
                "cwd": FUNCTION,
                "noNewPrivileges": true,
                "capabilities": {},
            },
            "root": {"path": self.base.rootfs, "readonly": true},
            "hostname": "function",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}],
                // Below the group in which it is started.
                "cgroupsPath": format!("choirmaster-{name}-container"),
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
                    "/proc/scsi", "/proc/acpi"],
                "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"],
            },
        })
    }
}
