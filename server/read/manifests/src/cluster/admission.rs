//! What an API server adds to a pod when it is created: the requests that the LimitRanges of its namespace give to
//! containers without any, and what its RuntimeClass requires. Templates and pods that were never created lack
//! both; a pod of a running cluster has both.

use std::collections::BTreeMap;

use model::{Resources, Text};

use crate::Cursor;
use crate::notes::Notes;
use crate::pod::PodSpec;
use crate::pod::runtime_class::RuntimeClass;

/// The LimitRanges and RuntimeClasses of the input.
#[derive(Debug, Default)]
pub struct Admission {
    /// Default requests of containers, by namespace.
    default_requests: BTreeMap<Text, Resources>,
    runtime_classes: BTreeMap<Text, RuntimeClass>,
    none: Resources,
}

impl Admission {
    /// `ranges` are namespaces with the default requests of a LimitRange, by namespace and name. Of several that state
    /// a resource, any may be the one that sets it: here the first.
    #[must_use]
    pub fn new(ranges: Vec<(Text, Resources)>, classes: Vec<RuntimeClass>) -> Self {
        let mut default_requests: BTreeMap<Text, Resources> = BTreeMap::new();
        for (namespace, requests) in ranges {
            fill(default_requests.entry(namespace).or_default(), &requests);
        }
        let runtime_classes = classes.into_iter().map(|class| (class.name.clone(), class)).collect();
        Self { default_requests, runtime_classes, none: Resources::new() }
    }

    /// What containers in `namespace` request of resources for which they state neither a request nor a limit.
    #[must_use]
    pub fn default_requests(&self, namespace: &str) -> &Resources {
        self.default_requests.get(namespace).unwrap_or(&self.none)
    }

    /// Adds what the RuntimeClass of `spec` requires. A class that is not in the input is noted.
    pub fn apply_runtime_class(&self, spec: &mut PodSpec, title: &str, notes: &mut Notes) {
        let Some(name) = spec.runtime_class.clone() else { return };
        match self.runtime_classes.get(&name) {
            Some(class) => spec.run_by(class),
            None => notes.add(
                &format!(
                    "RuntimeClass/{name} is not in the input: its overhead, nodeSelector and tolerations are not planned for"
                ),
                title,
            ),
        }
    }
}

/// Adds the amounts of `other` that `requests` lacks.
fn fill(requests: &mut Resources, other: &Resources) {
    for (name, amount) in other.iter() {
        if !requests.contains(name) {
            requests.set(name.clone(), amount);
        }
    }
}

/// The requests that the LimitRange at `at` gives: `defaultRequest`, else `default`, which is `max` where it is
/// absent, else `min` (Kubernetes: defaults of LimitRange). Of several entries for containers the last applies.
#[must_use]
pub fn default_requests_of(at: &Cursor<'_>) -> Resources {
    let mut requests = Resources::new();
    for limit in at.at("spec").required().at("limits").list() {
        if limit.at("type").str() != Some("Container") {
            continue;
        }
        let mut own = limit.at("defaultRequest").resources();
        for key in ["default", "max", "min"] {
            fill(&mut own, &limit.at(key).resources());
        }
        own.iter().for_each(|(name, amount)| requests.set(name.clone(), amount));
    }
    requests
}
