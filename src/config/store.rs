//! The store.

use std::path::PathBuf;

use super::{
    section::{Field, Section},
    value::Bytes,
};
use model::Secret;

/// Smallest and largest size that an embedded store can be limited to, in bytes: 1 MiB and 16 TiB.
const MIN_STORE_BYTES: u64 = 1 << 20;
const MAX_STORE_BYTES: u64 = 1 << 44;

/// Postgres URLs may hold a password, so the URL is a secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Store {
    pub url: Option<Secret>,
    pub url_file: Option<PathBuf>,
    pub max_size: Option<Bytes>,
}

impl Section for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::new("url", &mut self.url),
            Field::new("url_file", &mut self.url_file),
            Field::within("max_size", &mut self.max_size, MIN_STORE_BYTES, MAX_STORE_BYTES),
        ]
    }
}
