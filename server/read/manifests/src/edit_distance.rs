//! The name that a misspelt one was likely meant to be.

/// The name among `known` that `asked` is likely a typing error of.
#[must_use]
pub fn nearest_step<'k>(asked: &str, known: &[&'k str]) -> Option<&'k str> {
    nearest_within(asked.len() / 3, asked, known)
}

/// The name among `known` that differs least from `asked`, and by at most `most` letters.
pub(crate) fn nearest_within<'k>(most: usize, asked: &str, known: &[&'k str]) -> Option<&'k str> {
    let asked = asked.to_ascii_lowercase();
    let ranked = known.iter().map(|name| (distance(&asked, &name.to_ascii_lowercase()), *name));
    ranked.min().filter(|(far, _)| *far <= most).map(|(_, name)| name)
}

/// Levenshtein distance of `a` and `b`, in characters.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
