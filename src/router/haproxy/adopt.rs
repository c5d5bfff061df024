//! What `HAProxy` serves today by its operator's own configuration.

use crate::adopt::AdoptError;
use crate::haproxy::config::{STATE, adopt, has_socket};

use super::{Haproxy, NAME, running::Running};
use crate::RouterError;

impl Haproxy {
    pub(super) async fn adopt_now(&self, service: &str) -> Result<String, RouterError> {
        let unable = |error: AdoptError| RouterError::Unable { router: NAME, what: error.to_string() };
        if let Ok(running) = Running::find(self).await {
            let state = running.maps.get(STATE).map(Vec::as_slice).unwrap_or_default();
            if state.iter().any(|(key, _)| key.strip_prefix("service/") == Some(service)) {
                return Err(unable(AdoptError::Led { name: service.to_owned() }));
            }
        }
        let config = self.main_text()?;
        let found = adopt(&config, service).map_err(unable)?;
        found.check_addresses(&self.settings.frame.addresses, "haproxy.addresses").map_err(unable)?;
        let socket = self.settings.socket.display().to_string();
        let mut router = Vec::new();
        if !has_socket(&config, &socket) {
            router.push(format!("stats socket {socket} mode 600 level admin   # in its global section"));
        }
        let section = self.files.folder.section();
        router.push(format!("# and {} as the last -f of its command line, beside -W", section.display()));
        let ports: Vec<String> = found.listens.iter().map(|(_, port)| port.to_string()).collect();
        let replaced = format!("what binds {}", ports.join(", "));
        Ok(found.lines(&router, &replaced))
    }
}
