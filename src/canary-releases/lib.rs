//! Canaries of registered releases, as manifests of the kinds `CanaryRelease` and `Release` describe them.
//!
//! A `Release` says which services it has, and where each of its versions listens, or what is started for it. A `CanaryRelease` names such
//! a release, one of its versions and weights, and becomes the text of a strategy ([`translate()`]), in the language in which anybody may
//! submit one. Its last stage lasts until somebody says otherwise.
//!
//! [`crd`] says to Kubernetes what such manifests are.
//!
//! It translates and keeps nothing. What a release must be known by later stands in annotations of its strategy ([`marks`]). Where a canary
//! stands is read off its release ([`status()`]), and what was submitted as well, as far as that is known ([`show()`]).
//!
//! Invariants: no bytes make it panic. What [`read()`] takes has no field that it doesn't know, and no text without a limit. What
//! [`translate()`] makes is a strategy without a fault.
//!
//! What a folder of such manifests asks for, as it changes, is in [`folder`].
//!
//! Pure: all names and times come as arguments. Not here: how a folder is read, what is registered, who may ask, and what a weight or a
//! transition does to a release that is there already.

pub mod crd;
pub mod folder;
mod form;
pub mod marks;
mod parts;
mod read;
mod render;
mod show;
mod status;
mod translate;
mod words;

pub use form::{Canary, MAX_CONFIG_BYTES, Transition, check_release};
pub use read::{Document, MAX_DOCUMENT_BYTES, kind_of, read};
pub use render::{MAX_RENDERED_BYTES, MAX_TEMPLATE_BYTES, TEMPLATE, is_template, render};
pub use show::{Details, show};
pub use status::{Life, Live, Told, status};
pub use translate::{
    RunFolder, STAGE, Translated, Weight, digest, is_of, translate, uneven_ports, unknown_release,
    unnamed_ports, wanted, weights_of,
};
