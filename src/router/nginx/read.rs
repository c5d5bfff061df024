//! What the running nginx does.

use std::{collections::BTreeMap, path::PathBuf};

use crate::nginx::config::{ParsedService, as_answered, parse, table_of};
use traffic::{
    Bucket, HashFunction, Table, Variation,
    desired::{Name, Target},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

use super::{
    Include, NGINX, Nginx,
    apply::is_loaded_of,
    ask::{Asking, Loaded},
    files, process,
};
use crate::RouterError;

/// Of so many keys nginx itself is asked at one reading, and of no more than so many for a service.
const MOST_KEYS: usize = 256;
const MOST_KEYS_OF_ONE: usize = 8;
/// Among so many keys it is looked for some of each variation.
const KEYS_TRIED: u64 = 64;

impl Nginx {
    pub(super) async fn read_now(&self) -> Result<ObservedConfig, RouterError> {
        let state = self.state()?;
        let mut asking = match self.door().open().await {
            Ok(asking) => asking,
            // It runs without anything of ours.
            Err(RouterError::Away { .. }) if process::is_running(&self.settings) => {
                return Ok(ObservedConfig {
                    left_over: self.left_over(&state)?,
                    ..ObservedConfig::default()
                });
            }
            Err(error) => return Err(error),
        };
        let loaded = asking.loaded().await?;
        let on_disk = Include::read(&self.settings.include)?;
        let is_ours =
            on_disk.as_ref().is_some_and(|there| there.header.is_whole && is_loaded_of(there, &loaded));
        let number = if is_ours { asking.number().await? } else { None };
        let running = self.running(on_disk, &loaded)?;
        let parsed = running.as_ref().and_then(|include| parse(&include.text).ok());
        let Some((include, running)) = running.as_ref().zip(parsed) else {
            let mut left_over = self.left_over(&state)?;
            left_over.push(format!("what it loaded from {}", self.settings.include.display()));
            return Ok(ObservedConfig { number, left_over, ..ObservedConfig::default() });
        };
        let each = (MOST_KEYS / running.len().max(1)).clamp(1, MOST_KEYS_OF_ONE);
        let stream = self.observe_stream(include).await?;
        let without_http = stream.services.into_iter();
        let mut services: BTreeMap<String, SeenService> =
            without_http.map(|one| (one.name.to_string(), seen(&one.variations, one.table))).collect();
        let mut is_asked_so = true;
        for service in &running {
            services.insert(service.name.to_string(), self.seen(service, &mut asking, each).await?);
            let asked = state.buckets(&format!("{}/{}", service.id, service.structure));
            let asked = asked.map(|buckets| files::asked_of(&buckets.asked)).unwrap_or_default();
            is_asked_so &= files::asked_there(&self.folder(service), service.variations.len())? == asked;
        }
        // Who may ask for what was changed by somebody else, or is being changed.
        let number = number.filter(|_| is_asked_so && stream.is_as_included);
        let left_over = self.left_over(&state)?.into_iter().chain(stream.left_over).collect();
        Ok(ObservedConfig { number, services, left_over })
    }

    /// The include that nginx runs by: the one on disk, or the one before. One that was changed by hand counts as it is
    /// now, since the next load would bring that.
    fn running(&self, on_disk: Option<Include>, loaded: &Loaded) -> Result<Option<Include>, RouterError> {
        let before = Include::read(&self.before())?;
        Ok([on_disk, before].into_iter().flatten().find(|there| is_loaded_of(there, loaded)))
    }

    fn folder(&self, service: &ParsedService) -> PathBuf {
        self.root().join(&service.id).join(&service.structure)
    }

    async fn seen(
        &self,
        service: &ParsedService,
        asking: &mut Asking,
        keys: usize,
    ) -> Result<SeenService, RouterError> {
        let there = files::there(&self.folder(service), service.variations.len())?;
        let nonsense =
            |error: traffic::TableError| RouterError::Nonsense { router: NGINX, said: error.to_string() };
        let table = table_of(service.variations.len(), &there).map_err(nonsense)?;
        let answers = answers(service, &table, asking, keys).await?;
        let table = as_answered(&table, &answers).map_err(nonsense)?;
        Ok(seen(&service.variations, table))
    }
}

/// A service of these variations, with their targets.
fn seen(variations: &[(Name, Vec<Target>)], table: Table) -> SeenService {
    let seen = |((name, targets), hundredths): (&(Name, Vec<Target>), u16)| SeenVariation {
        name: name.to_string(),
        hundredths,
        targets: targets.iter().map(seen_target).collect(),
    };
    let variations = variations.iter().zip(table.hundredths()).map(seen).collect();
    SeenService { variations, table: Some(table) }
}

/// What nginx itself says of some keys, among them one of each variation where it is found.
async fn answers(
    service: &ParsedService,
    table: &Table,
    asking: &mut Asking,
    keys: usize,
) -> Result<Vec<(Bucket, Variation)>, RouterError> {
    let mut answers = Vec::new();
    for (key, bucket) in some_keys(service, table, keys) {
        let Some(said) = asking.of_key(&service.id, &key).await? else { return Ok(answers) };
        let is_of_this = said.service == service.name.as_str() && said.structure == service.structure;
        if !is_of_this || said.bucket != bucket.index() {
            let said = format!("{said:?} for a key of bucket {} of {}", bucket.index(), service.name);
            return Err(RouterError::Nonsense { router: NGINX, said });
        }
        answers.push((bucket, Variation(said.variation)));
    }
    Ok(answers)
}

/// Keys with their buckets: first one for each variation, then any.
fn some_keys(service: &ParsedService, table: &Table, most: usize) -> Vec<(String, Bucket)> {
    let bucket =
        |key: &str| Bucket::of_key(HashFunction::Murmur2, service.salt.as_str().as_bytes(), key.as_bytes());
    let mut keys = (0..KEYS_TRIED).map(|key| format!("probe{key}"));
    let mut keys: Vec<_> =
        keys.by_ref().map(|key| (bucket(&key), key)).map(|(bucket, key)| (key, bucket)).collect();
    let mut met = vec![false; table.variations()];
    keys.sort_by_cached_key(|(_, bucket)| {
        std::mem::replace(&mut met[table.variation(*bucket).index()], true)
    });
    keys.truncate(most);
    keys
}

fn seen_target(target: &Target) -> SeenTarget {
    SeenTarget { target: target.clone(), is_healthy: None, connections: None }
}
