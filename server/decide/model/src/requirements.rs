//! The algebra of label requirements: the allowed values of a label (Karpenter core §2).
//!
//! A [`Requirement`] is a set of strings, finite or with a finite complement, restricted by integer
//! bounds. [`Requirements`] is one set per key; an absent key is unconstrained.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::labels::canonical_key;
use super::{Labels, Text};

/// The operators of node selector and NodePool requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; an absent label matches.
    NotIn,
    /// The label is present, with any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
    /// An integer not less than the value.
    Gte,
    /// An integer not greater than the value.
    Lte,
}

impl Operator {
    /// All operators, in the order of messages.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// The name in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// The operator with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == name)
    }
}

/// The allowed values of one label key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    key: Text,
    /// Whether `values` are the excluded values.
    complement: bool,
    values: BTreeSet<Text>,
    gte: Option<i64>,
    lte: Option<i64>,
    /// Whether a node without the label matches. Stored apart from the values, because `Exists`
    /// together with `NotIn [x]` allows the same values as `NotIn [x]` alone, but not absence.
    absence: bool,
    min_values: Option<u32>,
}

/// The fields of a [`Requirement`], for encoders and decoders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementParts {
    /// The label key, canonical.
    pub key: Text,
    /// Whether `values` are the excluded values.
    pub complement: bool,
    /// Values, allowed or excluded.
    pub values: BTreeSet<Text>,
    /// Minimum allowed integer.
    pub gte: Option<i64>,
    /// Maximum allowed integer.
    pub lte: Option<i64>,
    /// Whether a node without the label matches.
    pub absence: bool,
    /// Required number of distinct values among the launch options.
    pub min_values: Option<u32>,
}

impl From<RequirementParts> for Requirement {
    fn from(parts: RequirementParts) -> Self {
        let RequirementParts { key, complement, values, gte, lte, absence, min_values } = parts;
        Self { key, complement, values, gte, lte, absence, min_values }
    }
}

impl From<Requirement> for RequirementParts {
    fn from(requirement: Requirement) -> Self {
        let Requirement { key, complement, values, gte, lte, absence, min_values } = requirement;
        Self { key, complement, values, gte, lte, absence, min_values }
    }
}

impl Requirement {
    /// A requirement from its parts. `values` of the ordering operators hold one integer; any other
    /// content allows nothing (readers reject such input first).
    #[must_use]
    pub fn new(key: &str, operator: Operator, values: impl IntoIterator<Item = Text>) -> Self {
        let key = Text::from(canonical_key(key));
        let values: BTreeSet<Text> = values.into_iter().collect();
        let bound = || values.first().and_then(|v| v.parse::<i64>().ok());
        match operator {
            Operator::In => Self::set(key, false, values, false),
            Operator::NotIn => Self::set(key, true, values, true),
            Operator::Exists => Self::set(key, true, BTreeSet::new(), false),
            Operator::DoesNotExist => Self::set(key, false, BTreeSet::new(), true),
            Operator::Gt => Self::bounded(key, bound().and_then(|n| n.checked_add(1)), None),
            Operator::Lt => Self::bounded(key, None, bound().and_then(|n| n.checked_sub(1))),
            Operator::Gte => Self::bounded(key, bound(), None),
            Operator::Lte => Self::bounded(key, None, bound()),
        }
    }

    /// Exactly `value`.
    #[must_use]
    pub fn equals(key: &str, value: impl Into<Text>) -> Self {
        Self::new(key, Operator::In, [value.into()])
    }

    fn set(key: Text, complement: bool, values: BTreeSet<Text>, absence: bool) -> Self {
        Self { key, complement, values, gte: None, lte: None, absence, min_values: None }
    }

    fn bounded(key: Text, gte: Option<i64>, lte: Option<i64>) -> Self {
        if gte.is_none() && lte.is_none() {
            return Self::set(key, false, BTreeSet::new(), false);
        }
        Self { key, complement: true, values: BTreeSet::new(), gte, lte, absence: false, min_values: None }
    }

    /// The requirement with at least `count` distinct values among the launch options.
    #[must_use]
    pub fn with_min_values(mut self, count: Option<u32>) -> Self {
        self.min_values = count;
        self
    }

