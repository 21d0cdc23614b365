//! NodePool.

use model::labels::{NODECLASS, NODEPOOL};
use model::offering::SharedCatalogue;
use model::resources::NODES;
use model::{
    Labels, Millis, NodePool, NotReady, OptInRules, PoolName, Requirement, Requirements, Resources, Taint, Text,
};

use super::conditions::{Conditions, Status};
use super::disruption::Disruption;
use super::duration::{self, Lifetime};
use super::labels::{is_refused, is_restricted, key_problem};
use super::requirements::{self, Owner};
use super::{NodeClassManifest, opt_in, taints};
use crate::Cursor;
use crate::fields::nearest_step;
use crate::syntax::is_label_value;

/// A NodePool of the input. [`NodePoolManifest::into_pool`] converts it to the pool of `model` when
/// its class is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePoolManifest {
    /// `metadata.name`.
    pub name: PoolName,
    /// `spec.template.spec.nodeClassRef`.
    pub class: ClassReference,
    /// `spec.weight`, 0 when absent.
    pub weight: i32,
    /// `spec.template.metadata.labels`.
    pub labels: Labels,
    /// `spec.template.metadata.annotations`.
    pub template_annotations: Labels,
    /// `spec.template.spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.template.spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// Requirements of the template, merged with its labels and with the labels of pool and class.
    pub requirements: Requirements,
    /// `spec.limits`.
    pub limits: Resources,
    /// `spec.replicas`.
    pub replicas: Option<i64>,
    /// The reason why it is excluded from planning; does not consider its class.
    pub not_ready: Option<NotReady>,
    /// `NodeRegistrationHealthy` is False.
    pub unhealthy: bool,
    /// The annotations `fleetwright.dev/…`.
    pub rules: OptInRules,
    /// The annotation `fleetwright.dev/managed`, if `true` or `false`.
    pub managed: Option<bool>,
    /// `spec.disruption`.
    pub disruption: Disruption,
    /// `expireAfter`.
    pub expire_after: Lifetime,
    /// `terminationGracePeriod`.
    pub termination_grace_period: Option<Millis>,
    /// The annotations `karpenter.sh/nodepool-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
}

/// `nodeClassRef`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassReference {
    /// `nodeClassRef.group`.
    pub group: Text,
    /// `nodeClassRef.kind`.
    pub kind: Text,
    /// `nodeClassRef.name`.
    pub name: Text,
}

impl ClassReference {
    /// Whether it names an EC2NodeClass, the only supported kind.
    #[must_use]
    pub fn is_ec2(&self) -> bool {
        self.group.as_ref() == OUR_GROUP
    }

    /// Parses the object at `at`, which is required with all its fields.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let at = at.clone().required();
        if !at.exists() {
            return None;
        }
        let (group_at, kind, name) = (at.at("group"), at.at("kind"), at.at("name"));
        let (group, kind, name) = (group_at.required_str(), kind.required_str(), name.required_str());
        if group?.contains('/') {
            return group_at.unexpected(group?, "an API group without version, such as karpenter.k8s.aws");
        }
        if group? == OUR_GROUP && kind? != OUR_KIND {
            return at.at("kind").unexpected(kind?, OUR_KIND);
        }
        Some(Self { group: group?.into(), kind: kind?.into(), name: name?.into() })
    }
}

/// The API group of EC2NodeClass.
const OUR_GROUP: &str = "karpenter.k8s.aws";
/// The only supported kind of that group.
const OUR_KIND: &str = "EC2NodeClass";

/// The annotation that marks NodePools as managed by Fleetwright; the value `false` excludes them.
const MANAGED: &str = "fleetwright.dev/managed";

/// Maximum number of labels of a template.
const MOST_LABELS: usize = 100;

impl NodePoolManifest {
    /// Parses the NodePool at `at`. A violation of the schema is reported; notes are added to
    /// `notes`. `None` without a name or a valid class reference.
    #[must_use]
    pub fn read(at: &Cursor<'_>, notes: &mut Vec<String>) -> Option<Self> {
        let (metadata, spec, status) = (at.at("metadata"), at.at("spec").required(), at.at("status"));
        let name = PoolName::from(metadata.at("name").required_str()?);
        let object = format!("NodePool/{name}");
        let template = spec.at("template").required();
        let inner = template.at("spec").required();
        let annotations = metadata.at("annotations");
        let rules = opt_in::read(&annotations, &object, notes);
        opt_in::note_misplaced(&template.at("metadata").at("annotations"), &object, notes);
        let class = if inner.exists() { ClassReference::read(&inner.at("nodeClassRef")) } else { None };
        let labels = read_labels(&template.at("metadata").at("labels"));
        let listed = requirements::read(&inner.at("requirements"), Owner::NodePool);
        let (taints, startup_taints) = (taints::read(&inner.at("taints")), taints::read(&inner.at("startupTaints")));
        let invalid = listed.invalid.or_else(|| double_taint(&taints, &startup_taints));
        let conditions = Conditions::read(&status.at("conditions"));
        let deleting = metadata.at("deletionTimestamp").exists();
        let (weight, limits, replicas) = read_size(&spec);
        let disruption = Disruption::read(&spec.at("disruption"), &annotations);
        let expire_after = duration::read_lifetime(&inner.at("expireAfter")).unwrap_or(duration::DEFAULT_EXPIRY);
        let termination_grace_period = duration::read(&inner.at("terminationGracePeriod"));
        // All fields are parsed before this return, so that one run reports all errors.
        let class = class?;
        let requirements = merge(listed.requirements, &labels, &name, &class.name);
        Some(Self {
            not_ready: not_ready(deleting, invalid, &conditions),
            unhealthy: conditions.get("NodeRegistrationHealthy").is_some_and(|c| c.status == Status::False),
            hash: hash_of(&annotations),
            managed: annotations.at(MANAGED).str().and_then(|value| value.parse().ok()),
            template_annotations: template.at("metadata").at("annotations").string_map(),
            disruption,
            expire_after,
            termination_grace_period,
            name,
            class,
            weight,
            labels,
            taints,
            startup_taints,
            requirements,
            limits,
            replicas,
            rules,
        })
    }

