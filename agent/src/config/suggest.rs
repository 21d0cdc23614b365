//! Suggests the known name that an unknown one was probably meant to be.

/// The known name with the smallest edit distance to `name`, if no more than a third of the letters
/// differ; else the first one that contains all words of `name` side by side.
pub(super) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let by_distance = known.iter().map(|candidate| (strsim::levenshtein(name, candidate), *candidate)).min();
    let is_near =
        |(distance, candidate): &(usize, &str)| distance * 3 <= name.chars().count().max(candidate.chars().count());
    let containing = || known.iter().copied().find(|candidate| contains_words(candidate, name));
    by_distance.filter(is_near).map(|(_, candidate)| candidate).or_else(containing)
}

fn contains_words(candidate: &str, name: &str) -> bool {
    let (all, wanted) = (words(candidate), words(name));
    !wanted.is_empty() && all.windows(wanted.len()).any(|part| part == wanted)
}

fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["server.address", "cluster.name", "cluster.region", "kubernetes.lease-duration"];

    #[test]
    fn the_nearest_name_is_suggested_and_else_one_with_the_same_words() {
        // One letter of 14 is missing; 5 of 12 letters are more than a third.
        assert_eq!(nearest("server.adress", &KNOWN), Some("server.address"));
        assert_eq!(nearest("cluster", &KNOWN), Some("cluster.name"));
        assert_eq!(nearest("address", &KNOWN), Some("server.address"));
        assert_eq!(nearest("lease_duration", &KNOWN), Some("kubernetes.lease-duration"));
        assert_eq!(nearest("colour", &KNOWN), None);
    }
}
