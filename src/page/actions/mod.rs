//! What people do to a release: the forms on its page, and what sends them.
//!
//! Nothing is done without the session's cookie, its proof in the form, and a browser that says that the form is of this site. Each form
//! names the tag of the release that the page showed, so a second click, going back or a reload never acts twice: the release is
//! another one then, and the API says who did what since.

mod form;
mod origin;
mod section;
mod sending;

pub use form::{Again, FormData};
pub use origin::is_foreign;
pub use section::{Section, asks_for_id, done, fields, kept, read, read_one};
pub use sending::{admitted, is_final, let_in, send};

use crate::text;

/// Largest form, in bytes: a note of 1,000 characters, each of which may take twelve.
pub const MAX_FORM: usize = 32 * 1024;

/// Whether there is an action of this name.
pub fn is_known(action: &str) -> bool {
    text::actions::ALL.iter().any(|(known, ..)| *known == action)
}
