//! Objects of test clusters as YAML.

pub struct PoolText {
    name: String,
    /// `spec.disruption` in flow YAML, without the braces.
    disruption: String,
    /// Further fields of `spec` in flow YAML, each with a comma after it.
    spec: String,
    /// Further fields of `spec.template.spec`, each with a comma after it.
    template: String,
    requirements: String,
    annotations: String,
}

/// The pool `name` without a budget, whose nodes may be consolidated at once. `flex` launches spot machines as well.
pub fn pool(name: &str) -> PoolText {
    let any = "{key: karpenter.sh/capacity-type, operator: Exists}";
    let on_demand = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}";
    PoolText {
        name: name.to_owned(),
        disruption: "consolidateAfter: 0s, budgets: []".to_owned(),
        spec: String::new(),
        template: String::new(),
        requirements: if name == "flex" { any } else { on_demand }.to_owned(),
        annotations: String::new(),
    }
}

impl PoolText {
    pub fn disruption(mut self, fields: &str) -> Self {
        self.disruption = fields.to_owned();
        self
    }

    /// With these budgets, in flow YAML.
    pub fn budgets(self, budgets: &str) -> Self {
        self.disruption(&format!("consolidateAfter: 0s, budgets: [{budgets}]"))
    }

    pub fn spec(mut self, field: &str) -> Self {
        self.spec += &format!("{field}, ");
        self
    }

    pub fn template(mut self, field: &str) -> Self {
        self.template += &format!("{field}, ");
        self
    }

    pub fn requirement(mut self, requirement: &str) -> Self {
        self.requirements += &format!(", {requirement}");
        self
    }

    /// An annotation in flow YAML; none if it is empty.
    pub fn annotation(mut self, annotation: &str) -> Self {
        if !annotation.is_empty() {
            self.annotations += &format!("{annotation}, ");
        }
        self
    }

    pub fn text(&self) -> String {
        let Self { name, disruption, spec, template, requirements, annotations } = self;
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: \
             {{{spec}disruption: {{{disruption}}}, template: {{spec: {{{template}nodeClassRef: {{group: lab.dev, kind: \
             LabClass, name: default}}, requirements: [{requirements}]}}}}}}\n---\n"
        )
    }
}

/// A Node and its NodeClaim, twelve hours old, ready, initialized and consolidatable.
pub struct NodeText {
    name: String,
    machine: String,
    pool: String,
    capacity_type: String,
    zone: String,
    labels: String,
    annotations: String,
    initialized: bool,
    node_metadata: String,
    node_spec: String,
    node_conditions: String,
    claim_metadata: String,
    claim_annotations: String,
    claim_spec: String,
    claim_status: String,
    claim_conditions: String,
    has_node: bool,
}

const READY: &str = "{type: Ready, status: \"True\", lastTransitionTime: 2026-01-01T00:05:00Z}";
const CONSOLIDATABLE: &str = "{type: Consolidatable, status: \"True\", lastTransitionTime: 2026-01-01T11:00:00Z}";

/// An on-demand node of the pool `default` in `lab-a`.
pub fn node(name: &str, machine: &str) -> NodeText {
    let text = String::new;
    NodeText {
        name: name.to_owned(),
        machine: machine.to_owned(),
        pool: "default".to_owned(),
        capacity_type: "on-demand".to_owned(),
        zone: "lab-a".to_owned(),
        labels: text(),
        annotations: text(),
        initialized: true,
        node_metadata: text(),
        node_spec: text(),
        node_conditions: READY.to_owned(),
        claim_metadata: text(),
        claim_annotations: text(),
        claim_spec: text(),
        claim_status: text(),
        claim_conditions: CONSOLIDATABLE.to_owned(),
        has_node: true,
    }
}

