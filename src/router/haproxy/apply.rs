//! A wanted state is brought into force.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use crate::haproxy::config::{
    MARK, Map, Maps, Section, Structure, Write, add, commit, listens_of, listens_of_others, maps, maps_with,
    prepare, section, set, state, to_switch_off, version_of, writes,
};
use tokio::time::timeout;
use traffic::{
    desired::{DesiredConfig, Host, Service, Target},
    observed::{Difference, differences},
};

use super::{
    Haproxy, Held, NAME, process, program,
    running::Running,
    runtime_socket::{no_sense, step},
};
use crate::{
    Applied, RouterError, disk,
    ports::{PortOwner, holder},
};

/// So often it is begun anew where somebody else has it loaded anew in between.
const TRIES: u32 = 5;

/// What is to be done, and how `HAProxy` is told it.
struct Told<'w> {
    section: Section,
    wanted: &'w DesiredConfig,
}

impl Haproxy {
    pub(super) async fn apply_now(&self, wanted: &DesiredConfig) -> Result<Applied, RouterError> {
        let mut turn = self.turn.lock().await;
        self.take_lock(&mut turn)?;
        let newest = self.files.newest()?;
        if let Some(newest) = newest.filter(|newest| *newest > wanted.number) {
            return Err(RouterError::Older { asked: wanted.number, newest });
        }
        // Whatever comes in between, nothing is known of it then.
        let held = turn.held.take().filter(|_| newest != Some(wanted.number));
        let unable = |unable: crate::haproxy::config::Unable| RouterError::Unable {
            router: NAME,
            what: unable.to_string(),
        };
        let told = Told { section: section(wanted, &self.settings.frame).map_err(unable)?, wanted };

        if let Some(measure) = &self.measure {
            measure.changing(wanted);
        }
        if wanted.services().is_empty() && self.has_nothing().await? {
            self.files.note_newest(&self.disk, wanted.number)?;
            return Ok(Applied { number: wanted.number, was_reloaded: false });
        }
        let mut was_reloaded = false;
        for _ in 0..TRIES {
            let mut running = match Running::find(self).await {
                Ok(running) => running,
                Err(error) => {
                    // Whenever it comes back, it does what is wanted now.
                    self.prepare(&told).await?;
                    return Err(error);
                }
            };
            let mut is_fit = running.structure.as_ref() == Some(&told.section.structure);
            let held = held
                .as_ref()
                .filter(|held| held.pid == running.pid && held.structure == told.section.structure);
            if let Some(held) = held.filter(|_| is_fit) {
                self.switch_off(&mut running, &state(wanted)).await?;
                let is_news = |service: &&Service| held.services.get(&service.name) != Some(*service);
                let news = maps_with(wanted, wanted.services().iter().filter(is_news));
                self.share(&told, &mut running, &news).await?;
                is_fit = self.is_written(&told.section)?;
            } else if is_fit {
                self.switch_off(&mut running, &state(wanted)).await?;
                running.read_maps(self).await?;
                self.share(&told, &mut running, &maps(wanted)).await?;
                let stray = self.stray(wanted, &mut running).await?;
                is_fit = (stray.is_empty() || stray == turn.stays) && self.is_written(&told.section)?;
            }
            if !is_fit {
                running = self.restructure(&told, running).await?;
                was_reloaded = true;
                running.read_maps(self).await?;
                self.share(&told, &mut running, &maps(wanted)).await?;
                turn.stays = self.stray(wanted, &mut running).await?;
            }
            if process::is_current(self, &mut running).await? {
                self.files.clean(&self.disk)?;
                if let Some(measure) = &self.measure {
                    measure.told(wanted);
                }
                let (pid, structure) = (running.pid, told.section.structure);
                let by_name = |service: &Service| (service.name.clone(), service.clone());
                let services = wanted.services().iter().map(by_name).collect();
                turn.held = Some(Held { pid, structure, services });
                return Ok(Applied { number: wanted.number, was_reloaded });
            }
        }
        let doing = "it is loaded anew again and again".to_owned();
        Err(RouterError::Silent { router: NAME, within: self.settings.limits.reload, doing })
    }

    /// Whether nothing of ours was ever loaded, or begun: then there is nothing to take away either.
    async fn has_nothing(&self) -> Result<bool, RouterError> {
        let is_said = |path: &Path| Ok::<_, RouterError>(self.files.structure_in(path)?.is_some());
        if is_said(&self.files.folder.section())? || is_said(&self.files.before())? {
            return Ok(false);
        }
        Ok(Running::find(self).await?.structure.is_none())
    }

