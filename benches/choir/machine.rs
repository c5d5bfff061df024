//! The machine: its size, and who may use which of its processors.

use std::{
    process::{Command, Stdio},
    thread::available_parallelism,
};

/// Which processors servers and generator get.
#[derive(Debug, Clone)]
pub struct Processors {
    pub count: usize,
    /// The servers' and the generator's, where they can be kept apart.
    split: Option<(String, String)>,
}

impl Processors {
    /// Keeps them apart if there are two or more processors and `taskset` is installed.
    pub fn find() -> Self {
        let count = available_parallelism().map_or(1, usize::from);
        let servers = count / 2;
        let found = Self { count, split: None };
        let whole = format!("0-{}", count - 1);
        if servers == 0 || !pin(&whole) {
            return found;
        }
        Self { split: Some((format!("0-{}", servers - 1), format!("{servers}-{}", count - 1))), ..found }
    }

    /// Moves this process, which generates the load, to its own processors; answers those of the servers.
    pub fn apart(&self) -> Option<&str> {
        let (servers, generator) = self.split.as_ref()?;
        pin(generator).then_some(servers.as_str())
    }

    /// Lets this process run anywhere.
    pub fn together(&self) {
        if self.split.is_some() {
            pin(&format!("0-{}", self.count - 1));
        }
    }

    pub fn are_kept_apart(&self) -> bool {
        self.split.is_some()
    }

    /// Threads of the generator.
    pub fn generator_threads(&self) -> usize {
        (self.count - self.count / 2).max(1)
    }
}

/// Moves this thread, and all that it starts from now on.
fn pin(processors: &str) -> bool {
    let mut command = Command::new("taskset");
    command.args(["-c", "-p", processors, &std::process::id().to_string()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// One line about the machine.
pub fn describe(processors: &Processors, postgres: Option<&str>) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory_kib = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let postgres = postgres.map_or_else(String::new, |version| format!(", Postgres {version}"));
    let count = processors.count;
    let apart = if processors.are_kept_apart() { "" } else { " without taskset" };
    format!("{count} cores{apart} ({model}), {} GiB, Linux {}{postgres}", memory_kib >> 20, kernel.trim())
}
