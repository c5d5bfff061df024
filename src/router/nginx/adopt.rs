//! What nginx serves today by its operator's own configuration.

use crate::adopt::AdoptError;
use crate::nginx::config::{Part, adopt, id_of, parse, stream_of};

use super::{Include, NGINX, Nginx, process, stream::ids_of};
use crate::RouterError;

impl Nginx {
    pub(super) async fn adopt_now(&self, service: &str) -> Result<String, RouterError> {
        let unable = |error: AdoptError| RouterError::Unable { router: NGINX, what: error.to_string() };
        let (include, settings) = (&self.settings.include, &self.settings);
        let text = Include::read(include)?.map(|there| there.text).unwrap_or_default();
        let of_stream = stream_of(&text).map(|file| ids_of(&file)).unwrap_or_default();
        let of_http = parse(&text).unwrap_or_default();
        if of_http.iter().any(|led| led.name.as_str() == service) || of_stream.contains(&id_of(service)) {
            return Err(unable(AdoptError::Led { name: service.to_owned() }));
        }
        let (printed, _) = process::print(settings, &settings.config, &self.disk).await?;
        let include = include.display().to_string();
        let found = adopt(&printed, &include, service).map_err(unable)?;
        if found.path.is_none() {
            found.check_addresses(&settings.layout.listen_on, "nginx.addresses").map_err(unable)?;
        }
        let mut router = Vec::new();
        let is_included =
            |line: &str| line.trim_start().starts_with(&format!("# configuration file {include}"));
        if printed.lines().any(is_included) {
            router.push(format!("# nothing: {include} is included already"));
        } else {
            router
                .push(format!("include {include};   # within http {{ … }}, with an empty file of that name"));
        }
        let ports: Vec<String> = found.listens.iter().map(|(_, port)| port.to_string()).collect();
        if let Some(path) = &found.path {
            let hosts = found.hosts.iter().map(|host| Some(host.clone()));
            let whatever = found.hosts.is_empty().then_some(None);
            for host in hosts.chain(whatever) {
                for &(_, port) in &found.listens {
                    let part = Part { host: host.clone(), port, text: String::new() };
                    let file = self.parts().join(part.file());
                    router.push(format!("include {};   # within {}", file.display(), part.server()));
                }
            }
            let replaced = format!("location {path} of {}", found.hosts.first().map_or("it", String::as_str));
            return Ok(found.lines(&router, &replaced));
        }
        let replaced = format!("the server {{ … }} that listens at {}", ports.join(", "));
        Ok(found.lines(&router, &replaced))
    }
}
