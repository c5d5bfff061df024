//! The keys of the original release manager's `config.yml`, for whoever brings one along.

/// What the original's keys are called here, and what is to be written for them.
const KEYS: [(&str, &str); 7] = [
    ("log_level", "here it is level: of the section log"),
    ("host", "here it is listen: of the section serve, as in 127.0.0.1:8080"),
    ("ip_address", "here it is listen: of the section serve, as in 127.0.0.1:8080"),
    ("port", "here it is listen: of the section serve, as in 127.0.0.1:8080"),
    (
        "service_area",
        "here the area stands in a file of its own, which area_file: of the section parent names; also for a manager \
         without a parent",
    ),
    ("parent.host", "here it is parent.url, as in http://127.0.0.1:8080"),
    ("parent.port", "here it is parent.url, as in http://127.0.0.1:8080"),
];

/// What stands here for a key of the original; `None` if it is none.
pub(super) fn ours(key: &str) -> Option<&'static str> {
    KEYS.iter().find(|(original, _)| *original == key).map(|(_, ours)| *ours)
}
