//! Pod specs: the fields that scheduling uses, checked and defaulted as an API server would.
//!
//! Reading order: [`PodSpec`] here, then one module per subject: [`resources`], [`ports`],
//! [`node_affinity`], [`pod_affinity`], [`spread`], [`tolerations`], [`runtime_class`], [`volumes`].

pub mod node_affinity;
pub mod pod_affinity;
pub mod ports;
pub mod resources;
pub mod runtime_class;
pub mod spread;
pub mod tolerations;
pub mod volumes;

use std::collections::BTreeSet;

use model::labels::{INITIALIZED, REGISTERED, ZONE, canonical_key};
use model::{LabelSelector, Labels, NodeName, PodShape, Resources, SelectorOperator, Text, Zone};

use self::pod_affinity::KeyedTerm;
use self::runtime_class::RuntimeClass;
use self::spread::KeyedSpread;
use self::volumes::PodVolume;
use crate::{Cursor, selector, syntax};

pub use model::schedulers::DEFAULT_SCHEDULER;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodSpec {
    /// Everything that does not depend on the pod's labels or on PriorityClasses.
    base: PodShape,
    affinity: Vec<KeyedTerm>,
    spread: Vec<KeyedSpread>,
    /// `priority`; `None` when absent.
    pub priority: Option<i32>,
    /// `priorityClassName`; `None` when absent.
    pub priority_class: Option<Text>,
    /// `schedulerName`.
    pub scheduler: Text,
    /// Whether the pod has scheduling gates.
    pub gated: bool,
    pub node_name: Option<NodeName>,
    /// Volumes that constrain where the pod can run.
    pub volumes: Vec<PodVolume>,
    /// `runtimeClassName`.
    pub runtime_class: Option<Text>,
    /// Whether the specification states `overhead`, so that its RuntimeClass adds none.
    has_overhead: bool,
    /// Why the pod cannot be scheduled although an API server accepts it.
    pub invalid: Option<Text>,
}

impl PodSpec {
    /// Reads the specification at `at`.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Self {
        Self::read_beside(at, None)
    }

    /// Reads the specification at `at` of a pod whose status is `status`.
    #[must_use]
    pub fn read_beside(at: &Cursor<'_>, status: Option<&Cursor<'_>>) -> Self {
        Self::read_admitted(at, status, &Resources::new())
    }

    /// Reads the specification at `at` of pods to be created. Containers that state nothing for a resource request
    /// what `defaults` have of it.
    #[must_use]
    pub fn read_template(at: &Cursor<'_>, defaults: &Resources) -> Self {
        Self::read_admitted(at, None, defaults)
    }

    fn read_admitted(at: &Cursor<'_>, status: Option<&Cursor<'_>>, defaults: &Resources) -> Self {
        let at = at.clone().required();
        check_containers(&at);
        let affinity = at.at("affinity");
        let host_network = at.at("hostNetwork").bool().unwrap_or(false);
        let base = PodShape {
            requests: resources::effective(&at, status, defaults),
            node_selector: syntax::labels(&at.at("nodeSelector")),
            node_affinity: node_affinity::required(&affinity.at("nodeAffinity")),
            preferred_node_affinity: node_affinity::preferred(&affinity.at("nodeAffinity")),
            tolerations: tolerations::read(&at.at("tolerations")),
            host_ports: ports::read(&at, host_network),
            ..PodShape::default()
        };
        let base = canonical_selector(base);
        Self {
            invalid: invalid(&at).or_else(|| lifecycle_label(&base)),
            base,
            affinity: pod_affinity::read(&affinity),
            spread: spread::read(&at.at("topologySpreadConstraints")),
            priority: at.at("priority").int().and_then(|number| i32::try_from(number).ok()),
            priority_class: at.at("priorityClassName").text().filter(|name| !name.is_empty()),
            scheduler: scheduler(&at),
            gated: !at.at("schedulingGates").list().is_empty(),
            node_name: at.at("nodeName").text().filter(|name| !name.is_empty()).map(NodeName::from),
            volumes: volumes::read(&at.at("volumes")),
            runtime_class: at.at("runtimeClassName").text().filter(|name| !name.is_empty()),
            has_overhead: at.at("overhead").exists(),
        }
    }

    /// The shape of a pod with these labels and this priority.
    #[must_use]
    pub fn shape(&self, labels: &Labels, priority: i32) -> PodShape {
        let mut shape = PodShape { priority, ..self.base.clone() };
        for keyed in &self.affinity {
            keyed.add_to(&mut shape, labels);
        }
        shape.spread = self.spread.iter().map(|keyed| keyed.merged(labels)).collect();
        shape
    }

    /// Whether [`shape`](Self::shape) differs between pods with different labels.
    #[must_use]
    pub fn depends_on_labels(&self) -> bool {
        let by_affinity = |term: &KeyedTerm| !term.match_keys.is_empty() || !term.mismatch_keys.is_empty();
        self.affinity.iter().any(by_affinity) || self.spread.iter().any(KeyedSpread::depends_on_labels)
    }

    #[must_use]
    pub fn zones(&self) -> Vec<Zone> {
        let terms = self.base.node_affinity.iter().flat_map(|term| &term.expressions);
        let listed = terms.filter(|expression| expression.key().as_ref() == ZONE);
        let listed = listed.filter_map(|expression| expression.finite_values()).flatten();
        self.base.node_selector.get(ZONE).into_iter().chain(listed).map(Zone::from).collect()
    }

    /// The same without node affinity. The DaemonSet controller sets a node affinity with the
    /// node's name on each pod; without it all running pods of a DaemonSet share one shape.
    #[must_use]
    pub fn unpinned(&self) -> Self {
        let base = PodShape { node_affinity: Vec::new(), ..self.base.clone() };
        Self { base, ..self.clone() }
    }

    /// Whether the pod declares topology spread constraints.
    #[must_use]
    pub fn declares_spread(&self) -> bool {
        !self.spread.is_empty()
    }

    /// The same, spread by `constraints` over the pods that `selector` selects.
    #[must_use]
    pub fn spread_by(&self, constraints: &[KeyedSpread], selector: &LabelSelector) -> Self {
        let spread = constraints.iter().map(|constraint| constraint.selecting(selector)).collect();
        Self { spread, ..self.clone() }
    }

    pub fn tolerate(&mut self, tolerations: impl IntoIterator<Item = model::Toleration>) {
        for toleration in tolerations {
            if !self.base.tolerations.contains(&toleration) {
                self.base.tolerations.push(toleration);
            }
        }
    }

    /// Adds what `class` requires, as admission does when the pod is created.
    pub(crate) fn run_by(&mut self, class: &RuntimeClass) {
        if !self.has_overhead {
            self.base.requests.add(&class.overhead);
        }
        for (key, value) in &class.node_selector {
            let key = Text::from(canonical_key(key));
            let own = self.base.node_selector.entry(key.clone()).or_insert_with(|| value.clone());
            if own != value {
                let reason = format!(
                    "its nodeSelector requires {key}={own} and RuntimeClass/{} requires {key}={value}, so the API \
                     server refuses the pod",
                    class.name
                );
                self.invalid.get_or_insert_with(|| reason.into());
            }
        }
        self.tolerate(class.tolerations.iter().cloned());
    }

    /// `spec.tolerations`.
    #[must_use]
    pub fn tolerations(&self) -> &[model::Toleration] {
        &self.base.tolerations
    }
}

