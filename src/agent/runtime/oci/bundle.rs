//! A container as `runc` is told of it: its command line, and `config.json` by the runtime specification of the Open Container
//! Initiative, version 1.0.2.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    super::{
        error::Fault,
        process::{Sandbox, SandboxedVersion, StartOptions},
    },
    FUNCTION, NAME, PLACE,
};

/// What all containers have in common.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    pub runc: PathBuf,
    pub rootfs: PathBuf,
    pub binds: Vec<PathBuf>,
}

impl Sandbox for Bundle {
    fn runtime(&self) -> &'static str {
        NAME
    }

    fn place(&self) -> &'static str {
        PLACE
    }

    fn forms(&self) -> Vec<&'static str> {
        vec!["program"]
    }

    /// What runs a container until it ends, in the foreground: its parent gets its signals and how it ended.
    fn start_options(&self, version: &SandboxedVersion) -> Result<StartOptions, Fault> {
        let state = version.folder.join("runc").display().to_string();
        let bundle = version.folder.display().to_string();
        let runc = self.runc.display().to_string();
        let run = ["--root", &state, "run", "--bundle", &bundle, version.mark];
        let delete = [&runc, "--root", &state, "delete", "--force", version.mark];
        Ok(StartOptions {
            program: self.runc.clone(),
            arguments: run.map(str::to_owned).to_vec(),
            removal: delete.map(str::to_owned).to_vec(),
            environment: BTreeMap::new(),
            file: ("config.json", self.config(version).to_string().into_bytes()),
        })
    }
}

impl Bundle {
    /// `config.json`.
    fn config(&self, version: &SandboxedVersion) -> Value {
        let mut environment = version.environment.clone();
        environment.insert("HOME".to_owned(), FUNCTION.to_owned());
        environment.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        environment.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let environment: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let bind = |from: &Path, to: &Path, access: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", access, "nosuid", "nodev"]});
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=64k"]}),
            bind(&version.content, Path::new(FUNCTION), "rw"),
            bind(&version.scratch, Path::new("/tmp"), "rw"),
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
                "cgroupsPath": format!("choirmaster-{}-container", version.mark),
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
                    "/proc/scsi", "/proc/acpi"],
                "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"],
            },
        })
    }
}
