//! How it is called over HTTP.

use super::{
    section::{Field, Section},
    value::{Names, Networks, PublicUrl},
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Http {
    /// Further names under which it may be called.
    pub hosts: Names,
    /// Proxies that say where a call comes from.
    pub trusted_proxies: Networks,
    /// Where people reach this manager's page; told to the parent. Empty: nobody is told.
    pub public_url: PublicUrl,
}

impl Section for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("hosts", &mut self.hosts),
            Field::new("trusted_proxies", &mut self.trusted_proxies),
            Field::new("public_url", &mut self.public_url),
        ]
    }
}
