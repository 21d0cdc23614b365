//! Summarizes pods by workload: `web ×10, api ×3`.

use std::collections::BTreeMap;

use super::Rendering;

/// Workloads of `pods` with how many of each, most first, in at most `width` characters.
pub(super) fn summary(rendering: &Rendering<'_>, pods: impl Iterator<Item = u32>, width: usize) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for index in pods {
        let pod = rendering.pod(index);
        let name = pod.workload.split_once('/').map_or(pod.workload.as_ref(), |(_, name)| name);
        *counts.entry((pod.namespace.as_ref(), name)).or_default() += 1;
    }
    let mut counted: Vec<_> = counts.into_iter().collect();
    counted.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let words: Vec<String> = counted
        .iter()
        .map(
            |((namespace, name), count)| {
                if *count == 1 { format!("{namespace}/{name}") } else { format!("{namespace}/{name} ×{count}") }
            },
        )
        .collect();
    shorten(&words, width)
}

/// As many of `words` as fit, and the number of omitted ones.
pub(super) fn shorten(words: &[String], width: usize) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        if at > 0 && text.chars().count() + separator.len() + word.chars().count() > width {
            return format!("{text} and {} more", words.len() - at);
        }
        text.push_str(separator);
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let words = ["a/web ×10".to_owned(), "a/api".to_owned(), "b/x".to_owned()];
        assert_eq!(shorten(&words, 80), "a/web ×10, a/api, b/x");
        // "a/web ×10, a/api" is 9 + 2 + 5 = 16 characters.
        assert_eq!(shorten(&words, 16), "a/web ×10, a/api and 1 more");
        assert_eq!(shorten(&words, 3), "a/web ×10 and 2 more");
    }
}
