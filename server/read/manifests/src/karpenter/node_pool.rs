//! NodePool.

use model::labels::{NODECLASS, NODEPOOL};
use model::offering::SharedCatalogue;
use model::resources::NODES;
use model::{
    DisruptionPolicy, Labels, NodePool, NotReady, OptInRules, PoolName, Requirement, Requirements, Resources, Taint,
    Text,
};
use serde_json::json;

use super::conditions::{self, Conditions, Status};
use super::disruption;
use super::duration;
use super::labels::{RESTRICTED_DOMAINS, domain_refusal, is_refused, is_restricted, key_problem, outside};
use super::requirements::{self, Owner};
use super::{NodeClassManifest, opt_in, taints};
use crate::Cursor;
use crate::edit_distance::nearest_step;
use crate::schema::definition::{Column, Definition, READY};
use crate::schema::part::{Part, fields, integer, map, object, resources, text};
use crate::syntax::is_label_value;

/// A NodePool of the input. [`NodePoolManifest::into_pool`] converts it to the pool of `model` when
/// its class is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePoolManifest {
    pub name: PoolName,
    /// `spec.template.spec.nodeClassRef`.
    pub class: ClassReference,
    /// `spec.weight`, 0 when absent.
    pub weight: i32,
    pub labels: Labels,
    /// `spec.template.metadata.annotations`.
    pub template_annotations: Labels,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    /// Requirements of the template, merged with its labels and with the labels of pool and class.
    pub requirements: Requirements,
    pub limits: Resources,
    pub replicas: Option<i64>,
    /// The reason why it is excluded from planning; does not consider its class.
    pub not_ready: Option<NotReady>,
    /// `NodeRegistrationHealthy` is False.
    pub unhealthy: bool,
    /// The annotations `fleetwright.dev/…`.
    pub rules: OptInRules,
    /// The annotation `fleetwright.dev/managed`, if `true` or `false`.
    pub managed: Option<bool>,
    /// `spec.disruption`, and `expireAfter` and `terminationGracePeriod` of the template.
    pub disruption: DisruptionPolicy,
    /// The annotations `karpenter.sh/nodepool-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
}

/// `nodeClassRef`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassReference {
    pub group: Text,
    pub kind: Text,
    pub name: Text,
}

impl ClassReference {
    /// Whether it names an EC2NodeClass, the only supported kind.
    #[must_use]
    pub fn is_ec2(&self) -> bool {
        self.group.as_ref() == OUR_GROUP
    }