    /// What the process does otherwise than wanted, and can't be changed in it.
    async fn stray(&self, wanted: &DesiredConfig, running: &mut Running) -> Result<Vec<String>, RouterError> {
        let all = differences(wanted, &running.seen().await?).into_iter();
        let takes_reload = |difference: &Difference| match difference {
            Difference::Missing { .. } | Difference::Variations { .. } | Difference::Targets { .. } => true,
            Difference::LeftOver { what } => what.starts_with(MARK),
            Difference::Number { .. }
            | Difference::Shares { .. }
            | Difference::Buckets { .. }
            | Difference::TakenOver { .. } => false,
        };
        Ok(all.filter(takes_reload).map(|difference| difference.to_string()).collect())
    }

    /// Whether the section is on disk, by whichever number it was written.
    fn is_written(&self, section: &Section) -> Result<bool, RouterError> {
        let there = self.files.section()?;
        Ok(there.is_some_and(|there| body_of(&there) == body_of(&section.text)))
    }

    /// Brings maps into force, on disk and then in the process: all that are to be others than there.
    async fn share(&self, told: &Told<'_>, running: &mut Running, maps: &Maps) -> Result<(), RouterError> {
        self.files.note_newest(&self.disk, told.wanted.number)?;
        self.files.write_maps(&self.disk, &told.section.structure, maps)?;
        for write in writes(&running.maps, maps) {
            match write {
                Write::Set { map, key, value } => self.set(running, map, key, value).await?,
                Write::Replace { map, by } => self.replace(running, map, by).await?,
            }
        }
        Ok(())
    }

    /// Has a process that is started later do what is wanted.
    async fn prepare(&self, told: &Told<'_>) -> Result<(), RouterError> {
        if self.is_written(&told.section)? {
            self.files.note_newest(&self.disk, told.wanted.number)?;
            return self.files.write_maps(&self.disk, &told.section.structure, &maps(told.wanted));
        }
        let there = self.files.section()?;
        self.check_candidate(told, there.as_deref()).await?;
        self.take_candidate()
    }

    async fn switch_off(&self, running: &mut Running, state: &Map) -> Result<(), RouterError> {
        for write in to_switch_off(&running.maps, state) {
            if let Write::Set { map, key, value } = write {
                self.set(running, map, key, value).await?;
            }
        }
        Ok(())
    }

    async fn set(&self, running: &mut Running, map: &str, key: &str, value: &str) -> Result<(), RouterError> {
        let Some(path) = running.map(self, map) else { return Ok(()) };
        running.session.tell(&self.disk, &set(&path, key, value)).await
    }

    /// In one instant, however many entries there are.
    async fn replace(&self, running: &mut Running, map: &str, by: &Map) -> Result<(), RouterError> {
        let Some(path) = running.map(self, map) else { return Ok(()) };
        step(&self.disk)?;
        let version = version_of(&running.session.ask(&prepare(&path)).await?).map_err(no_sense)?;
        for command in add(&path, version, by) {
            running.session.tell(&self.disk, &command).await?;
        }
        running.session.tell(&self.disk, &commit(&path, version)).await
    }

    /// Has a process come up with another file. The one that was in force is put back where none does.
    async fn restructure(&self, told: &Told<'_>, running: Running) -> Result<Running, RouterError> {
        let in_force = self.in_force(running.structure.as_ref())?;
        if let Err(error) = self.check_candidate(told, in_force.as_deref()).await {
            let is_refused = matches!(error, RouterError::Refused { .. });
            if is_refused && in_force.is_some() && in_force != self.files.section()? {
                // A change that was interrupted is on disk, and would come into force with the next start.
                self.put_back(&told.section)?;
            }
            return Err(error);
        }
        self.take_candidate()?;
        let old = running.pid;
        drop(running);
        match process::reload(self, old, Some(&told.section.structure)).await {
            Ok(running) => {
                self.disk.remove(&self.files.before())?;
                Ok(running)
            }
            Err(error) => {
                self.put_back(&told.section)?;
                Err(error)
            }
        }
    }

