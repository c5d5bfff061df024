//! What this machine offers to workflows.

use model::NodeCapabilities;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::settings::NodeSettings;

const MIB: u64 = 1024 * 1024;

/// `events`: where it takes events from other nodes. As it is set, and as the machine says where it isn't. A machine that doesn't say its clock has 0 MHz.
pub fn advertised(settings: &NodeSettings, events: &str) -> NodeCapabilities {
    let NodeSettings { cpus, cores, mhz, memory, tee, tpm, resources, events: _ } = settings.clone();
    let asked = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing().with_frequency())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    // Where the machine can't be asked, it says nothing.
    let machine = System::new_with_specifics(asked).ok();
    let number = |set: u64, here: u64| u32::try_from(if set > 0 { set } else { here }).unwrap_or(u32::MAX);
    // Fewer than there are, where this program has a part of them alone.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let cpus = number(cpus, 1);
    let clocks = machine.iter().flat_map(System::cpus).map(sysinfo::Cpu::frequency);
    let fastest = clocks.max().unwrap_or_default();
    let limit =
        machine.as_ref().and_then(System::cgroup_limits).map_or(u64::MAX, |limits| limits.total_memory);
    let has = machine.as_ref().map_or(0, System::total_memory).min(limit);
    let bytes = if memory > 0 { memory } else { has };
    NodeCapabilities {
        cpus,
        cores: number(cores, (threads / u64::from(cpus)).max(1)),
        mhz: number(mhz, fastest),
        memory_mib: (bytes >= MIB).then_some(bytes / MIB),
        tee,
        tpm,
        resources,
        events: events.to_owned(),
    }
}