    /// The schema of `nodeClassRef`; its fields may not be empty.
    pub(super) fn schema() -> Part {
        let filled = |name: &str| text().rule("self != ''", format!("{name} of the class is missing: write it"));
        object(fields! {
            /// API group of the class.
            /// Allowed: not empty, without a slash
            /// Example: karpenter.k8s.aws
            "group": filled("the API group").pattern("^[^/]*$"),
            /// Kind of the class.
            /// Allowed: not empty
            /// Example: EC2NodeClass
            "kind": filled("the kind"),
            /// Name of the class.
            /// Allowed: not empty
            /// Example: default
            "name": filled("the name"),
        })
        .required(&["group", "kind", "name"])
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

/// The CustomResourceDefinition of NodePool (`karpenter.sh/v1`).
pub(crate) fn definition() -> Definition {
    Definition {
        kind: "NodePool",
        meaning: "Which nodes may be launched for which pods: their instance types, their number, and when they may be removed.",
        group: "karpenter.sh",
        version: "v1",
        short_names: &[],
        aliases: &["np", "nodepools"],
        columns: vec![
            Column::text("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            Column::text("Nodes", ".status.nodes"),
            READY,
            Column::AGE,
            Column::integer("Weight", ".spec.weight").wide(),
            Column::text("CPU", ".status.resources.cpu").wide(),
            Column::text("Memory", ".status.resources.memory").wide(),
        ],
        scale: Some((".spec.replicas", ".status.nodes")),
        fields: fields! {
            /// Name, labels and annotations. A NodePool belongs to the whole cluster and has no namespace.
            "metadata": metadata_schema(),
            /// Desired state of the pool.
            "spec": spec_schema(),
            /// What the controller reports; never written by hand.
            "status": status_schema(),
        },
        spec_required: true,
    }
}

fn metadata_schema() -> Part {
    object(fields! {
        /// The pool's name; nodes carry it in the label karpenter.sh/nodepool.
        /// Allowed: DNS subdomain name
        /// Example: general
        "name": text(),
        /// Labels of the pool itself. They are not put on nodes; see spec.template.metadata.labels.
        /// Example: {team: web}
        "labels": map(text()),
        /// Annotations of the pool itself. Those under fleetwright.dev/ switch rules on; they touch no node and are
        /// no drift.
        /// Example: {fleetwright.dev/zone-balance: "true"}
        "annotations": map(text()).with_fields(opt_in::annotations()),
    })
}

fn spec_schema() -> Part {
    object(fields! {
        /// The blueprint of the NodeClaims that the pool creates. Required. Changing it makes existing nodes drift,
        /// requirements apart.
        "template": template_schema(),
        /// When nodes may be removed or replaced of the system's own accord.
        "disruption": disruption::schema(),
        /// Upper bounds over the capacity of all nodes of the pool.
        /// Default: no bound
        /// Allowed: any resource; nodes counts machines
        /// Example: {cpu: "1000", memory: 4Ti, nodes: "50"}
        "limits": resources(),
        /// Pools with a higher weight are tried first.
        /// Default: 0
        /// Example: 10
        "weight": integer("int32").between(1, 100),
        /// A fixed number of nodes, kept whether pods need them or not. Such a pool is not used for pending pods.
        /// Allowed: 0 or more; cannot be added or removed later; only limits.nodes beside it, no weight
        /// Example: 3
        "replicas": integer("int64").at_least(0),
    })
    .required(&["template"])
    .rule(
        "has(self.replicas) == has(oldSelf.replicas)",
        "replicas cannot be added to a pool or taken away; create another pool",
    )
    .rule(
        "!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == 'nodes')",
        "beside replicas the only limit is nodes",
    )
    .rule("!has(self.replicas) || !has(self.weight)", "weight is not allowed beside replicas")
}

fn template_schema() -> Part {
    let metadata = object(fields! {
        /// Labels put on every node of the pool. Pods can select them.
        /// Allowed: at most 100; keys of karpenter.sh and karpenter.k8s.aws only where well known; not
        /// karpenter.sh/nodepool, not kubernetes.io/hostname
        /// Example: {tier: batch}
        "labels": labels_schema(),
        /// Annotations put on every NodeClaim and node of the pool.
        /// Example: {example.com/owner: data}
        "annotations": map(text()).map_type("granular"),
    });
    object(fields! {
        /// Labels and annotations of the nodes.
        "metadata": metadata,
        /// The NodeClaim's own fields.
        "spec": claim_schema(),
    })
    .required(&["spec"])
}

fn labels_schema() -> Part {
    const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
    let mut labels = map(text().max_length(63).pattern(LABEL_VALUE)).max_entries(MOST_LABELS).map_type("atomic");
    for domain in RESTRICTED_DOMAINS {
        labels = labels.rule(format!("self.all(x, {})", outside("x", domain)), domain_refusal(domain));
    }
    labels
        .rule("!('karpenter.sh/nodepool' in self)", "karpenter.sh/nodepool is set by the pool itself; remove it")
        .rule("!('kubernetes.io/hostname' in self)", "kubernetes.io/hostname is different on every node; remove it")
}

/// The schema of `spec.template.spec`.
fn claim_schema() -> Part {
    let startup_taints = taints::schema()
        .field_documented("key", &["Allowed: a qualified name", "Example: node.cilium.io/agent-not-ready"])
        .field_documented(
            "effect",
            &["What happens to pods that do not tolerate the taint while it is there.", "Example: NoExecute"],
        );
    let class = ClassReference::schema()
        .rule("self.group == oldSelf.group", "nodeClassRef.group is immutable; create another pool")
        .rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable; create another pool")
        .field_documented("group", &["Allowed: not empty, without a slash; cannot be changed"])
        .field_documented("kind", &["Allowed: not empty; cannot be changed"]);
    object(fields! {
        /// What the machines must be: conditions on node labels, all of which hold. At most 100. Required, if only as
        /// an empty list.
        "requirements": requirements::schema(Owner::NodePool),
        /// Taints of the node. Only pods that tolerate them run there.
        "taints": taints::schema(),
        /// Taints that a new node has until another component removes them, such as a network plugin. Pods need not
        /// tolerate them to be planned.
        "startupTaints": startup_taints,
        /// The class with the images, subnets and disks of the nodes. Required.
        "nodeClassRef": class,
        /// How long a node may drain before its remaining pods are deleted, regardless of budgets and do-not-disrupt
        /// annotations.
        /// Default: no bound
        /// Example: 30m
        "terminationGracePeriod": duration::schema(),
        /// The age at which a node is removed, forcefully: disruption budgets do not hold it.
        /// Example: 336h
        "expireAfter": duration::expiry_schema(),
    })
    .required(&["nodeClassRef", "requirements"])
}

fn status_schema() -> Part {
    object(fields! {
        /// Capacity of all nodes of the pool, compared with spec.limits.
        "resources": resources(),
        /// Number of nodes.
        "nodes": integer("int64").default_value(json!(0)),
        /// The class's generation that the pool's health was judged under.
        "nodeClassObservedGeneration": integer("int64"),
        /// ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy, Ready. A pool whose Ready is not True takes
        /// no part in planning; without status it counts as ready.
        "conditions": conditions::schema(false).keyed("type"),
    })
}

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
        let disruption = DisruptionPolicy {
            expire_after: duration::read_expiry(&inner.at("expireAfter")),
            termination_grace_period: duration::read(&inner.at("terminationGracePeriod")),
            ..disruption::read(&spec.at("disruption"), &annotations)
        };
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