    /// The section that the process loaded which serves, whatever a change that was interrupted left on disk: one that says nothing where
    /// it has nothing of ours. None where it isn't on disk any more.
    fn in_force(&self, structure: Option<&Structure>) -> Result<Option<String>, RouterError> {
        let Some(structure) = structure else { return Ok(Some(String::new())) };
        for path in [self.files.folder.section(), self.files.before()] {
            if self.files.structure_in(&path)?.as_ref() == Some(structure) {
                return Ok(disk::read(&path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
        Ok(None)
    }

    /// Writes a section as the candidate, with its maps, and takes that away again unless its check takes it. `in_force`: what serves
    /// now, as far as that is known.
    async fn check_candidate(&self, told: &Told<'_>, in_force: Option<&str>) -> Result<(), RouterError> {
        let candidate = self.files.candidate();
        self.files.write_maps(&self.disk, &told.section.structure, &maps(told.wanted))?;
        self.disk.replace(&candidate, told.section.text.as_bytes())?;
        let refused = self.refusal(told, in_force).await;
        if !matches!(refused, Ok(None)) {
            self.drop_candidate(&told.section)?;
        }
        if let Some(said) = refused? {
            return Err(RouterError::Refused { router: NAME, said });
        }
        self.files.note_newest(&self.disk, told.wanted.number)
    }

    /// Puts the candidate in its place. What a process was last seen with is kept until one is seen with this.
    fn take_candidate(&self) -> Result<(), RouterError> {
        self.disk.link(&self.files.folder.section(), &self.files.before())?;
        self.disk.rename(&self.files.candidate(), &self.files.folder.section())
    }

    /// Puts what was kept in the place of a section that no process came up with.
    fn put_back(&self, section: &Section) -> Result<(), RouterError> {
        let before = self.files.before();
        if disk::read(&before)?.is_some() {
            self.disk.rename(&before, &self.files.folder.section())?;
        }
        self.drop_candidate(section)
    }

    /// Takes away what was written for a section and is nothing else's.
    fn drop_candidate(&self, section: &Section) -> Result<(), RouterError> {
        self.disk.remove(&self.files.candidate())?;
        for path in [self.files.folder.section(), self.files.before()] {
            if self.files.structure_in(&path)?.as_ref() == Some(&section.structure) {
                return Ok(());
            }
        }
        self.files.remove_maps(&self.disk, &section.structure)
    }

    /// Why a section that is written as the candidate can't be brought into force.
    async fn refusal(&self, told: &Told<'_>, in_force: Option<&str>) -> Result<Option<String>, RouterError> {
        if let Some(said) = self.astray(told.wanted).await {
            return Ok(Some(said));
        }
        let others = listens_of_others(&self.main_text()?);
        if let Some(said) = in_force.and_then(|there| taken_port(&told.section.text, there, &others)) {
            return Ok(Some(said));
        }
        program::check(self, &self.main(), &self.files.candidate()).await
    }

    /// What is wrong with the names of targets: each has to lead somewhere, and not to this router itself.
    async fn astray(&self, wanted: &DesiredConfig) -> Option<String> {
        let ports: Vec<u16> = wanted
            .services()
            .iter()
            .flat_map(|service| service.listens.iter().map(|listen| listen.port))
            .collect();
        let mut targets: Vec<&Target> = Vec::new();
        for variation in wanted.services().iter().flat_map(|service| &service.variations) {
            targets.extend(&variation.targets);
        }
        for target in targets {
            let Host::Name(name) = &target.host else { continue };
            let looked_up =
                timeout(self.settings.limits.answer, tokio::net::lookup_host((&**name, target.port)));
            let addresses: Vec<SocketAddr> = match looked_up.await {
                Ok(Ok(addresses)) => addresses.collect(),
                Ok(Err(error)) => return Some(format!("the target {target} leads nowhere: {error}")),
                Err(_) => {
                    return Some(format!("the target {target} leads nowhere: nobody says where in time"));
                }
            };
            if addresses.is_empty() {
                return Some(format!("the target {target} leads nowhere"));
            }
            if ports.contains(&target.port) && addresses.iter().any(|at| self.listens_at(at)) {
                return Some(goes_round(target));
            }
        }
        None
    }

    fn listens_at(&self, address: &SocketAddr) -> bool {
        let address = address.ip();
        address.is_loopback() || address.is_unspecified() || self.settings.frame.addresses.contains(&address)
    }
}

/// All but the first line, which has the number.
fn body_of(section: &str) -> &str {
    section.split_once('\n').map_or("", |(_, body)| body)
}

fn goes_round(target: &Target) -> String {
    format!("the target {target} is where this router itself listens: calls would go round")
}

/// A port that the new section listens on, the one in force doesn't, and somebody has: a process that can't have one of its ports
/// doesn't come up, and a check doesn't try.
/// One that the operator's own sections have would be shared with them.
fn taken_port(new: &str, there: &str, others: &BTreeSet<(Option<IpAddr>, u16)>) -> Option<String> {
    let there = listens_of(there);
    let added = listens_of(new).into_iter().filter(|listen| !there.contains(listen));
    let addresses = added.filter_map(|listen| listen.parse::<SocketAddr>().ok());
    addresses.into_iter().find_map(|address| {
        Some(match holder(others, address, false)? {
            PortOwner::Operator => {
                let port = address.port();
                format!(
                    "a section of its operator's listens at port {port}, and a service would at {address}"
                )
            }
            PortOwner::SomebodyElse => format!("somebody else listens at {address}"),
        })
    })
}