impl NodeText {
    pub fn pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }

    pub fn spot(mut self) -> Self {
        self.capacity_type = "spot".to_owned();
        self
    }

    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = zone.to_owned();
        self
    }

    /// A label of Node and NodeClaim.
    pub fn label(mut self, label: &str) -> Self {
        self.labels += &format!(", {label}");
        self
    }

    pub fn annotation(mut self, annotation: &str) -> Self {
        self.annotations += &format!("{annotation}, ");
        self
    }

    /// `karpenter.sh/do-not-disrupt` on the Node.
    pub fn do_not_disrupt(self) -> Self {
        self.annotation("karpenter.sh/do-not-disrupt: \"true\"")
    }

    pub fn not_initialized(mut self) -> Self {
        self.initialized = false;
        self
    }

    pub fn node_metadata(mut self, field: &str) -> Self {
        self.node_metadata += &format!(", {field}");
        self
    }

    pub fn node_spec(mut self, field: &str) -> Self {
        self.node_spec += &format!(", {field}");
        self
    }

    /// These conditions of the Node instead of `Ready`.
    pub fn node_conditions(mut self, conditions: &str) -> Self {
        self.node_conditions = conditions.to_owned();
        self
    }

    /// The condition `Ready` is `status` since `since`.
    pub fn ready(self, status: &str, since: &str) -> Self {
        self.node_conditions(&format!("{{type: Ready, status: \"{status}\", lastTransitionTime: {since}}}"))
    }

    pub fn claim_metadata(mut self, field: &str) -> Self {
        self.claim_metadata += &format!(", {field}");
        self
    }

    pub fn claim_annotations(mut self, annotations: &str) -> Self {
        self.claim_annotations += &format!("{annotations}, ");
        self
    }

    pub fn claim_spec(mut self, field: &str) -> Self {
        self.claim_spec += &format!(", {field}");
        self
    }

    pub fn claim_status(mut self, field: &str) -> Self {
        self.claim_status += &format!(", {field}");
        self
    }

    /// These conditions of the NodeClaim instead of `Consolidatable`.
    pub fn claim_conditions(mut self, conditions: &str) -> Self {
        self.claim_conditions = conditions.to_owned();
        self
    }

    /// The condition `Drifted` since `since`, beside `Consolidatable`.
    pub fn drifted(mut self, since: &str) -> Self {
        self.claim_conditions +=
            &format!(", {{type: Drifted, status: \"True\", reason: AMIDrift, lastTransitionTime: {since}}}");
        self
    }

    /// `expireAfter` of the NodeClaim, which was created at midnight.
    pub fn expires_after(self, duration: &str) -> Self {
        self.claim_spec(&format!("expireAfter: {duration}"))
    }

    /// The NodeClaim alone: its Node has not joined.
    pub fn without_node(mut self) -> Self {
        self.has_node = false;
        self
    }

    pub fn text(&self) -> String {
        let node = if self.has_node { self.node_text() } else { String::new() };
        if self.pool.is_empty() { node } else { node + &self.claim_text() }
    }

    fn common_labels(&self) -> String {
        let Self { machine, capacity_type, zone, labels, pool, .. } = self;
        let of_pool = if pool.is_empty() { String::new() } else { format!(", karpenter.sh/nodepool: {pool}") };
        format!(
            "node.kubernetes.io/instance-type: {machine}, topology.kubernetes.io/zone: {zone}, \
             karpenter.sh/capacity-type: {capacity_type}, kubernetes.io/arch: amd64, kubernetes.io/os: linux{of_pool}{labels}"
        )
    }

    fn resources(&self) -> String {
        let cpu = if self.machine == "box" { 4 } else { 8 };
        format!("{{cpu: {cpu}, memory: {}Gi, pods: 110}}", 4 * cpu)
    }

    fn node_text(&self) -> String {
        let Self { name, annotations, node_metadata, node_spec, node_conditions, .. } = self;
        let stage = match (self.pool.is_empty(), self.initialized) {
            (true, _) => "",
            (false, true) => ", karpenter.sh/registered: \"true\", karpenter.sh/initialized: \"true\"",
            (false, false) => ", karpenter.sh/registered: \"true\"",
        };
        let (labels, resources) = (self.common_labels() + stage, self.resources());
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, creationTimestamp: 2026-01-01T00:00:00Z, labels: \
             {{{labels}}}, annotations: {{{annotations}}}{node_metadata}}}\nspec: {{providerID: \"lab:///{name}\"\
             {node_spec}}}\nstatus: {{allocatable: {resources}, capacity: {resources}, conditions: \
             [{node_conditions}]}}\n---\n"
        )
    }

    fn claim_text(&self) -> String {
        let Self { name, claim_metadata, claim_annotations, claim_spec, claim_status, claim_conditions, .. } = self;
        let (labels, resources) = (self.common_labels(), self.resources());
        let initialized = if self.initialized && self.has_node { "True" } else { "False" };
        let joined = if self.has_node { format!("nodeName: {name}, ") } else { String::new() };
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}, creationTimestamp: \
             2026-01-01T00:00:00Z, labels: {{{labels}}}, annotations: {{{claim_annotations}}}{claim_metadata}}}\nspec: \
             {{nodeClassRef: {{group: lab.dev, kind: LabClass, name: default}}, requirements: []{claim_spec}}}\nstatus: \
             {{{joined}providerID: \"lab:///{name}\", allocatable: {resources}, capacity: {resources}, conditions: \
             [{{type: Launched, status: \"True\"}}, {{type: Initialized, status: \"{initialized}\", lastTransitionTime: \
             2026-01-01T00:05:00Z}}, {claim_conditions}]{claim_status}}}\n---\n"
        )
    }
}

