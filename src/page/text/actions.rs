//! The English of what is done to releases.

/// What is done to a release as a whole, as the API calls it; what to call it; and what is said when it was done.
pub const ALL: [(&str, &str, &str); 8] = [
    ("approve", "Approve", "You approved it."),
    ("pause", "Pause", "You paused it."),
    ("resume", "Resume", "You let it go on."),
    ("promote", "Promote", "You promoted it."),
    ("skip", "Skip a stage", "You skipped the stage."),
    ("retry", "Retry what failed", "You gave those that ended badly another attempt."),
    ("extend", "Extend", "You took in those that can take part by now."),
    ("abort", "Abort", "You took the release back."),
];