    /// Converts to the pool of `model`. `classes` are those of the input; `catalogue` has the
    /// instance types of the class that the pool names.
    #[must_use]
    pub fn into_pool(self, classes: &[NodeClassManifest], catalogue: SharedCatalogue) -> NodePool {
        let class_not_ready = match classes.iter().find(|class| class.name == self.class.name) {
            None if self.class.is_ec2() => Some(NotReady::NodeClass(missing_class(&self.class.name, classes).into())),
            // A custom catalogue may contain instances of any cloud.
            None => None,
            Some(class) => class.not_ready.clone().map(NotReady::NodeClass),
        };
        NodePool {
            not_ready: self.not_ready.or(class_not_ready),
            name: self.name,
            node_class: self.class.name,
            weight: self.weight,
            labels: self.labels,
            taints: self.taints,
            startup_taints: self.startup_taints,
            requirements: self.requirements,
            limits: self.limits,
            replicas: self.replicas,
            unhealthy: self.unhealthy,
            catalogue,
            rules: self.rules,
        }
    }
}

/// The reason of a pool that names a class which is not among `classes`.
fn missing_class(name: &str, classes: &[NodeClassManifest]) -> String {
    let known: Vec<&str> = classes.iter().map(|class| class.name.as_ref()).collect();
    let hint = match nearest_step(name, &known) {
        Some(near) => format!("; did you mean {near}?"),
        None if known.is_empty() => " in the input; add it".to_owned(),
        None => format!("; the input has {}", known.join(", ")),
    };
    format!("there is no EC2NodeClass {name}{hint}")
}

/// Parses `weight`, `limits` and `replicas`, and reports invalid combinations (Karpenter: static
/// capacity).
fn read_size(spec: &Cursor<'_>) -> (i32, Resources, Option<i64>) {
    let weight = spec.at("weight").int_within(1, 100);
    let limits = spec.at("limits").resources();
    let replicas = spec.at("replicas").int_within(0, i64::MAX);
    if replicas.is_some() {
        if weight.is_some() {
            spec.at("weight").error("weight is not allowed beside replicas");
        }
        for (name, _) in limits.iter().filter(|(name, _)| name.as_ref() != NODES) {
            spec.at("limits").error(format!("found {name:?}, allowed beside replicas: nodes"));
        }
    }
    (weight.and_then(|weight| i32::try_from(weight).ok()).unwrap_or(0), limits, replicas)
}

/// The hash of a pool's template and the version of the hash function, from the annotations at
/// `at`. Hashes of different versions are not comparable.
pub(super) fn hash_of(at: &Cursor<'_>) -> Option<(Text, Text)> {
    Some((at.at("karpenter.sh/nodepool-hash").text()?, at.at("karpenter.sh/nodepool-hash-version").text()?))
}

fn read_labels(at: &Cursor<'_>) -> Labels {
    let entries = at.map();
    if entries.len() > MOST_LABELS {
        at.error(format!("{} labels, allowed: at most {MOST_LABELS}", entries.len()));
    }
    for (key, value) in entries.iter().take(MOST_LABELS) {
        let refused = is_restricted(key) || is_refused(key) || *key == NODEPOOL;
        if refused {
            value.error("this label is Karpenter's own and may not be set; remove it");
        } else if let Some(problem) = key_problem(key) {
            value.error(format!("not a label key; {problem}"));
        }
        if let Some(text) = value.raw().and_then(serde_json::Value::as_str).filter(|text| !is_label_value(text)) {
            value.error(format!("found {text:?}, allowed: up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"));
        }
    }
    at.string_map()
}

fn merge(listed: Vec<Requirement>, labels: &Labels, pool: &PoolName, class: &Text) -> Requirements {
    let own =
        [(NODEPOOL, pool.as_text()), (NODECLASS, class)].map(|(key, value)| Requirement::equals(key, value.clone()));
    let labels = labels.iter().map(|(key, value)| Requirement::equals(key, value.clone()));
    listed.into_iter().chain(labels).chain(own).collect()
}

fn double_taint(taints: &[Taint], startup_taints: &[Taint]) -> Option<String> {
    let taint = taints::first_double(taints, startup_taints)?;
    Some(format!("taint {}:{} occurs twice in taints and startupTaints", taint.key, taint.effect.as_str()))
}

/// The reason why the pool is excluded from planning. An absent status counts as ready.
fn not_ready(deleting: bool, invalid: Option<String>, conditions: &Conditions) -> Option<NotReady> {
    if deleting {
        return Some(NotReady::NodePool("it is being deleted".into()));
    }
    let own = invalid.or_else(|| conditions.failure("ValidationSucceeded"));
    if let Some(text) = own {
        return Some(NotReady::NodePool(text.into()));
    }
    if let Some(text) = conditions.failure("NodeClassReady") {
        return Some(NotReady::NodeClass(text.into()));
    }
    conditions.failure("Ready").map(|text| NotReady::NodePool(text.into()))
}