/// A pod of a ReplicaSet that has run since 11:00.
pub struct PodText {
    name: String,
    app: String,
    node: String,
    cpu: String,
    metadata: String,
    annotations: String,
    owner: String,
    spec: String,
    phase: String,
    ready: bool,
    started: bool,
    status: String,
}

/// The pod `app-N`, given as `name`, on `node`, with a request of `cpu`.
pub fn pod(name: &str, node: &str, cpu: &str) -> PodText {
    let app = name.rsplit_once('-').map_or(name, |(app, _)| app);
    PodText {
        name: name.to_owned(),
        app: app.to_owned(),
        node: node.to_owned(),
        cpu: cpu.to_owned(),
        metadata: String::new(),
        annotations: String::new(),
        owner: "ReplicaSet".to_owned(),
        spec: String::new(),
        phase: "Running".to_owned(),
        ready: true,
        started: true,
        status: String::new(),
    }
}

impl PodText {
    pub fn metadata(mut self, field: &str) -> Self {
        self.metadata += &format!(", {field}");
        self
    }

    pub fn annotation(mut self, annotation: &str) -> Self {
        self.annotations += &format!("{annotation}, ");
        self
    }

    pub fn do_not_disrupt(self, value: &str) -> Self {
        self.annotation(&format!("karpenter.sh/do-not-disrupt: \"{value}\""))
    }

    /// The kind of its owner; none if it is empty.
    pub fn owner(mut self, kind: &str) -> Self {
        self.owner = kind.to_owned();
        self
    }

    pub fn spec(mut self, field: &str) -> Self {
        self.spec += &format!(", {field}");
        self
    }

    pub fn phase(mut self, phase: &str) -> Self {
        self.phase = phase.to_owned();
        self
    }

    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    pub fn not_started(mut self) -> Self {
        self.started = false;
        self
    }

    /// It waits, and is nominated for `node` if that is not empty.
    pub fn pending(mut self, nominated: &str) -> Self {
        self.node.clear();
        self.started = false;
        self.ready = false;
        self.phase = "Pending".to_owned();
        if !nominated.is_empty() {
            self.status += &format!(", nominatedNodeName: {nominated}");
        }
        self
    }

    pub fn text(&self) -> String {
        let Self { name, app, cpu, metadata, annotations, spec, phase, status, .. } = self;
        let owner = match self.owner.as_str() {
            "" => String::new(),
            kind => {
                format!(", ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {app}, controller: true}}]")
            }
        };
        let bound = if self.node.is_empty() { String::new() } else { format!("nodeName: {}, ", self.node) };
        let ready = if self.ready { "True" } else { "False" };
        let started = if self.started { ", startTime: 2026-01-01T11:00:00Z" } else { "" };
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: {app}}}, annotations: \
             {{{annotations}}}{owner}{metadata}}}\nspec: {{{bound}containers: [{{name: a, resources: {{requests: {{cpu: \
             \"{cpu}\"}}}}}}]{spec}}}\nstatus: {{phase: {phase}{started}, conditions: [{{type: Ready, status: \
             \"{ready}\"}}]{status}}}\n---\n"
        )
    }
}

/// `n-1`, given as `first` and `pod` on it, and the `box` `n-2` with a pod of three CPUs: one CPU is free.
pub fn two_nodes(first: &NodeText, pod_on_first: &PodText) -> String {
    first.text() + &pod_on_first.text() + &node("n-2", "box").text() + &pod("api-1", "n-2", "3").text()
}

/// A PodDisruptionBudget of the pods of `app` that allows so many evictions now.
pub fn pod_budget(app: &str, allowed: u32) -> String {
    pod_budget_with(app, app, "maxUnavailable: 1", &format!("status: {{disruptionsAllowed: {allowed}}}"))
}

/// The PodDisruptionBudget `name` of the pods of `app`.
pub fn pod_budget_with(name: &str, app: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{selector: \
         {{matchLabels: {{app: {app}}}}}, {spec}}}\n{status}\n---\n"
    )
}