/// Rewrites the keys of the node selector to their canonical form, as the keys of nodes are. If two
/// forms of one key have different values, the second is kept as an expression, so that no node
/// matches.
fn canonical_selector(mut shape: PodShape) -> PodShape {
    use model::{NodeSelectorTerm, Requirement};
    let mut extra = Vec::new();
    for (key, value) in std::mem::take(&mut shape.node_selector) {
        let canonical = Text::from(canonical_key(&key));
        match shape.node_selector.get(&canonical) {
            Some(present) if *present != value => extra.push(Requirement::equals(&canonical, value)),
            _ => {
                shape.node_selector.insert(canonical, value);
            }
        }
    }
    if !extra.is_empty() && shape.node_affinity.is_empty() {
        shape.node_affinity.push(NodeSelectorTerm { expressions: extra, names: Vec::new() });
    } else {
        shape.node_affinity.iter_mut().for_each(|term| term.expressions.extend(extra.iter().cloned()));
    }
    shape
}

fn scheduler(at: &Cursor<'_>) -> Text {
    at.at("schedulerName").text().filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_SCHEDULER.into())
}

/// Reports containers without a name, invalid names and duplicates.
fn check_containers(at: &Cursor<'_>) {
    let containers = at.at("containers").required().list();
    if at.at("containers").exists() && containers.is_empty() {
        at.at("containers").error("empty, a pod needs at least one container");
    }
    let mut names = BTreeSet::new();
    for container in containers.iter().chain(&at.at("initContainers").list()) {
        let name_at = container.at("name");
        if let Some(name) = syntax::dns_label(&name_at)
            && !names.insert(name)
        {
            name_at.error(format!("{name:?} occurs twice; names of containers differ"));
        }
    }
}

/// The reason why no scheduler can place the pod, although an API server accepts it.
fn invalid(at: &Cursor<'_>) -> Option<Text> {
    let claims = at.at("resourceClaims").list();
    let named = claims.first()?.at("name").str().unwrap_or("?");
    Some(
        format!("the pod needs the resource claim {named:?} (dynamic resource allocation), which is not planned for")
            .into(),
    )
}

/// A label of the life of a node that the pod requires. It is set after the node has joined, so a node for the pod
/// cannot be launched by it (Karpenter: restricted labels in pods).
fn lifecycle_label(base: &PodShape) -> Option<Text> {
    let expressions = base.node_affinity.iter().flat_map(|term| &term.expressions).map(|expression| expression.key());
    let key = base.node_selector.keys().chain(expressions).find(|key| {
        let key: &str = key;
        [REGISTERED, INITIALIZED].contains(&key)
    })?;
    Some(
        format!("the pod requires the label {key}, which nodes get after they have joined: remove it, it is not allowed in pods")
            .into(),
    )
}

impl KeyedTerm {
    fn add_to(&self, shape: &mut PodShape, labels: &Labels) {
        let mut term = self.term.clone();
        selector::merge(&mut term.selector, &self.match_keys, SelectorOperator::In, labels);
        selector::merge(&mut term.selector, &self.mismatch_keys, SelectorOperator::NotIn, labels);
        let weighted = |term| model::Weighted { weight: self.weight.unwrap_or(1), term };
        match (self.anti, self.weight) {
            (false, None) => shape.pod_affinity.push(term),
            (true, None) => shape.pod_anti_affinity.push(term),
            (false, Some(_)) => shape.preferred_pod_affinity.push(weighted(term)),
            (true, Some(_)) => shape.preferred_pod_anti_affinity.push(weighted(term)),
        }
    }
}
