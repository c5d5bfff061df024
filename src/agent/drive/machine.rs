//! How this machine is, as the manager is told now and then.

use std::{
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use protocol::measurements::NodeHealth;
use sysinfo::{MemoryRefreshKind, NetworkData, Networks, Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use tokio::{task::spawn_blocking, time::Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);

const KIB: u64 = 1024;

/// Looks at the machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// The folder whose file system is told.
    folder: PathBuf,
    /// None: while somebody looks, and where the machine can't be asked.
    asked: Option<Asked>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Asked {
    system: System,
    networks: Option<Networks>,
}

impl Machine {
    pub fn new(folder: PathBuf) -> Self {
        let asked = System::new().ok().map(|system| Asked { system, networks: Networks::new().ok() });
        Self { folder, asked, looked: None }
    }

    /// Whether it is time to look.
    pub fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= EVERY)
    }

    /// How it is, if it is time to look.
    pub async fn look(&mut self) -> Option<NodeHealth> {
        if !self.is_due() {
            return None;
        }
        self.looked = Some(Instant::now());
        let (folder, mut asked) = (self.folder.clone(), self.asked.take()?);
        let looked = spawn_blocking(move || {
            let health = asked.look(&folder);
            (health, asked)
        });
        let (health, asked) = looked.await.ok()?;
        self.asked = Some(asked);
        Some(health)
    }
}

impl Asked {
    fn look(&mut self, folder: &Path) -> NodeHealth {
        let (system, own) = (&mut self.system, Pid::from_u32(process::id()));
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        system.refresh_cpu_usage();
        let asked = ProcessRefreshKind::nothing().with_cpu().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), true, asked);
        let mut health = NodeHealth {
            cpu_usage: percent(system.global_cpu_usage()),
            mem_free: number(system.free_memory() / KIB),
            mem_used: number(system.used_memory() / KIB),
            mem_total: number(system.total_memory() / KIB),
            mem_available: number(system.available_memory() / KIB),
            ..NodeHealth::default()
        };
        if let Some(process) = system.process(own) {
            health.proc_cpu_usage = percent(process.cpu_usage());
            health.proc_memory = number(process.memory() / KIB);
            health.proc_vmemory = number(process.virtual_memory() / KIB);
        }
        if let Ok(load) = System::load_average() {
            let hundredths = |load: f64| (load * 100.0).round() as i64;
            health.load_avg_1 = hundredths(load.one);
            health.load_avg_5 = hundredths(load.five);
            health.load_avg_15 = hundredths(load.fifteen);
        }
        if let Some(networks) = &mut self.networks {
            networks.refresh(true);
            let all = || networks.iter().filter(|(name, _)| *name != "lo").map(|(_, one)| one);
            health.tot_rx_bytes = number(all().map(NetworkData::total_received).sum());
            health.tot_rx_pkts = number(all().map(NetworkData::total_packets_received).sum());
            health.tot_rx_errs = number(all().map(NetworkData::total_errors_on_received).sum());
            health.tot_tx_bytes = number(all().map(NetworkData::total_transmitted).sum());
            health.tot_tx_pkts = number(all().map(NetworkData::total_packets_transmitted).sum());
            health.tot_tx_errs = number(all().map(NetworkData::total_errors_on_transmitted).sum());
        }
        if let Ok(disk) = rustix::fs::statvfs(folder) {
            health.disk_tot_space = number(disk.f_blocks.saturating_mul(disk.f_frsize));
            health.disk_free_space = number(disk.f_bavail.saturating_mul(disk.f_frsize));
        }
        health
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn percent(value: f32) -> i64 {
    value.round() as i64
}