    /// The label key, canonical.
    #[must_use]
    pub fn key(&self) -> &Text {
        &self.key
    }

    /// Required number of distinct values among the launch options.
    #[must_use]
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The allowed values, if they are finitely many.
    #[must_use]
    pub fn finite_values(&self) -> Option<&BTreeSet<Text>> {
        (!self.complement).then_some(&self.values)
    }

    /// Values excluded by name; empty for finite sets.
    pub fn excluded_values(&self) -> impl Iterator<Item = &Text> {
        self.values.iter().filter(|_| self.complement)
    }

    /// The inclusive integer bounds.
    #[must_use]
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.gte, self.lte)
    }

    /// The derived operator; bounded sets map to `Exists` (Karpenter core §2.1).
    #[must_use]
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
        }
    }

    /// Whether an absent label satisfies this: `NotIn` and `DoesNotExist`, unless presence is
    /// required too.
    #[must_use]
    pub fn allows_absence(&self) -> bool {
        self.absence
    }

    /// Whether neither a value nor absence satisfies this.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        !self.absence && !self.is_satisfiable()
    }

    /// Whether `value` is allowed.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else { return false };
        self.gte.is_none_or(|gte| number >= gte) && self.lte.is_none_or(|lte| number <= lte)
    }

    /// The values that both allow. `minValues` becomes the larger of the two.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        let absence = self.absence && other.absence;
        let key = self.key.clone();
        if matches!((gte, lte), (Some(low), Some(high)) if low > high) {
            return Self { key, complement: false, values: BTreeSet::new(), gte: None, lte: None, absence, min_values };
        }
        let complement = self.complement && other.complement;
        let values: BTreeSet<Text> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let mut result = Self { key, complement, values, gte, lte, absence, min_values };
        if !complement {
            let kept = result.values.iter().filter(|value| result.within_bounds(value)).cloned().collect();
            result.values = kept;
            (result.gte, result.lte) = (None, None);
        }
        result
    }

    /// Whether some value is allowed by both. Two infinite sets intersect unless their bounds
    /// exclude each other or leave only integers excluded by name.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (false, _) => self.values.iter().any(|value| other.has(value)),
            (_, false) => other.values.iter().any(|value| self.has(value)),
            (true, true) => self.intersection(other).is_satisfiable(),
        }
    }

    /// Whether any value is allowed.
    #[must_use]
    pub fn is_satisfiable(&self) -> bool {
        if !self.complement {
            return !self.values.is_empty();
        }
        match (self.gte, self.lte) {
            (Some(low), Some(high)) => {
                let integers = i128::from(high) - i128::from(low) + 1;
                let refused = self.values.iter().filter(|value| self.within_bounds(value)).count();
                integers > i128::try_from(refused).unwrap_or(i128::MAX)
            }
            _ => true,
        }
    }

    /// A deterministic allowed value: the least listed one, otherwise the least integer from the
    /// lower bound (or zero) that is not excluded (L32). `None` if nothing is allowed.
    #[must_use]
    pub fn representative(&self) -> Option<Text> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let from = self.gte.unwrap_or_else(|| self.lte.map_or(0, |lte| lte.min(0)));
        (from..=self.lte.unwrap_or(i64::MAX)).map(|n| Text::from(n.to_string())).find(|n| !self.values.contains(n))
    }
}

impl fmt::Display for Requirement {
    /// Usual form: `arch In [amd64]`, `cpu Gt 3, Lt 9`. Bounds have the operators that every
    /// release of Kubernetes and Karpenter reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        let list = || self.values.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
        // Values are integers of 0 or more, so that `Gte 0` has no equivalent.
        let least = self.gte.map(|n| if n > 0 { format!("Gt {}", n - 1) } else { format!("Gte {n}") });
        let most = self.lte.map(|n| n.checked_add(1).map_or_else(|| format!("Lte {n}"), |over| format!("Lt {over}")));
        let bounds: Vec<String> = least.into_iter().chain(most).collect();
        match self.operator() {
            Operator::Exists if !bounds.is_empty() => write!(f, " {}", bounds.join(", ")),
            Operator::NotIn if !bounds.is_empty() => write!(f, " {}, NotIn [{}]", bounds.join(", "), list()),
            operator @ (Operator::In | Operator::NotIn) => write!(f, " {} [{}]", operator.as_str(), list()),
            operator => write!(f, " {}", operator.as_str()),
        }
    }
}

