//! How a wanted state gets to nginx.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use crate::nginx::config::{
    Part, Rendered, listens, listens_of_others, parse_stream, parts_of, render, stream_of,
};
use model::traffic::Socket;
use tokio::time::{Instant, sleep};
use traffic::desired::DesiredConfig;

use super::{
    Include, NGINX, Nginx,
    ask::Loaded,
    files, process,
    state::{Buckets, State, folders_of},
};
use crate::{
    Applied, RouterError,
    ports::{PortOwner, holder},
};

/// nginx starts new workers and tells the old ones to end a tenth of a second later. So long nobody but new ones has to answer.
const SETTLED: Duration = Duration::from_millis(250);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);
/// Loading a configuration may take this many times the time limit for an answer.
const TIMES_TO_LOAD: u32 = 10;

impl Nginx {
    pub(super) async fn apply_now(&self, wanted: &DesiredConfig) -> Result<Applied, RouterError> {
        let _leader = self.lead().await?;
        let mut state = self.state()?;
        let is_repair = state.newest() == Some(wanted.number);
        state.lead_by(wanted.number)?;
        // Whatever comes in between, nothing is known of it then.
        let held = std::mem::take(&mut *self.held());
        let held = if is_repair { BTreeMap::new() } else { held };
        let unable = |what: String| RouterError::Unable { router: NGINX, what };
        let rendered = render(wanted, &self.settings.layout).map_err(|error| unable(error.to_string()))?;
        files::own(&self.disk, self.root())?;
        if let Some(measure) = &self.measure {
            measure.changing(wanted);
        }
        let on_disk = Include::read(&self.settings.include)?;
        if wanted.services().is_empty() && on_disk.is_none() && self.has_nothing().await {
            state.write(&self.disk, &self.state_file())?;
            return Ok(Applied { number: wanted.number, was_reloaded: false });
        }
        let mut was_reloaded = false;
        // Where a change was interrupted, it isn't known what nginx has.
        let is_written = match &on_disk {
            Some(there) => {
                is_of(there, &rendered)
                    && !self.before().exists()
                    && self.has_parts(there)?
                    && self.has_stream(there)?
            }
            None => false,
        };
        if is_written {
            self.take_back(wanted, &rendered, &held)?;
            self.share(wanted, &rendered, &mut state, &held).await?;
            was_reloaded = !self.is_loaded(on_disk.as_ref()).await?;
        }
        if !is_written || was_reloaded {
            self.load(wanted, &rendered, on_disk.as_ref(), &mut state).await?;
            was_reloaded = true;
        }
        let is_held = |path: &str| held.get(path).is_some_and(|held| state.folders.get(path) == Some(held));
        files::sweep(&self.disk, self.root(), &state, is_held).await?;
        *self.held() = state.folders;
        if let Some(measure) = &self.measure {
            measure.told(wanted);
        }
        Ok(Applied { number: wanted.number, was_reloaded })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Buckets>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of ours was ever loaded, or begun: then there is nothing to take away either.
    async fn has_nothing(&self) -> bool {
        !self.before().exists()
            && process::is_running(&self.settings)
            && matches!(self.door().open().await, Err(RouterError::Away { .. }))
    }

    /// Whether the running nginx has what is on disk.
    async fn is_loaded(&self, on_disk: Option<&Include>) -> Result<bool, RouterError> {
        let loaded = self.door().open().await?.loaded().await?;
        let Some(there) = on_disk.filter(|there| is_loaded_of(there, &loaded)) else { return Ok(false) };
        self.has_loaded_stream(stream_of(&there.text).as_deref()).await
    }

    /// Takes away what a variation has that is to have nothing, before anything waits for a disk. Whoever is killed after that leaves
    /// callers with the stable variation, and the numbers as they were.
    fn take_back(
        &self,
        wanted: &DesiredConfig,
        rendered: &Rendered,
        held: &BTreeMap<String, Buckets>,
    ) -> Result<(), RouterError> {
        let all = folders_of(wanted, &rendered.places);
        for (path, buckets) in all.iter().filter(|(path, buckets)| held.get(*path) != Some(buckets)) {
            let table = buckets.table().ok_or_else(|| self.spoiled_state())?;
            files::empty(&self.disk, &self.root().join(path), &table, &buckets.asked)?;
        }
        Ok(())
    }

    /// Has the files be those of the tables. What is to be there is written down first, for whoever has to restore it.
    async fn share(
        &self,
        wanted: &DesiredConfig,
        rendered: &Rendered,
        state: &mut State,
        held: &BTreeMap<String, Buckets>,
    ) -> Result<(), RouterError> {
        let before = self.state()?;
        state.folders = folders_of(wanted, &rendered.places);
        if *state != before {
            state.write(&self.disk, &self.state_file())?;
        }
        for (path, buckets) in state.folders.iter().filter(|(path, buckets)| held.get(*path) != Some(buckets))
        {
            let table = buckets.table().ok_or_else(|| self.spoiled_state())?;
            files::make_so(&self.disk, &self.root().join(path), &table, &buckets.asked).await?;
        }
        files::write_number(&self.disk, self.root(), wanted.number)
    }

    /// Writes the include, has nginx check and load it, and puts back what was there where it doesn't.
    async fn load(
        &self,
        wanted: &DesiredConfig,
        rendered: &Rendered,
        on_disk: Option<&Include>,
        state: &mut State,
    ) -> Result<(), RouterError> {
        if let Err(error) = self.look_for_ports(rendered, on_disk).await {
            let is_refused = matches!(error, RouterError::Refused { .. });
            if is_refused && self.before().exists() && !self.is_loaded(on_disk).await.unwrap_or(false) {
                // A change that was interrupted is on disk, and would come into force with the next start.
                self.put_back()?;
            }
            return Err(error);
        }
        let mut with_new = state.clone();
        let (had_sessions, has_stream) = (self.stream_ids(on_disk)?, rendered.stream.is_some());
        with_new.track_sessions(had_sessions.clone(), has_stream);
        let new = folders_of(wanted, &rendered.places);
        for (path, buckets) in new.iter().filter(|(path, _)| !state.folders.contains_key(*path)) {
            with_new.folders.insert(path.clone(), buckets.clone());
        }
        with_new.write(&self.disk, &self.state_file())?;
        for (path, buckets) in with_new.folders.iter().filter(|(path, _)| !state.folders.contains_key(*path))
        {
            let table = buckets.table().ok_or_else(|| self.spoiled_state())?;
            files::make_so(&self.disk, &self.root().join(path), &table, &buckets.asked).await?;
        }
        // The workers that end go on by what they have: their folders stay until the next load.
        let leaving = state.folders.iter().filter(|(path, _)| !new.contains_key(*path));
        let leaving = leaving.map(|(path, buckets)| (path.clone(), buckets.clone())).collect();
        match self.write_and_load(rendered, on_disk).await {
            Ok(()) => {
                state.leaving = leaving;
                state.track_sessions(had_sessions, has_stream);
                self.share(wanted, rendered, state, &BTreeMap::new()).await
            }
            Err(error) => {
                if let RouterError::Refused { .. } = &error {
                    state.write(&self.disk, &self.state_file())?;
                    files::sweep(&self.disk, self.root(), state, |_| false).await?;
                }
                Err(error)
            }
        }
    }

    async fn write_and_load(
        &self,
        rendered: &Rendered,
        on_disk: Option<&Include>,
    ) -> Result<(), RouterError> {
        let (include, before) = (&self.settings.include, self.before());
        if include.exists() {
            // One that is there already is what was in force before a change that was interrupted.
            self.disk.link(include, &before)?;
        }
        // Nothing of a part may name what the include hasn't.
        let kept = |include: &Include| -> Vec<Part> {
            let parts = parts_of(&include.text).into_iter();
            parts.filter(|part| rendered.parts.contains(part)).collect()
        };
        self.write_parts(&self.disk, &on_disk.map(kept).unwrap_or_default())?;
        let load = 1 + on_disk.map_or(0, |there| there.header.load).max(self.last_load().await);
        self.disk.replace(include, rendered.text(load).as_bytes())?;
        self.write_parts(&self.disk, &rendered.parts)?;
        self.write_stream(&self.disk, rendered.stream.as_deref())?;
        let wanted = Loaded { digest: rendered.digest.clone(), load };
        match self.check_and_load(&wanted, rendered.stream.as_deref()).await {
            Err(error @ RouterError::Refused { .. }) => {
                self.put_back()?;
                Err(error)
            }
            Err(error) => Err(error),
            Ok(()) => self.disk.remove(&before),
        }
    }

    /// How often the running nginx says that it was loaded; 0 where it doesn't say.
    async fn last_load(&self) -> u64 {
        let Ok(mut asking) = self.door().open().await else { return 0 };
        asking.loaded().await.map_or(0, |loaded| loaded.load)
    }

    fn put_back(&self) -> Result<(), RouterError> {
        let (include, before) = (&self.settings.include, self.before());
        let text = Include::read(&before)?.map(|there| there.text).unwrap_or_default();
        self.write_parts(&self.disk, &parts_of(&text))?;
        self.write_stream(&self.disk, stream_of(&text).as_deref())?;
        if before.exists() { self.disk.rename(&before, include) } else { self.disk.remove(include) }
    }

    async fn check_and_load(&self, wanted: &Loaded, stream: Option<&str>) -> Result<(), RouterError> {
        if let Some(said) = self.refused(&self.settings.config).await? {
            return Err(RouterError::Refused { router: NGINX, said });
        }
        process::reload(&self.settings, &self.disk).await?;
        self.comes_up(wanted, stream).await
    }

    /// Waits until only workers answer that have loaded this, and this file for services of TCP and UDP.
    async fn comes_up(&self, wanted: &Loaded, stream: Option<&str>) -> Result<(), RouterError> {
        let within = self.settings.time_limit * TIMES_TO_LOAD;
        let until = Instant::now() + within;
        let mut since = None;
        loop {
            let answer = match self.door().open().await {
                Ok(mut asking) => asking.loaded().await,
                Err(error) => Err(error),
            };
            let is_loaded = answer.as_ref().is_ok_and(|loaded| loaded == wanted)
                && self.has_loaded_stream(stream).await.unwrap_or(false);
            let now = Instant::now();
            if is_loaded {
                if now >= *since.get_or_insert(now) + SETTLED {
                    return Ok(());
                }
            } else {
                since = None;
                if now >= until {
                    return Err(self.never_came_up(answer));
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn never_came_up(&self, answer: Result<Loaded, RouterError>) -> RouterError {
        match answer {
            Err(error) if !process::is_running(&self.settings) => error,
            Ok(_) | Err(_) => {
                let said = "its check took the configuration, and it didn't load it; its error log says why";
                RouterError::Refused { router: NGINX, said: said.to_owned() }
            }
        }
    }

    /// Refuses ports that somebody else has, and the running nginx not for what is ours: nginx would say so only once it loads them, and
    /// nothing at all of those of its operator's own servers, which it would share with ours.
    async fn look_for_ports(
        &self,
        rendered: &Rendered,
        on_disk: Option<&Include>,
    ) -> Result<(), RouterError> {
        let Some(ours) = self.ports_in_force(on_disk).await? else { return Ok(()) };
        let layout = &self.settings.layout;
        let new: Vec<_> = rendered.listens.iter().filter(|(at, _)| !ours.contains(at)).collect();
        let ask = layout.ask_stream.filter(|_| rendered.stream.is_some());
        let ask = ask.filter(|at| !ours.contains(&Socket { port: at.port(), is_udp: false }));
        if new.is_empty() && ask.is_none() {
            return Ok(());
        }
        // What can't be printed is refused by the check.
        let printed = process::print(&self.settings, &self.settings.config, &self.disk).await;
        let (printed, _) = printed.unwrap_or_default();
        let include = self.settings.include.display().to_string();
        let others = [false, true].map(|is_udp| listens_of_others(&printed, &include, is_udp));
        if let Some(at) = ask
            && let Some(owner) = holder(&others[0], at, false)
        {
            let whose = match owner {
                PortOwner::Operator => "a server of its operator's",
                PortOwner::SomebodyElse => "somebody else",
            };
            let said = format!(
                "{whose} has {at}, where it is to be asked about services of TCP and UDP: name a free port as nginx.ask_stream"
            );
            return Err(RouterError::Refused { router: NGINX, said });
        }
        for (at, how) in new {
            let Socket { port, is_udp } = *at;
            for address in &layout.listen_on {
                let owner = holder(&others[usize::from(is_udp)], SocketAddr::new(*address, port), is_udp);
                match owner {
                    None => {}
                    Some(PortOwner::Operator) => self.may_share(*at, *how, &printed)?,
                    Some(PortOwner::SomebodyElse) => {
                        let said = format!("somebody else has port {port} at {address}");
                        return Err(RouterError::Refused { router: NGINX, said });
                    }
                }
            }
        }
        Ok(())
    }

    /// The ports at which the running nginx listens for what is ours, whatever a change that was interrupted left on disk. None where the
    /// include that it loaded was changed by hand.
    async fn ports_in_force(
        &self,
        on_disk: Option<&Include>,
    ) -> Result<Option<BTreeSet<Socket>>, RouterError> {
        let mut asking = match self.door().open().await {
            Ok(asking) => asking,
            // It has loaded nothing of ours.
            Err(RouterError::Away { .. }) => return Ok(Some(BTreeSet::new())),
            Err(error) => return Err(error),
        };
        let loaded = asking.loaded().await?;
        let before = Include::read(&self.before())?;
        let mut there = [on_disk, before.as_ref()].into_iter().flatten();
        let there = there.find(|there| is_loaded_of(there, &loaded)).filter(|there| there.header.is_whole);
        Ok(there.and_then(|there| {
            let of_tcp = |port| Socket { port, is_udp: false };
            let mut ports: BTreeSet<Socket> = listens(&there.text).ok()?.into_iter().map(of_tcp).collect();
            if let Some(file) = stream_of(&there.text) {
                ports.extend(parse_stream(&file).ok()?.into_iter().flat_map(|service| service.sockets));
                ports.extend(self.settings.layout.ask_stream.map(|at| of_tcp(at.port())));
            }
            Some(ports)
        }))
    }

    pub(super) async fn reload_now(&self) -> Result<(), RouterError> {
        let _leader = self.lead().await?;
        if let Some(said) = self.refused(&self.settings.config).await? {
            return Err(RouterError::Refused { router: NGINX, said });
        }
        let include = &self.settings.include;
        let Some(there) = Include::read(include)?.filter(|there| there.header.is_whole) else {
            return process::reload(&self.settings, &self.disk).await;
        };
        let header = there.header;
        let load = 1 + header.load.max(self.last_load().await);
        let text = crate::nginx::config::with_load(&there.text, &header, load);
        self.disk.replace(include, text.as_bytes())?;
        process::reload(&self.settings, &self.disk).await?;
        let stream = stream_of(&there.text);
        self.comes_up(&Loaded { digest: header.digest, load }, stream.as_deref()).await
    }
}

fn is_of(there: &Include, rendered: &Rendered) -> bool {
    there.header.is_whole && there.header.digest == rendered.digest
}

pub(super) fn is_loaded_of(there: &Include, loaded: &Loaded) -> bool {
    (&*there.header.digest, there.header.load) == (&*loaded.digest, loaded.load)
}
