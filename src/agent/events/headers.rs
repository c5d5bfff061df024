//! Header fields of an event that one node hands to another, or to a function.

/// The node that it comes from.
pub(super) const NODE: &str = "choirmaster-node";

/// The instance that has put it out.
pub(super) const FROM: &str = "choirmaster-from";

/// The logical id of that instance: what it is called whichever node runs it.
pub(super) const LOGICAL: &str = "choirmaster-logical";

/// How long ago it was put out, in milliseconds.
pub(super) const AGE: &str = "choirmaster-age-ms";

/// Its number among all of that instance.
pub(super) const NUMBER: &str = "choirmaster-number";

/// The output at which it was put out.
pub(super) const OUTPUT: &str = "choirmaster-output";

/// In base64url.
pub(super) const SIGNATURE: &str = "choirmaster-signature";