/// One requirement per key; absent keys are unconstrained.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Requirements(BTreeMap<Text, Requirement>);

impl Requirements {
    /// No constraint at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The requirements equal to `labels`: every key has exactly its value.
    #[must_use]
    pub fn from_labels(labels: &Labels) -> Self {
        labels.iter().map(|(key, value)| Requirement::equals(key, value.clone())).collect()
    }

    /// Adds `requirement`, intersected with the present requirement of its key.
    pub fn add(&mut self, requirement: Requirement) {
        let merged = match self.0.get(&requirement.key) {
            Some(present) => present.intersection(&requirement),
            None => requirement,
        };
        self.0.insert(merged.key.clone(), merged);
    }

    /// Whether some key allows neither a value nor absence.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.iter().any(Requirement::is_impossible)
    }

    /// Adds every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    /// The requirement for `key`, if it is constrained.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// Removes the requirement of `key`.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.0.remove(key)
    }

    /// Requirements by key.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.values()
    }

    /// Whether nothing is constrained.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first key with a conflict between `self` and `other`: both define it, no value is
    /// allowed by both, and not both allow absence (Karpenter core §2.4, step 2).
    #[must_use]
    pub fn first_conflict<'r>(&'r self, other: &'r Self) -> Option<&'r Requirement> {
        other.iter().find(|theirs| self.get(&theirs.key).is_some_and(|ours| !agree(ours, theirs)))
    }

    /// The first requirement of `incoming` that `self`, describing a node, cannot satisfy: a
    /// conflict, or a key that is undefined here although absence is not allowed (Karpenter core
    /// §2.4). `may_be_undefined` selects the keys that a node may have although nothing defines
    /// them.
    #[must_use]
    pub fn first_incompatible<'r>(
        &'r self,
        incoming: &'r Self,
        may_be_undefined: impl Fn(&str) -> bool,
    ) -> Option<&'r Requirement> {
        incoming.iter().find(|theirs| match self.get(&theirs.key) {
            Some(ours) => !agree(ours, theirs),
            None => !theirs.allows_absence() && !may_be_undefined(&theirs.key),
        })
    }
}

fn agree(ours: &Requirement, theirs: &Requirement) -> bool {
    ours.intersects(theirs) || (ours.allows_absence() && theirs.allows_absence())
}

impl FromIterator<Requirement> for Requirements {
    /// Sorts first, so that the map is built in one pass: catalogues hold tens of thousands of
    /// these.
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut all: Vec<Requirement> = requirements.into_iter().collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.dedup_by(|later, earlier| {
            let same = later.key == earlier.key;
            if same {
                *earlier = earlier.intersection(later);
            }
            same
        });
        Self(all.into_iter().map(|requirement| (requirement.key.clone(), requirement)).collect())
    }
}

