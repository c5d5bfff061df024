//! What Traefik serves today by its operator's own configuration.

use super::{
    NAME, Traefik,
    config::{MARK, adopt},
};
use crate::{RouterError, adopt::AdoptError};

impl Traefik {
    pub(super) async fn adopt_now(&self, service: &str) -> Result<String, RouterError> {
        let unable = |error: AdoptError| RouterError::Unable { router: NAME, what: error.to_string() };
        let (raw, entry_points) = (self.api.raw().await?, self.api.entry_points().await?);
        if raw.observed().services.contains_key(service.strip_prefix(MARK).unwrap_or(service)) {
            return Err(unable(AdoptError::Led { name: service.to_owned() }));
        }
        let found = adopt(&raw, &entry_points, service).map_err(unable)?;
        let router = match &self.settings.folder {
            Some(folder) => [format!("# nothing: its file comes into {}", folder.display())],
            None => ["# nothing: it is told by REST".to_owned()],
        };
        Ok(found.lines(&router, &format!("the router {service}")))
    }
}
