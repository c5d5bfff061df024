use super::{Reader, StoreError, Writer, options::OpenOptions, session::Sessions, transfer::Target};
use std::sync::Arc;
pub async fn open(
    _url: &str,
    _options: &OpenOptions,
) -> Result<(Box<dyn Writer>, Arc<dyn Reader>), StoreError> {
    Err(StoreError::Refused(String::new()))
}
pub(crate) async fn open_source(_url: &str) -> Result<Arc<dyn Sessions>, StoreError> {
    Err(StoreError::Refused(String::new()))
}
pub(crate) async fn open_target(_url: &str, _options: &OpenOptions) -> Result<Box<dyn Target>, StoreError> {
    Err(StoreError::Refused(String::new()))
}
