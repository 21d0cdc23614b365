//! Suggests the closest known word for a misspelled one.

/// The word of `known` with the smallest edit distance to `word`; `None` when more than a third of
/// the letters would change.
#[must_use]
pub fn nearest(word: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let (distance, best) = known.map(|candidate| (distance(word, &candidate), candidate)).min()?;
    (distance * 3 <= word.chars().count().max(best.chars().count())).then_some(best)
}

/// Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *candidate);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_with_the_smallest_distance_is_suggested() {
        let known = || ["listen.grpc", "listen.http", "log.format"].map(str::to_owned).into_iter();
        assert_eq!(nearest("listen.grcp", known()).as_deref(), Some("listen.grpc"));
        assert_eq!(nearest("cloud", known()), None);
    }
}
