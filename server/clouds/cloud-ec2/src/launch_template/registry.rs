//! Which launch templates exist, as far as this process knows.

use std::collections::BTreeMap;

use model::{Millis, Timestamp};

/// A template that no launch has used for this long is deleted. A region holds 5,000 templates, and a
/// change of images or labels makes new ones; recreating one costs a call.
pub(crate) const IDLE: Millis = Millis::from_hours(1);

/// Templates that this process has created or found, with the time of their last use.
///
/// Deleting one that another process is about to use is harmless: its launch learns that the template
/// is missing and makes it again.
#[derive(Debug, Default)]
pub(crate) struct TemplateRegistry {
    last_used: BTreeMap<String, Timestamp>,
}

impl TemplateRegistry {
    /// Whether the template `name` exists; if so, it is in use now.
    pub(crate) fn use_known(&mut self, name: &str, now: Timestamp) -> bool {
        self.last_used.get_mut(name).map(|last| *last = (*last).max(now)).is_some()
    }

    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.last_used.contains_key(name)
    }

    pub(crate) fn add(&mut self, name: &str, now: Timestamp) {
        self.last_used.insert(name.to_owned(), now);
    }

    /// The template is missing or about to be deleted.
    pub(crate) fn forget(&mut self, name: &str) {
        self.last_used.remove(name);
    }

    /// Templates without a use since [`IDLE`].
    pub(crate) fn idle(&self, now: Timestamp) -> Vec<String> {
        self.last_used.iter().filter(|(_, last)| now - **last >= IDLE).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_idle_an_hour_after_its_last_use() {
        let at = |minutes| Timestamp::from_millis(0) + Millis::from_mins(minutes);
        let mut registry = TemplateRegistry::default();
        assert!(!registry.use_known("t", at(0)));
        registry.add("t", at(0));
        assert!(registry.use_known("t", at(10)));
        assert_eq!(registry.idle(at(69)), Vec::<String>::new());
        assert_eq!(registry.idle(at(70)), ["t"]);
        registry.forget("t");
        assert!(!registry.use_known("t", at(70)) && registry.idle(at(500)).is_empty());
    }
}
