//! Strings shared between the objects of one cluster.
//!
//! Most labels of Nodes are equal, and every pod names its Node and owner: in a cluster with 100
//! Nodes and 2,000 pods, four fifths of the strings are duplicates. Sharing is by content, within
//! one cluster. A string is looked up before memory is allocated for it.

use std::sync::Arc;

use model::Text;
use rustc_hash::FxHashSet;

/// Minimum number of strings before unused ones are swept; doubles with the number in use.
const FIRST_SWEEP: usize = 1_024;

/// String pool of one cluster. Looked up, never iterated in an order that matters.
#[derive(Default)]
pub(super) struct TextPool {
    known: FxHashSet<Text>,
    sweep_at: usize,
    /// Space for the string that [`TextPool::pair`] looks up.
    joined: String,
}

impl TextPool {
    /// The shared string that equals `text`.
    pub(super) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        self.sweep();
        let new = Text::from(text);
        self.known.insert(Arc::clone(&new));
        new
    }

    /// The shared name that equals `text`.
    pub(super) fn name<N: From<Text>>(&mut self, text: &str) -> N {
        N::from(self.text(text))
    }

    /// The shared name that equals `text`; `None` when it is empty.
    pub(super) fn filled<N: From<Text>>(&mut self, text: &str) -> Option<N> {
        (!text.is_empty()).then(|| self.name(text))
    }

    /// The shared string `first/second`.
    pub(super) fn pair(&mut self, first: &str, second: &str) -> Text {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend([first, "/", second]);
        let text = self.text(&joined);
        self.joined = joined;
        text
    }

    /// Drops strings that only the pool refers to.
    fn sweep(&mut self) {
        if self.known.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.known.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use model::NodeName;

    use super::*;

    #[test]
    fn equal_strings_are_shared_however_they_are_composed() {
        let mut texts = TextPool::default();
        let whole = texts.text("Job/a");
        assert!(Arc::ptr_eq(&whole, &texts.text("Job/a")));
        assert!(Arc::ptr_eq(&whole, &texts.pair("Job", "a")));
        assert_eq!(&*texts.pair("Pod", "b"), "Pod/b");
        assert_eq!(texts.filled::<NodeName>(""), None);
        assert!(texts.filled::<NodeName>("Job/a").is_some_and(|name| Arc::ptr_eq(&whole, name.as_text())));
    }

    #[test]
    fn strings_that_nothing_refers_to_are_swept() {
        let mut texts = TextPool::default();
        let kept = texts.text("kept");
        (1..9_000).for_each(|number| drop(texts.text(&format!("n{number}"))));
        let held = texts.known.len();
        assert!(held <= FIRST_SWEEP, "{held} strings are held for one that is used");
        assert!(texts.known.contains(&kept));
    }
}
