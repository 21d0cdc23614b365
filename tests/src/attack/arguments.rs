//! Flags of a subcommand.

/// The number after `flag`, or `default`.
pub(super) fn number(words: &[&str], flag: &str, default: u64) -> u64 {
    word(words, flag).and_then(|word| word.parse().ok()).unwrap_or(default)
}

/// The value of `flag`.
pub(super) fn word<'w>(words: &[&'w str], flag: &str) -> Option<&'w str> {
    words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied()
}

/// Flags of each subcommand; those of others are passed on.
const FLAGS: [(&str, &[&str]); 3] = [
    ("connections", &["--seconds", "--connections", "--only", "--nice", "--without-timing"]),
    ("plans", &["--seconds", "--clients", "--node-pools", "--pods"]),
    ("planning", &["--pods", "--terms", "--seconds"]),
];

/// The first flag in `words`, which begin with a subcommand, that the subcommand does not have.
pub(super) fn unknown_flag<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (_, flags) = FLAGS.into_iter().find(|(subcommand, _)| words.first() == Some(subcommand))?;
    words.iter().skip(1).copied().find(|word| word.starts_with('-') && !flags.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_a_subcommand_lacks_is_found() {
        assert_eq!(unknown_flag(&["connections", "--seconds", "5", "--only", "silent"]), None);
        assert_eq!(unknown_flag(&["connections", "--second", "5"]), Some("--second"));
        assert_eq!(unknown_flag(&["planning", "--connections"]), Some("--connections"));
        assert_eq!(unknown_flag(&["fleetwright-sim", "serve", "--listen-http"]), None);
    }
}
