//! How a release ended, as an exit code.

use protocol::api::Release;

/// Exit code: some children failed, the others run the new version.
pub const DONE_WITH_FAILURES: u8 = 3;

/// Exit code: aborted or rolled back.
pub const ABORTED: u8 = 4;

/// Exit code: nobody could take part, so nothing was released.
pub const NO_PARTICIPANTS: u8 = 6;

/// Exit code: rolled back, but not everybody has proven that the base version runs again.
pub const UNPROVEN: u8 = 5;

/// Exit code: nothing failed, and nobody was tested.
pub const UNTESTED: u8 = 7;

/// The exit code of a release that is over; `None` while it is not.
pub fn code(release: &Release) -> Option<u8> {
    match release.state.as_str() {
        "DoneUntested" => Some(UNTESTED),
        "Done" => Some(0),
        "DoneWithFailures" => Some(DONE_WITH_FAILURES),
        "Aborted" | "RolledBack" => Some(ABORTED),
        "NoParticipants" => Some(NO_PARTICIPANTS),
        "RolledBackUnproven" => Some(UNPROVEN),
        _ => None,
    }
}

/// For `--help` of the commands that wait for an end.
pub const HELP: &str = "Exit codes: 0 Done, or what --until names has come, 3 DoneWithFailures, 4 Aborted or RolledBack, \
                        5 RolledBackUnproven (somebody may still run the new version), 6 NoParticipants, \
                        7 DoneUntested (no agent got the calls that its test needs); \
                        1 the caller's fault, 2 the manager's or the program's";
