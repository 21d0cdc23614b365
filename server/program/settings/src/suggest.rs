//! Suggests the closest known word for a misspelled one.

/// The word of `known` with the smallest edit distance to `word`, if no more than a third of the
/// letters differ; else the first one that contains all parts of `word` side by side.
#[must_use]
pub fn nearest(word: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let mut known: Vec<String> = known.collect();
    let (distance, best) =
        known.iter().enumerate().map(|(index, candidate)| (strsim::levenshtein(word, candidate), index)).min()?;
    let is_near = distance * 3 <= word.chars().count().max(known[best].chars().count());
    let found = if is_near { best } else { known.iter().position(|candidate| contains_parts(candidate, word))? };
    Some(known.swap_remove(found))
}

fn contains_parts(candidate: &str, word: &str) -> bool {
    let (all, wanted) = (parts(candidate), parts(word));
    !wanted.is_empty() && all.windows(wanted.len()).any(|some| some == wanted)
}

fn parts(word: &str) -> Vec<&str> {
    word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_with_the_smallest_distance_is_suggested() {
        let known = || ["listen.grpc", "listen.http", "log.format"].map(str::to_owned).into_iter();
        assert_eq!(nearest("listen.grcp", known()).as_deref(), Some("listen.grpc"));
        assert_eq!(nearest("cloud", known()), None);
        // No third of the letters is right, but a part is.
        assert_eq!(nearest("format", known()).as_deref(), Some("log.format"));
    }
}
