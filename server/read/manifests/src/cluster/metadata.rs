//! Metadata of every object.

use model::labels::canonical_key;
use model::removal::DoNotDisrupt;
use model::{Labels, Millis, Text, Timestamp};

use crate::inventory::Object;
use crate::karpenter::duration;
use crate::{Cursor, syntax};

/// The owner reference of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `ownerReferences[].kind`.
    pub kind: Text,
    /// `ownerReferences[].name`.
    pub name: Text,
}

/// Name, labels, owner and times of an object.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// `metadata.namespace`; empty for cluster-scoped kinds.
    pub namespace: Text,
    pub name: Text,
    pub labels: Labels,
    /// The controlling owner, else the first owner.
    pub owner: Option<Owner>,
    /// `creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether a `deletionTimestamp` is set.
    pub deleting: bool,
}

impl Metadata {
    /// Reads the metadata of the object at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        let at = at.at("metadata");
        Self {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            labels: syntax::labels(&at.at("labels")),
            owner: owner(&at),
            created: at.at("creationTimestamp").timestamp(),
            deleting: at.at("deletionTimestamp").timestamp().is_some(),
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The owner's name when its kind is `kind`.
    #[must_use]
    pub fn owned_by(&self, kind: &str) -> Option<&Text> {
        self.owner.as_ref().filter(|owner| owner.kind.as_ref() == kind).map(|owner| &owner.name)
    }
}

/// The controlling owner; without one marked so, the first.
fn owner(metadata: &Cursor<'_>) -> Option<Owner> {
    let references = metadata.at("ownerReferences").list();
    let controls = |reference: &&Cursor<'_>| reference.at("controller").bool() == Some(true);
    let reference = references.iter().find(controls).or_else(|| references.first())?;
    Some(Owner { kind: reference.at("kind").required_str()?.into(), name: reference.at("name").required_str()?.into() })
}

/// The annotation `key` of the object at `at`.
pub fn annotation<'v>(at: &Cursor<'v>, key: &'v str) -> Option<&'v str> {
    at.at("metadata").at("annotations").at(key).str()
}

/// The annotation `karpenter.sh/do-not-disrupt` of the Pod or Node at `at`.
#[must_use]
pub fn do_not_disrupt(at: &Cursor<'_>) -> Option<DoNotDisrupt> {
    annotation(at, "karpenter.sh/do-not-disrupt").and_then(parse_do_not_disrupt)
}

/// Parses `true` or a positive duration; any other value protects nothing (Karpenter:
/// do-not-disrupt).
#[must_use]
pub fn parse_do_not_disrupt(value: &str) -> Option<DoNotDisrupt> {
    if value == "true" {
        return Some(DoNotDisrupt::Always);
    }
    duration::parse(value).filter(|duration| *duration > Millis::ZERO).map(DoNotDisrupt::For)
}

/// Adds the canonical form of every key beside the form that was written. A value under a canonical
/// key takes precedence.
#[must_use]
pub fn with_canonical_keys(mut labels: Labels) -> Labels {
    let canonical = |(key, value): (&Text, &Text)| {
        let canonical = canonical_key(key);
        (canonical != key.as_ref() && !labels.contains_key(canonical)).then(|| (Text::from(canonical), value.clone()))
    };
    let missing: Vec<(Text, Text)> = labels.iter().filter_map(canonical).collect();
    labels.extend(missing);
    labels
}
