//! Names of runtimes that are known, to tell a slip from a runtime of one's own.

/// Those that platforms have, without their versions.
const KNOWN: [&str; 20] = [
    "nodejs",
    "node",
    "javascript",
    "typescript",
    "deno",
    "bun",
    "python",
    "go",
    "golang",
    "rust",
    "java",
    "kotlin",
    "ruby",
    "php",
    "dotnet",
    "csharp",
    "wasm",
    "binary",
    "bash",
    "swift",
];

/// The known runtime that was probably meant; `None` for a known one, and for one that is like none of them.
pub(super) fn meant(env: &str) -> Option<&'static str> {
    let bare = env.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ':'));
    let bare = bare.to_ascii_lowercase();
    if KNOWN.contains(&bare.as_str()) || bare.len() < 4 {
        return None;
    }
    // One letter too many, too few, another, or two the other way round: what is further off is another word.
    KNOWN
        .into_iter()
        .filter(|known| known.len() >= 4)
        .find(|known| strsim::damerau_levenshtein(&bare, known) == 1)
}
