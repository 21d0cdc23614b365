//! Pod affinity and anti-affinity, required and preferred.

use model::{PodAffinityTerm, Text};

use crate::{Cursor, selector, syntax};

/// A term, with the label keys whose values of the pod are added to its selector.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedTerm {
    /// The term, before label keys are merged.
    pub term: PodAffinityTerm,
    /// `matchLabelKeys`.
    pub match_keys: Vec<Text>,
    /// `mismatchLabelKeys`.
    pub mismatch_keys: Vec<Text>,
    pub anti: bool,
    /// Weight of a preferred term; `None` for required ones.
    pub weight: Option<i32>,
}

/// All terms of the affinity at `at`, in the order in which they were written.
pub fn read(at: &Cursor<'_>) -> Vec<KeyedTerm> {
    let mut terms = Vec::new();
    for (field, anti) in [("podAffinity", false), ("podAntiAffinity", true)] {
        let side = at.at(field);
        for item in side.at("requiredDuringSchedulingIgnoredDuringExecution").list() {
            terms.extend(term(&item, anti, None));
        }
        for item in side.at("preferredDuringSchedulingIgnoredDuringExecution").list() {
            let weight = item.at("weight").required().int_within(1, 100).and_then(|weight| i32::try_from(weight).ok());
            terms.extend(term(&item.at("podAffinityTerm").required(), anti, Some(weight.unwrap_or(1))));
        }
    }
    terms
}

fn term(at: &Cursor<'_>, anti: bool, weight: Option<i32>) -> Option<KeyedTerm> {
    let topology_key: Text = syntax::label_key(&at.at("topologyKey"))?.into();
    let selector = selector::read(&at.at("labelSelector"));
    let mut namespaces: Vec<Text> =
        at.at("namespaces").list().iter().filter_map(|item| syntax::dns_label(item).map(Text::from)).collect();
    namespaces.sort();
    namespaces.dedup();
    let match_keys = selector::label_keys(&at.at("matchLabelKeys"), selector.as_ref());
    let mismatch_keys = selector::label_keys(&at.at("mismatchLabelKeys"), selector.as_ref());
    let namespace_selector = selector::read(&at.at("namespaceSelector"));
    let term = PodAffinityTerm { topology_key, selector, namespaces, namespace_selector };
    Some(KeyedTerm { term, match_keys, mismatch_keys, anti, weight })
}
