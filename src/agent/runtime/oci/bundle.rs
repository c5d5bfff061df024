//! A container as `runc` is told of it: its command line, and `config.json` by the runtime specification of the Open Container
//! Initiative, version 1.0.2.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{FUNCTION, Inside, StartOptions};

/// What all containers have in common.
#[derive(Debug, Clone)]
pub(in super::super) struct Bundle {
    pub runc: PathBuf,
    pub rootfs: PathBuf,
    pub binds: Vec<PathBuf>,
}

impl Bundle {
    /// What runs a container until it ends, in the foreground: its parent gets its signals and how it ended.
    pub(super) fn starts(&self, inside: &Inside) -> StartOptions {
        let state = inside.folder.join("runc").display().to_string();
        let bundle = inside.folder.display().to_string();
        let runc = self.runc.display().to_string();
        let run = ["--root", &state, "run", "--bundle", &bundle, inside.mark];
        let delete = [&runc, "--root", &state, "delete", "--force", inside.mark];
        StartOptions {
            program: self.runc.clone(),
            arguments: run.map(str::to_owned).to_vec(),
            removal: delete.map(str::to_owned).to_vec(),
            environment: BTreeMap::new(),
            file: ("config.json", self.config(inside).to_string().into_bytes()),
        }
    }

    /// `config.json`.
    fn config(&self, inside: &Inside) -> Value {
        let mut environment = inside.environment.clone();
        environment.insert("HOME".to_owned(), FUNCTION.to_owned());
        environment.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        environment.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let environment: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let bind = |from: &Path, to: &Path, access: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", access, "nosuid", "nodev"]});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=64k"]}),
            bind(&inside.content, Path::new(FUNCTION), "rw"),
            bind(&inside.scratch, Path::new("/tmp"), "rw"),
        ];
        mounts.extend(self.binds.iter().map(|folder| bind(folder, folder, "ro")));
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
            "root": {"path": self.rootfs, "readonly": true},
            "hostname": "function",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}],
                // Below the group in which it is started.
                "cgroupsPath": format!("choirmaster-{}-container", inside.mark),
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
                    "/proc/scsi", "/proc/acpi"],
                "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"],
            },
        })
    }
}