/// Whether the node with `labels` satisfies `requirement` by the rules of kube-scheduler: `NotIn`
/// and `DoesNotExist` accept an absent label, all other operators require an allowed value.
#[must_use]
pub fn label_satisfies(labels: &Labels, requirement: &Requirement) -> bool {
    match labels.get(requirement.key()) {
        Some(value) => requirement.has(value),
        None => requirement.allows_absence(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(operator: Operator, values: &[&str]) -> Requirement {
        Requirement::new("k", operator, values.iter().map(|v| Text::from(*v)))
    }

    fn set(requirements: &[Requirement]) -> Requirements {
        requirements.iter().cloned().collect()
    }

    #[test]
    fn bounds_are_shown_with_the_operators_that_manifests_use() {
        // Above 2 is 3 or more, and below 9 is 8 or less.
        assert_eq!(make(Operator::Gt, &["2"]).to_string(), "k Gt 2");
        assert_eq!(make(Operator::Gte, &["3"]).to_string(), "k Gt 2");
        assert_eq!(make(Operator::Gt, &["3"]).intersection(&make(Operator::Lt, &["9"])).to_string(), "k Gt 3, Lt 9");
        assert_eq!(make(Operator::Gte, &["0"]).to_string(), "k Gte 0");
    }

    #[test]
    fn bounds_intersect_as_integers() {
        let four = make(Operator::Gt, &["3"]).intersection(&make(Operator::Lt, &["5"]));
        assert!(four.has("4") && !four.has("3") && !four.has("5") && !four.has("x"));
        let none = make(Operator::Gt, &["4"]).intersection(&make(Operator::Lt, &["5"]));
        assert_eq!(none.operator(), Operator::DoesNotExist);
        let seven = make(Operator::In, &["a", "1", "7"]).intersection(&make(Operator::Gte, &["5"]));
        assert_eq!(seven, make(Operator::In, &["7"]));
        assert_eq!(make(Operator::Gt, &["9223372036854775807"]).operator(), Operator::DoesNotExist);
    }

    #[test]
    fn infinite_sets_intersect_unless_every_integer_between_is_excluded() {
        let between = make(Operator::Gte, &["1"]).intersection(&make(Operator::Lte, &["2"]));
        assert!(!between.intersects(&make(Operator::NotIn, &["1", "2"])));
        assert!(between.intersects(&make(Operator::NotIn, &["1"])));
        assert!(make(Operator::NotIn, &["a"]).intersects(&make(Operator::NotIn, &["a", "b"])));
    }

    #[test]
    fn absence_satisfies_only_negative_operators() {
        let labels = Labels::new();
        assert!(label_satisfies(&labels, &make(Operator::NotIn, &["x"])));
        assert!(label_satisfies(&labels, &make(Operator::DoesNotExist, &[])));
        for refused in [make(Operator::Exists, &[]), make(Operator::In, &["x"]), make(Operator::Gt, &["1"])] {
            assert!(!label_satisfies(&labels, &refused), "{refused}");
        }
    }

    #[test]
    fn undefined_keys_are_compatible_only_where_allowed() {
        let empty = Requirements::new();
        let wants = |operator, values: &[&str]| set(&[make(operator, values)]);
        assert!(empty.first_incompatible(&wants(Operator::In, &["x"]), |_| false).is_some());
        assert!(empty.first_incompatible(&wants(Operator::In, &["x"]), |_| true).is_none());
        assert!(empty.first_incompatible(&wants(Operator::Exists, &[]), |_| false).is_some());
        assert!(empty.first_incompatible(&wants(Operator::NotIn, &["x"]), |_| false).is_none());
        assert!(empty.first_incompatible(&wants(Operator::DoesNotExist, &[]), |_| false).is_none());
    }

    #[test]
    fn does_not_exist_agrees_with_not_in_and_not_with_in() {
        let absent = set(&[make(Operator::DoesNotExist, &[])]);
        assert!(absent.first_conflict(&set(&[make(Operator::In, &["x"])])).is_some());
        assert!(absent.first_conflict(&set(&[make(Operator::NotIn, &["x"])])).is_none());
    }

    #[test]
    fn presence_survives_an_intersection() {
        let present = make(Operator::Exists, &[]).intersection(&make(Operator::NotIn, &["x"]));
        assert!(!present.allows_absence() && present.has("y") && !present.has("x"));
        let never = make(Operator::In, &["a"]).intersection(&make(Operator::In, &["b"]));
        assert!(never.is_impossible());
        assert!(!make(Operator::DoesNotExist, &[]).is_impossible());
    }

    #[test]
    fn aliases_are_canonical() {
        let alias = Requirement::new("beta.kubernetes.io/arch", Operator::In, [Text::from("amd64")]);
        assert_eq!(alias.key().as_ref(), "kubernetes.io/arch");
    }

    #[test]
    fn the_representative_is_the_least_allowed_value() {
        assert_eq!(make(Operator::Exists, &[]).representative().as_deref(), Some("0"));
        assert_eq!(make(Operator::NotIn, &["0", "1"]).representative().as_deref(), Some("2"));
        assert_eq!(make(Operator::Gte, &["7"]).representative().as_deref(), Some("7"));
        assert_eq!(make(Operator::In, &["b", "a"]).representative().as_deref(), Some("a"));
        assert_eq!(make(Operator::DoesNotExist, &[]).representative(), None);
    }
}
