/// How often what is decided on has changed, and when it did so last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision {
    pub number: u32,
    /// The number of the commit that stored it, by which the audit trail tells what came after.
    pub commit: u64,
}
