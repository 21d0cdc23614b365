//! NodePool (`karpenter.sh/v1`).

use serde_json::json;

use super::definition::{Column, Definition, READY};
use super::part::{Part, atomic, integer, list, map, object, one_of, text};
use super::shared::{
    DOMAINS, LABEL_VALUE, bounded, class_reference, conditions, duration, expiry, keyed, lifetime, min_values, outside,
    refused, requirement_key, requirements, resources, taints,
};

pub(super) fn definition() -> Definition {
    Definition {
        kind: "NodePool",
        group: "karpenter.sh",
        version: "v1",
        short_names: &[],
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
        spec: spec(),
        status: status(),
        spec_required: true,
    }
}

fn spec() -> Part {
    object([
        ("disruption", disruption()),
        ("limits", resources()),
        ("replicas", integer("int64").at_least(0)),
        ("template", template()),
        ("weight", integer("int32").between(1, 100)),
    ])
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

fn template() -> Part {
    let metadata = object([("annotations", map(text()).map_type("granular")), ("labels", labels())]);
    object([("metadata", metadata), ("spec", inner())]).required(&["spec"])
}

fn labels() -> Part {
    let mut labels = map(text().max_length(63).pattern(LABEL_VALUE)).max_entries(100).map_type("atomic");
    for domain in DOMAINS {
        labels = labels.rule(format!("self.all(x, {})", outside("x", domain)), refused(domain));
    }
    labels
        .rule("!('karpenter.sh/nodepool' in self)", "karpenter.sh/nodepool is set by the pool itself; remove it")
        .rule("!('kubernetes.io/hostname' in self)", "kubernetes.io/hostname is different on every node; remove it")
}

fn inner() -> Part {
    let key = requirement_key()
        .rule("self != 'karpenter.sh/nodepool'", "karpenter.sh/nodepool cannot be required: it is the pool itself");
    let class = class_reference()
        .rule("self.group == oldSelf.group", "nodeClassRef.group is immutable; create another pool")
        .rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable; create another pool");
    object([
        ("expireAfter", expiry()),
        ("nodeClassRef", class),
        ("requirements", bounded(requirements(key, Some(min_values())))),
        ("startupTaints", taints()),
        ("taints", taints()),
        ("terminationGracePeriod", duration()),
    ])
    .required(&["nodeClassRef", "requirements"])
}

fn disruption() -> Part {
    let policies = one_of(&["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]);
    object([
        ("budgets", budgets()),
        ("consolidateAfter", lifetime().default(json!("0s"))),
        ("consolidationPolicy", policies.default(json!("WhenEmptyOrUnderutilized"))),
    ])
    .default(json!({"consolidateAfter": "0s"}))
}

fn budgets() -> Part {
    const NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
    // Five words, or any text that begins with a macro such as `@daily`. Readers validate the
    // schedule itself.
    const SCHEDULE: &str =
        r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
    let budget = object([
        ("duration", text().pattern("^(([0-9]+(h|m)|[0-9]+h[0-9]+m)(0s)?)$")),
        ("nodes", text().pattern(NODES).default(json!("10%"))),
        ("reasons", list(one_of(&["Underutilized", "Empty", "Drifted", "Unhealthy"])).max_items(50).list_type("set")),
        ("schedule", text().pattern(SCHEDULE)),
    ]);
    atomic(budget.required(&["nodes"])).max_items(50).default(json!([{"nodes": "10%"}])).rule(
        "self.all(x, has(x.schedule) == has(x.duration))",
        "schedule and duration belong together; write both or neither",
    )
}

fn status() -> Part {
    object([
        ("conditions", keyed(conditions(false), "type")),
        ("nodeClassObservedGeneration", integer("int64")),
        ("nodes", integer("int64").default(json!(0))),
        ("resources", resources()),
    ])
}
