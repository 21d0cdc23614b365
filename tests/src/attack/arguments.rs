//! Flags of a subcommand.

/// The number after `flag`, or `default`.
pub(super) fn number(words: &[&str], flag: &str, default: u64) -> u64 {
    word(words, flag).and_then(|word| word.parse().ok()).unwrap_or(default)
}

/// The value of `flag`.
pub(super) fn word<'w>(words: &[&'w str], flag: &str) -> Option<&'w str> {
    words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied()
}
