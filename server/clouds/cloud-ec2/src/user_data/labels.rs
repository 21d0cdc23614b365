//! Labels and taints with which a kubelet registers its Node.

use std::collections::BTreeMap;

use model::label_syntax::{LABEL_KEY, LABEL_VALUE, is_label_key, is_label_value};
use model::labels::CAPACITY_TYPE;
use model::{Effect, Labels, Taint, Text};

use super::input::{UserDataError, UserDataInput};

/// Tells the controller that the kubelet has set all taints itself.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Excludes pods until the Node is registered.
const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Domains whose labels a kubelet may not set (admission plugin `NodeRestriction`), and Karpenter's
/// registration sets instead.
const RESTRICTED_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"];

/// The labels that the kubelet sets.
///
/// # Errors
/// [`UserDataError::Invalid`] for a label that the kubelet would refuse. Its flag has no escapes, so
/// such a label could also end it and begin another.
pub(super) fn node_labels(input: &UserDataInput) -> Result<Labels, UserDataError> {
    let mut labels: Labels =
        input.labels.iter().filter(|(key, _)| !is_restricted(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(input.capacity_type.as_str()));
    labels.insert(Text::from(DO_NOT_SYNC_TAINTS), Text::from("true"));
    labels.iter().try_for_each(|(key, value)| check("metadata.labels", key, value))?;
    Ok(labels)
}

fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    RESTRICTED_DOMAINS
        .iter()
        .any(|restricted| domain.strip_suffix(restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The taints that the kubelet sets, sorted and unique.
///
/// # Errors
/// [`UserDataError::Invalid`] for a taint that the API server would refuse: its syntax, or a second
/// value for the same key and effect.
pub(super) fn node_taints(input: &UserDataInput) -> Result<Vec<Taint>, UserDataError> {
    let unregistered = Taint { key: Text::from(UNREGISTERED), value: Text::from(""), effect: Effect::NoExecute };
    let mut values: BTreeMap<(&str, Effect), &Taint> = BTreeMap::new();
    for taint in input.taints.iter().chain(&input.startup_taints).chain([&unregistered]) {
        check("spec.taints", &taint.key, &taint.value)?;
        let first = values.entry((&taint.key, taint.effect)).or_insert(taint);
        if first.value != taint.value {
            return Err(UserDataError::Invalid {
                field: format!("spec.taints[{:?}]", taint.key),
                found: format!("{} and {}", first.value, taint.value),
                allowed: "one value for each key and effect, also across startupTaints; karpenter.sh/unregistered has none",
            });
        }
    }
    Ok(values.into_values().cloned().collect())
}

fn check(field: &str, key: &str, value: &str) -> Result<(), UserDataError> {
    if !is_label_key(key) {
        return Err(UserDataError::Invalid { field: field.to_owned(), found: key.to_owned(), allowed: LABEL_KEY });
    }
    if !is_label_value(value) {
        let field = format!("{field}[{key:?}]");
        return Err(UserDataError::Invalid { field, found: value.to_owned(), allowed: LABEL_VALUE });
    }
    Ok(())
}
