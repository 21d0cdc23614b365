//! Taints and tolerations.

use super::Text;

/// Key of the taint of a Node that is drained (Karpenter: disrupted).
pub const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// New pods are not scheduled, running pods are evicted.
    NoExecute,
}

impl Effect {
    /// The name in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node or NodePool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key, never empty.
    pub key: Text,
    /// Value; empty if the taint has none.
    pub value: Text,
    /// Effect on pods without a toleration.
    pub effect: Effect,
}

impl Taint {
    /// The taint of a Node that is drained.
    #[must_use]
    pub fn of_drain() -> Self {
        Self { key: Text::from(DISRUPTED), value: Text::default(), effect: Effect::NoSchedule }
    }
}

/// How a toleration compares values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// Values are equal (the default).
    Equal,
    /// Any value; with an empty key, any taint.
    Exists,
    /// The taint's value is an integer less than the toleration's.
    Lt,
    /// The taint's value is an integer greater than the toleration's.
    Gt,
}

/// A pod's toleration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// Key; empty with `Exists` tolerates every key.
    pub key: Text,
    /// How values are compared.
    pub operator: TolerationOperator,
    /// Value for `Equal`, `Lt` and `Gt`.
    pub value: Text,
    /// Effect; `None` tolerates every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration covers `taint` (Kubernetes `ToleratesTaint`).
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
            TolerationOperator::Lt => self.compare(taint).is_some_and(|(taint, own)| taint < own),
            TolerationOperator::Gt => self.compare(taint).is_some_and(|(taint, own)| taint > own),
        }
    }

    fn compare(&self, taint: &Taint) -> Option<(i64, i64)> {
        Some((taint.value.parse().ok()?, self.value.parse().ok()?))
    }
}

/// The first of `taints` that excludes a pod with `tolerations`. `PreferNoSchedule` never excludes.
#[must_use]
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().find(|taint| taint.effect != Effect::PreferNoSchedule && !tolerated(taint, tolerations))
}

/// Whether some `PreferNoSchedule` taint is not tolerated.
#[must_use]
pub fn has_untolerated_soft_taint(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule && !tolerated(taint, tolerations))
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}
